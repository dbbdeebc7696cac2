"""Compare our kernels with Kafka's own classes on random requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic

import numpy as np

from tests.oracle.answers import Answers, PlaceFunction, compute_answers, place_replicas
from tests.oracle.jvm import Jvm
from tests.oracle.requests import OracleCases, add_cordons, generate_chunks
from udfs.placement.kernels import admin_utils
from udfs.placement.kernels.striped import place_striped

CHUNK = 5000  # cases; about 2 million partitions
MAX_REPORTED = 5  # mismatches


@dataclass(frozen=True)
class Oracle:
    """A class of Kafka's, and our kernel that must give the same answers. jars, placer: see Jvm.

    cordons: whether its version can cordon log dirs, which its errors then say.
    """

    title: str
    jars: str
    placer: str
    place: PlaceFunction
    cordons: bool = False


ORACLES = {
    "java": Oracle("AdminUtils 4.0.0", "admin_utils", "AdminUtilsPlacer", admin_utils.place_kafka),
    "striped": Oracle("StripedReplicaPlacer 4.1.1", "striped", "StripedPlacer", place_striped),
    "striped_4_3": Oracle(
        "StripedReplicaPlacer 4.3.1", "controller_4_3", "CordonedPlacer", place_striped, cordons=True
    ),
    "striped_4_4": Oracle(
        "StripedReplicaPlacer 4.4.0", "controller_4_4", "CordonedPlacer", place_striped, cordons=True
    ),
    "scala": Oracle("kafka.admin.AdminUtils 2.8.2", "scala", "ScalaAdminUtilsPlacer", admin_utils.place_kafka),
}


@dataclass
class Tally:
    """Counts of a comparison. A case with differences in several topics is one mismatch."""

    cases: int = 0
    topics: int = 0
    rejected: int = 0
    partitions: int = 0
    mismatches: int = 0
    seconds: float = 0.0


def compare_cases(oracle: Oracle, cases: int, seed: int, report: Callable[[str], None] = print) -> Tally:
    """Compare random cases; report the first mismatches, and the progress once a minute."""
    tally = Tally()
    began = reported = monotonic()
    with Jvm(oracle.jars, oracle.placer) as jvm, ThreadPoolExecutor(1) as executor:
        for requests, read_kafka_answers in _submit_ahead(_generate(oracle, cases, seed), jvm, executor):
            our_answers = compute_answers(requests, oracle.place, cordons=oracle.cordons)
            kafka_answers = read_kafka_answers()
            for case in find_mismatches(requests, our_answers, kafka_answers).tolist():
                tally.mismatches += 1
                if tally.mismatches <= MAX_REPORTED:
                    report(describe_mismatch(requests.select_case(case), oracle, jvm))
            _count(tally, requests, our_answers)
            if monotonic() - reported > 60:
                reported = monotonic()
                report(
                    f"  {oracle.title}: {tally.cases:,} cases, {tally.mismatches} mismatches, {reported - began:.0f} s"
                )
    tally.seconds = monotonic() - began
    return tally


def _generate(oracle: Oracle, cases: int, seed: int) -> Iterable[OracleCases]:
    chunks = generate_chunks(cases, CHUNK, seed, oracle.place is place_striped)
    return (
        add_cordons(one, np.random.default_rng([seed, i])) if oracle.cordons else one for i, one in enumerate(chunks)
    )


def _submit_ahead(
    source: Iterable[OracleCases], jvm: Jvm, executor: ThreadPoolExecutor
) -> Iterable[tuple[OracleCases, Callable[[], Answers]]]:
    """Yield requests that the JVM works on while the caller does."""
    for requests in source:
        yield requests, executor.submit(jvm.answers, requests).result


def find_mismatches(requests: OracleCases, ours: Answers, kafkas: Answers) -> np.ndarray:
    """Return the numbers of the cases whose answers differ, those with fewest brokers first."""
    differs = ours.hashes != kafkas.hashes
    for topic in ours.errors.keys() | kafkas.errors.keys():
        differs[topic] = ours.errors.get(topic) != kafkas.errors.get(topic)
    cases = np.unique(requests.topics.broker_list[differs])
    return cases[np.argsort(np.diff(requests.lists.offsets)[cases], kind="stable")]


def describe_mismatch(case: OracleCases, oracle: Oracle, jvm: Jvm) -> str:
    """Return a case as a JSON line, and both answers to each topic from the first partition that differs."""
    lines = [f"MISMATCH {json.dumps(case.to_json(), ensure_ascii=False)}"]
    errors = compute_answers(case, oracle.place, cordons=oracle.cordons).errors
    lists = place_replicas(case, oracle.place)
    for topic, answer in enumerate(jvm.full_answers(case)):
        our = errors.get(topic) or lists[topic]
        kafkas = json.loads(answer) if answer.startswith("[") else answer
        if our == kafkas:
            continue
        row = 0
        if isinstance(our, list) and isinstance(kafkas, list):
            row = next((i for i, (a, b) in enumerate(zip(our, kafkas, strict=False)) if a != b), 0)
            our, kafkas = our[row : row + 20], kafkas[row : row + 20]
        lines += [f"  topic {topic}, from row {row}", f"    Kafka {kafkas}", f"    ours  {our}"]
    return "\n".join(lines)


def _count(tally: Tally, requests: OracleCases, answers: Answers) -> None:
    placed = np.ones(len(answers.hashes), dtype=np.bool_)
    placed[list(answers.errors)] = False
    tally.cases += len(requests.seeds)
    tally.topics += len(placed)
    tally.rejected += len(answers.errors)
    tally.partitions += int(requests.topics.partitions[placed].sum())
