"""The fuzzer's own parts: its checks find faults that are made on purpose, and find none in the samples."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.cli.what_if_rendering import format_cluster
from pipelines.errors import SourceError
from pipelines.ingest.snapshot_reader import Snapshot, build_snapshot, load_snapshot, parse_facts, read_files
from pipelines.ingest.source_format import FactKind
from pipelines.ingest.sources import Source, find_source
from pipelines.what_if.what_if_answers import evaluate_brokers
from tests.fuzz import case_execution, data_lines
from tests.fuzz.account_checks import check_account, check_partitions
from tests.fuzz.answer_checks import check_all_clear, check_comments, check_state
from tests.fuzz.case_execution import run_case
from tests.fuzz.cases import FuzzCase, InputFile, build_case
from tests.fuzz.healthy_listings import build_healthy_listing
from tests.fuzz.minimisation import minimise_case
from tests.fuzz.samples import load_samples
from tests.fuzz.session_mutations import FAILURES, repeat_for_another_cluster
from tests.fuzz.source_lines import decode_file
from udfs.failures.topic_defaults import TopicDefaults

DESCRIBE = (
    b"Topic: orders\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: \n"
    b"\tTopic: orders\tPartition: 0\tLeader: 3\tReplicas: 3,2\tIsr: 3,2\n"
    b"\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2,3\n"
)


def case_of(data: bytes, name: str = "x.txt") -> FuzzCase:
    return FuzzCase((InputFile(name, data),), is_folder=False)


@pytest.mark.slow
def test_no_sample_breaks_a_rule(tmp_path: Path) -> None:
    for sample in load_samples():
        result = run_case(case_of(sample.raw[:20_000], sample.name), tmp_path / "case", max_seconds=60)
        assert result.problems == [], sample.name


def test_each_pattern_of_data_is_found_in_a_sample() -> None:
    found = {data_lines.name_data(line) for sample in load_samples() for line in sample.text.splitlines()}
    assert found - {None} == {*data_lines._PATTERNS, *data_lines._DOCUMENTS, "record of a metadata log"}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Topic: we should talk",
        "\tTopic: orders\tPartition: x\tLeader: 1\tReplicas: 1\tIsr: 1",
        "{}",
        "1 2 3",
        "a:b:c",
    ],
)
def test_other_lines_are_not_surely_data(line: str) -> None:
    assert data_lines.name_data(line) is None


def read(tmp_path: Path) -> tuple[Snapshot, Source, pa.Table]:
    (tmp_path / "x.txt").write_bytes(DESCRIBE)
    source = Source("x", (tmp_path / "x.txt",))
    files = list(read_files(source))
    facts = parse_facts(files)
    return build_snapshot(source, files, facts), source, facts


def test_data_that_is_ignored_and_partitions_that_are_invented_are_found(tmp_path: Path) -> None:
    snapshot, source, facts = read(tmp_path)
    lines = {"x.txt": decode_file(DESCRIBE)}
    assert [*check_account(snapshot, facts, lines), *check_partitions(snapshot, facts, lines)] == []

    is_last = pc.equal(facts["line_number"], 3)
    kinds = pc.if_else(is_last, pa.scalar(FactKind.IGNORED.value), facts["kind"])
    reasons = pc.if_else(is_last, pa.scalar(["prose"], facts["reasons"].type), facts["reasons"])
    ignored = facts.set_column(facts.schema.get_field_index("kind"), "kind", kinds)
    ignored = ignored.set_column(facts.schema.get_field_index("reasons"), "reasons", reasons)
    checks = [
        problem.check for problem in check_account(build_snapshot(source, snapshot.files, ignored), ignored, lines)
    ]
    assert checks == ["data ignored"]

    replicas = pc.if_else(is_last, pa.scalar([2, 4], facts["replicas"].type), facts["replicas"])
    invented = facts.set_column(facts.schema.get_field_index("replicas"), "replicas", replicas)
    checks = [problem.check for problem in check_partitions(snapshot, invented, lines)]
    assert checks == ["invented replicas", "invented replicas"]


def test_exceptions_slow_cases_and_raw_control_characters_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_source: Source) -> None:
        raise IndexError

    def spin(_source: Source) -> None:
        while True:
            pass

    def refuse(source: Source) -> None:
        raise SourceError(str(source.files[0]), "\x1b[2J", "x" * 1_100 + "\n" + "y" * 1_100)

    found = []
    for function in (fail, spin, refuse):
        monkeypatch.setattr(case_execution, "read_files", function)
        found.append([problem.check for problem in run_case(case_of(DESCRIBE), tmp_path / "c", 0.2).problems])
    assert found[0] == ["IndexError in test_checks.py fail"]
    assert found[1] == ["too slow: read"]
    assert found[2] == []  # messages are escaped and shortened where they are printed
    monkeypatch.setattr(case_execution, "print_error", lambda lines: print(*lines, file=sys.stderr))
    checks = [problem.check for problem in run_case(case_of(DESCRIBE), tmp_path / "c").problems]
    assert checks == ["message has a control character", "length of a message"]


def test_a_case_depends_on_its_seed_and_index_alone() -> None:
    assert [build_case(7, i) for i in range(30)] == [build_case(7, i) for i in range(30)]
    assert len({case.files for i in range(30) for case in (build_case(7, i), build_case(8, i))}) > 50


def test_a_failing_case_becomes_minimal() -> None:
    case = FuzzCase((InputFile("a", b"x\ny\n"), InputFile("b", b"1\n2\n  needle 3\n4\n")), is_folder=True)
    smaller = minimise_case(case, lambda case: any(b"needle" in file.data for file in case.files))
    assert smaller.files == (InputFile("b", b"needle"),)


def check_answers(tmp_path: Path, text: str) -> set[str]:
    """Return which checks an answer that is OK would break."""
    (tmp_path / "x.txt").write_text(text)
    source = Source("x", (tmp_path / "x.txt",))
    files = list(read_files(source))
    facts = parse_facts(files)
    snapshot = build_snapshot(source, files, facts)
    lines = {"x.txt": decode_file(text.encode())}
    return {problem.check for problem in check_all_clear(snapshot, facts, ["cluster x", "  OK: so it seems"], lines)}


def test_an_all_clear_without_evidence_is_found(tmp_path: Path) -> None:
    healthy = build_healthy_listing(random.Random(1)).text
    assert check_answers(tmp_path, healthy) == set()
    assert check_answers(tmp_path, healthy + FAILURES[0] + "\n") >= {"OK although a command failed"}
    assert check_answers(tmp_path, healthy + "\tTopic: x\tPartition: 0\tLeader: ?\n") == {
        "OK with a quarantined record"
    }
    assert check_answers(tmp_path, "broker_id,rack\n1,a\n") >= {"OK without partitions"}
    two = repeat_for_another_cluster(random.Random(1), DESCRIBE.decode())
    assert check_answers(tmp_path, two) >= {"OK although two clusters answered"}
    offline = DESCRIBE.decode().replace("Leader: 3", "Leader: none")
    assert check_answers(tmp_path, offline) == {"OK with an offline partition"}


def test_a_healthy_listing_is_fine_without_mutations(tmp_path: Path) -> None:
    for seed in range(20):
        (tmp_path / "x.txt").write_text(build_healthy_listing(random.Random(seed)).text)
        answer = evaluate_brokers(load_snapshot(find_source(str(tmp_path / "x.txt"))), TopicDefaults())
        assert format_cluster(answer)[1].startswith("  OK"), seed


def test_a_leader_outside_the_isr_and_a_comment_that_is_used_are_found(tmp_path: Path) -> None:
    snapshot, _, facts = read(tmp_path)
    assert list(check_state(snapshot)) == []
    isr = pa.array([[2], [2, 3]], snapshot.partitions["isr"].type)
    at = snapshot.partitions.schema.get_field_index("isr")
    wrong = replace(snapshot, partitions=snapshot.partitions.set_column(at, "isr", isr))
    assert [problem.check for problem in check_state(wrong)] == ["leader outside the ISR"]
    lines = decode_file(DESCRIBE.replace(b"\tTopic: orders\tPartition: 0", b"# Topic: orders\tPartition: 0"))
    assert [problem.check for problem in check_comments(facts, {"x.txt": lines})] == ["commented out, but used"]
