"""Our kernels against Kafka's own classes, a few thousand random cases each; `make oracle N=1000000` runs more."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from pipelines.errors import EnvironmentFault
from pipelines.setup.java import JavaInfo
from tests.oracle import answers, jvm
from tests.oracle.check import ORACLES, compare_cases
from tests.oracle.requests import MAX_BROKERS, MAX_PARTITIONS, OracleCases, generate_cases, generate_chunks
from udfs.arrow.ragged import has_repeat
from udfs.placement.kernels.topic_arrays import BrokerLists, TopicPlacements, Topics

CASES = 3000


@pytest.mark.slow
@pytest.mark.usefixtures("jdk")
@pytest.mark.parametrize("which", ORACLES)
def test_kafka_answers_the_same(which: str) -> None:
    reports: list[str] = []
    tally = compare_cases(ORACLES[which], CASES, seed=20, report=reports.append)
    assert tally.mismatches == 0, "\n".join(reports)
    assert (tally.cases, tally.mismatches) == (CASES, 0)
    assert tally.rejected > CASES / 50
    assert tally.partitions > 100 * CASES


def place_with_differences(topics: Topics, lists: BrokerLists, states: np.ndarray) -> TopicPlacements:
    """Place as Kafka does, except for the last replica of the last topic, and the first error."""
    placed = ORACLES["java"].place(topics, lists, states)
    placed.broker[-1] += 1
    placed.error_code[np.flatnonzero(placed.error_code)[:1]] = 7
    return placed


@pytest.mark.slow
@pytest.mark.usefixtures("jdk")
def test_a_difference_is_reported() -> None:
    reports: list[str] = []
    oracle = dataclasses.replace(ORACLES["java"], place=place_with_differences)
    tally = compare_cases(oracle, 300, seed=4, report=reports.append)
    assert tally.mismatches == 2
    for report in reports:
        request, topic, kafka, ours = report.splitlines()[:4]
        asked = json.loads(request.removeprefix("MISMATCH "))
        assert set(asked) == {"seed", "brokers", "topics"}
        assert topic.startswith("  topic ")
        assert kafka.removeprefix("    Kafka ") != ours.removeprefix("    ours  ")


@pytest.mark.slow
@pytest.mark.usefixtures("jdk")
def test_a_placer_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="OutOfMemoryError"):  # noqa: SIM117
        with jvm.Jvm("admin_utils", "AdminUtilsPlacer", ("-Xmx8m",)) as small:
            small.answers(generate_cases(np.random.default_rng(1), 5000, striped=False))


@pytest.fixture(scope="module")
def many() -> OracleCases:
    """The requests of 20,000 cases."""
    return next(generate_chunks(20_000, 20_000, 1, striped=True))


@pytest.mark.usefixtures("jdk")
def test_jars_that_cannot_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = '<resolvers><ibiblio name="nowhere" m2compatible="true" root="file:///nowhere/"/></resolvers>'
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(f'<ivysettings><settings defaultResolver="nowhere"/>{nowhere}</ivysettings>')
    monkeypatch.setenv("KAFKA_PLACEMENT_IVY_SETTINGS", str(settings))
    monkeypatch.setattr(jvm, "JARS_DIR", tmp_path / "jars")
    with pytest.raises(EnvironmentFault, match=r"kafka-metadata:4.1.1 could not be fetched .* Run `make oracle"):
        jvm.class_path("striped")


def test_without_a_compiler_the_tests_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "check_java", lambda: JavaInfo("true", 17, ""))  # lists no modules
    with pytest.raises(EnvironmentFault, match=r"true is a Java without compiler. Install a Java 17"):
        jvm.java_compiler.__wrapped__()


def test_requests_are_of_every_kind(many: OracleCases) -> None:
    topics, lists = many.topics, many.lists
    sizes = np.diff(lists.offsets)
    assert (sizes.min(), sizes.max()) == (0, MAX_BROKERS)
    assert (sizes == 1).sum() > 100
    assert topics.partitions.max() > 0.95 * MAX_PARTITIONS
    assert (topics.partitions > 1000).sum() > 500
    assert ((topics.partitions > 1000) & (sizes[topics.broker_list] > 100)).sum() > 100
    assert set(range(-1, 8)) <= set(topics.replication_factor.tolist())
    assert (topics.replication_factor > sizes[topics.broker_list]).sum() > 100
    assert (np.diff(many.topic_offsets) > 1).sum() > 1000
    assert (topics.fixed_start_index > 2**31 - 20_001).sum() > 100
    assert (topics.start_partition > 0).sum() > 1000
    with_rack = np.array([part.sum() for part in np.split(lists.rack >= 0, lists.offsets[1:-1])])
    assert ((with_rack > 0) & (with_rack < sizes)).sum() > 1000
    assert ((with_rack == sizes) & (sizes > 0)).sum() > 1000
    unfenced = np.array([part.sum() for part in np.split(~lists.fenced, lists.offsets[1:-1])])
    assert ((unfenced == 0) & (sizes > 1)).sum() > 100


def test_no_broker_is_twice_in_a_list(many: OracleCases) -> None:
    assert not has_repeat(many.lists.ids, many.lists.offsets).any()
    assert many.lists.ids.min() >= 0


def test_names_are_in_javas_order() -> None:
    names = generate_cases(np.random.default_rng(1), 1, striped=True).names
    assert names.index("\U0001f600") < names.index("\uff21")
    assert names != sorted(names)


def test_a_seed_gives_the_same_requests_again() -> None:
    first, again, other = (list(generate_chunks(30, 20, seed, striped=True)) for seed in (1, 1, 2))
    assert [c.select_case(3).to_json() for c in first] == [c.select_case(3).to_json() for c in again]
    assert first[0].to_json() != other[0].to_json()
    assert [len(c.seeds) for c in first] == [20, 10]


def test_a_hash_is_of_ids_widths_and_brokers() -> None:
    case = next(generate_chunks(300, 300, 7, striped=False))
    place = ORACLES["java"].place
    hashes = answers.compute_answers(case, place).hashes
    moved = dataclasses.replace(case, topics=case.topics._replace(start_partition=np.full(len(hashes), 5)))
    assert len(set(hashes.tolist())) > 0.8 * len(hashes)
    assert (hashes != answers.compute_answers(moved, place).hashes).sum() > 0.8 * len(hashes)


@pytest.mark.parametrize(
    ("text", "in_java"),
    [
        (
            "ArrayIndexOutOfBoundsException: Index -3 out of bounds for length 5",
            "IndexOutOfBoundsException: Index -3 out of bounds for length 5",
        ),
        (
            "IndexOutOfBoundsException: -3 is out of bounds (min 0, max 4)",
            "IndexOutOfBoundsException: Index -3 out of bounds for length 5",
        ),
        ("InvalidPartitionsException: -3 is out of bounds", "InvalidPartitionsException: -3 is out of bounds"),
    ],
)
def test_scalas_words_for_an_index(text: str, in_java: str) -> None:
    assert jvm.in_javas_words(text) == in_java
