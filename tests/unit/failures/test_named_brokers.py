"""`what-if --fail`: brokers by id, and racks as all their brokers."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import typer

from pipelines.cli.option_values import find_brokers
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source


@pytest.fixture
def racked(tmp_path: Path) -> Snapshot:
    """A cluster of broker 1 and 4 in rack a, 2 in rack b, 3 in a rack that is named 2, and 5 in an unknown one."""
    file = tmp_path / "prod.txt"
    file.write_text("Topic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2,3,4,5\tIsr: 1,2,3,4,5\n")
    racks = {1: "a", 2: "b", 3: "2", 4: "a", 5: None}
    brokers = pa.table({"broker_id": pa.array(racks, pa.int32()), "rack": pa.array(racks.values(), pa.string())})
    return replace(load_snapshot(find_source(str(file))), brokers=brokers)


@pytest.mark.parametrize(
    ("text", "failed"), [("a", [1, 4]), ("4, rack:2,4", [4, 3]), ("2", [2]), ("rack:b,a", [2, 1, 4]), ("5,9", [5, 9])]
)
def test_racks_are_all_their_brokers(text: str, failed: list[int], racked: Snapshot) -> None:
    assert find_brokers("--fail", text, racked) == failed


@pytest.mark.parametrize("text", ["c", "1,rack:4", "rack:", "1;2"])
def test_an_unknown_rack(text: str, racked: Snapshot) -> None:
    with pytest.raises(typer.BadParameter, match=r"nor a rack of cluster prod. Its racks: 2, a, b\."):
        find_brokers("--fail", text, racked)


@pytest.mark.parametrize("text", ["", "1,,2", "99999999999"])
def test_not_an_id(text: str, racked: Snapshot) -> None:
    with pytest.raises(typer.BadParameter, match=r"is not a broker id"):
        find_brokers("--fail", text, racked)
