"""`kafka-placement replay-stream` as a person runs it, where what arrives is no event."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_run import call

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.mark.parametrize(
    "line", ['{"cluster_id": "c", "snapshot_id": "s", "event": 0, "at_ms": 1, "kind": "dances"}', "{"]
)
def test_a_bad_line_is_told_in_one_line(tmp_path: Path, line: str) -> None:
    """The file, what is wrong, the remedy; no trace of Spark's."""
    folder = tmp_path / "arriving"
    folder.mkdir()
    (folder / "bad.jsonl").write_text(line + "\n")
    done = call("replay-stream", str(folder), "--warehouse", str(tmp_path / "w"), "--once", code=1)
    (said,) = done.stderr.splitlines()
    assert said.startswith("kafka-placement: file:/")
    assert "arriving/bad.jsonl: is not all events: " in said
    assert said.endswith(
        "Write one JSON object a line with the columns of silver.cluster_events; kinds: docs/replay.md."
    )
    assert done.stdout == ""
