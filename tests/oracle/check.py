"""Our kernels against Kafka's own classes, on random requests: how many, and which differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic

import numpy as np

from tests.oracle.answers import Answers, Place, ours, replicas
from tests.oracle.jvm import Jvm
from tests.oracle.requests import Requests, chunks
from udfs.placement.kernels import admin_utils
from udfs.placement.kernels.striped import striped

CHUNK = 5000  # cases; about 2 million partitions
SHOWN = 5  # mismatches that are reported in full


@dataclass(frozen=True)
class Oracle:
    """A class of Kafka's and the kernel that is to give the same. jars, placer: see Jvm."""

    title: str
    jars: str
    placer: str
    place: Place


ORACLES = {
    "java": Oracle("AdminUtils 4.0.0", "admin_utils", "AdminUtilsPlacer", admin_utils.kafka),
    "striped": Oracle("StripedReplicaPlacer 4.1.1", "striped", "StripedPlacer", striped),
    "scala": Oracle("kafka.admin.AdminUtils 2.8.2", "scala", "ScalaAdminUtilsPlacer", admin_utils.kafka),
}


@dataclass
class Tally:
    """What was compared. A case that differs in several topics is one mismatch."""

    cases: int = 0
    topics: int = 0
    rejected: int = 0
    partitions: int = 0
    mismatches: int = 0
    seconds: float = 0.0


def check(oracle: Oracle, cases: int, seed: int, say: Callable[[str], None] = print) -> Tally:
    """Compares `cases` random cases; `say` gets the first mismatches, and a line now and then."""
    tally = Tally()
    began = said = monotonic()
    with Jvm(oracle.jars, oracle.placer) as jvm, ThreadPoolExecutor(1) as beside:
        for requests, theirs in _ahead(chunks(cases, CHUNK, seed, oracle.jars == "striped"), jvm, beside):
            mine = ours(requests, oracle.place)
            answer = theirs()
            for case in differing_cases(requests, mine, answer).tolist():
                tally.mismatches += 1
                if tally.mismatches <= SHOWN:
                    say(report(requests.case(case), oracle.place, jvm))
            _count(tally, requests, mine)
            if monotonic() - said > 60:
                said = monotonic()
                say(f"  {oracle.title}: {tally.cases:,} cases, {tally.mismatches} mismatches, {said - began:.0f} s")
    tally.seconds = monotonic() - began
    return tally


def _ahead(
    source: Iterable[Requests], jvm: Jvm, beside: ThreadPoolExecutor
) -> Iterable[tuple[Requests, Callable[[], Answers]]]:
    """Requests, the JVM at work on them while the caller is."""
    for requests in source:
        yield requests, beside.submit(jvm.answers, requests).result


def differing_cases(requests: Requests, mine: Answers, theirs: Answers) -> np.ndarray:
    """The numbers of the cases of which some topic is answered otherwise, the one with the fewest brokers first."""
    differs = mine.hashes != theirs.hashes
    for topic in mine.texts.keys() | theirs.texts.keys():
        differs[topic] = mine.texts.get(topic) != theirs.texts.get(topic)
    cases = np.unique(requests.topics.of_list[differs])
    return cases[np.argsort(np.diff(requests.lists.offsets)[cases], kind="stable")]


def report(case: Requests, place: Place, jvm: Jvm) -> str:
    """A case as a JSON line, and per topic the two answers, from the first partition that differs on."""
    lines = [f"MISMATCH {json.dumps(case.as_json(), ensure_ascii=False)}"]
    mine, lists = ours(case, place).texts, replicas(case, place)
    for topic, kafkas in enumerate(jvm.full_answers(case)):
        our = mine.get(topic) or lists[topic]
        their = json.loads(kafkas) if kafkas.startswith("[") else kafkas
        if our == their:
            continue
        row = 0
        if isinstance(our, list) and isinstance(their, list):
            row = next((i for i, (a, b) in enumerate(zip(our, their, strict=False)) if a != b), 0)
            our, their = our[row : row + 20], their[row : row + 20]
        lines += [f"  topic {topic}, from row {row}", f"    Kafka {their}", f"    ours  {our}"]
    return "\n".join(lines)


def _count(tally: Tally, requests: Requests, mine: Answers) -> None:
    placed = np.ones(len(mine.hashes), dtype=np.bool_)
    placed[list(mine.texts)] = False
    tally.cases += len(requests.seeds)
    tally.topics += len(placed)
    tally.rejected += len(mine.texts)
    tally.partitions += int(requests.topics.partitions[placed].sum())
