"""Every paste of data_samples/pastes gives the partitions, brokers, quarantined lines and warnings beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import Source
from pipelines.verdict.verdict_points import Level
from pipelines.what_if.what_if_answers import evaluate_brokers
from udfs.failures.topic_defaults import KAFKA_DEFAULTS

from .facts import SAMPLES

FOLDER = SAMPLES / "pastes"
PASTES = sorted(p for p in FOLDER.iterdir() if p.suffix not in (".expected", ".md"))


def describe(path: Path) -> Iterator[str]:
    """Yield what a source shows and what it lacks: partitions, brokers, topics, quarantined records, warnings."""
    try:
        snapshot = load_snapshot(Source("paste", (path,)))
    except SourceError as error:
        yield f"error{str(error).removeprefix(str(path))}"
        return
    for row in snapshot.partitions.to_pylist():
        lists = {name: ",".join(map(str, row[name])) for name in ("replicas", "isr") if row[name] is not None}
        moves = {
            name: ",".join(map(str, row[f"{name}_replicas"]))
            for name in ("adding", "removing")
            if row[f"{name}_replicas"]
        }
        values = " ".join(f"{name} {value}".rstrip() for name, value in (lists | moves).items())
        inferred = " inferred" if row["state_inferred"] else ""
        yield f"{row['topic']}-{row['partition']} leader {row['leader']} {values}{inferred}"
    brokers = snapshot.brokers.to_pylist()
    for state, live in (("live", True), ("down", False), ("unknown", None)):
        ids = [
            f"{row['broker_id']}{'@' + row['rack'] if row['rack'] else ''}" for row in brokers if row["live"] is live
        ]
        if ids:
            yield f"{state}: {' '.join(ids)}"
    for row in snapshot.topics.to_pylist():
        if not row["listed_partitions"]:
            yield f"named, but not shown: {row['topic']}"
    for row in snapshot.quarantined:
        yield f"quarantined: line {row['line_number']}: {'; '.join(row['reasons'])}"
    yield from (f"warning: {line}" for line in snapshot.conflicting_listings)
    yield from (f"warning: line {row['line_number']}: {row['warning']}" for row in snapshot.warnings.to_pylist())
    for row in snapshot.conflicts.to_pylist():
        yield f"conflict: {row['entity']}: {row['field']} {row['value']} or {row['other_value']}: {row['outcome']}"


@pytest.mark.parametrize("path", PASTES, ids=lambda path: path.name)
def test_a_paste_gives_what_stands_beside_it(path: Path) -> None:
    expected = path.with_name(f"{path.name}.expected").read_text(encoding="utf-8")
    assert "\n".join(describe(path)) + "\n" == expected


def test_the_readme_explains_every_paste() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in PASTES if f"| `{path.name}` |" not in readme] == []


@pytest.mark.parametrize(
    "name",
    [
        *("kcat-of-one-topic.json", "kcat-of-one-topic.txt", "min-isr-above-replicas.txt", "python-program.txt"),
        *("rpk-brokers.txt", "rpk-cluster-partitions.txt", "rpk-v21.txt", "rpk-with-options.txt", "kafka-ui.json"),
        *("only-one-in-sync.txt", "moved-partitions-of-a-topic.txt", "reassigned-to-down-broker.txt"),
        *("broker-lost-for-good.txt", "command-select-first.txt"),
    ],
)
def test_the_verdict_on_a_part_or_a_sick_cluster_is_never_ok(name: str) -> None:
    verdict = evaluate_brokers(load_snapshot(Source("paste", (FOLDER / name,))), KAFKA_DEFAULTS).verdict
    assert verdict.level is not Level.OK


@pytest.mark.parametrize("name", ["redpanda-health.json", "map-of-topicmappr.txt"])
def test_without_replicas_there_is_no_verdict(name: str) -> None:
    with pytest.raises(SourceError):
        evaluate_brokers(load_snapshot(Source("paste", (FOLDER / name,))), KAFKA_DEFAULTS)
