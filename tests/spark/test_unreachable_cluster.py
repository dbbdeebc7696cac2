"""A run over several clusters, of which one does not answer, or cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.commands import call
from tests.docs.pages import ROOT
from tests.live.kafka_cluster import find_free_ports


@pytest.mark.slow
def test_others_are_written_and_the_exit_code_tells(spark: SparkSession, tmp_path: Path) -> None:
    address = f"down=kafka://127.0.0.1:{find_free_ports(1)[0]}"
    (tmp_path / "binary.txt").write_bytes(b"Topic: a\n\0\n")
    unreadable = (f"binary={tmp_path / 'binary.txt'}", f"missing={tmp_path / 'missing.txt'}")
    saved = f"prod={ROOT / 'data_samples' / 'kafka-4.1.1-kraft'}"
    out = call("run", address, *unreadable, saved, "--to", "silver", "--warehouse", str(tmp_path / "w"), code=1)
    *_, last = out.stderr.strip().splitlines()
    left_out = [line for line in out.stderr.splitlines() if line.endswith("This cluster is left out of the run")]
    words = ("Connection refused", "there is no such file", "is binary, not text")
    assert all(text in line for text, line in zip(words, left_out, strict=True))
    assert last == "kafka-placement: 3 clusters could not be read, see above"
    clusters = DeltaTable(str(tmp_path / "w" / "silver" / "partitions")).to_pyarrow_table(columns=["cluster_id"])
    assert set(clusters["cluster_id"].to_pylist()) == {"prod"}


def test_no_source_is_left(tmp_path: Path) -> None:
    addresses = [f"{name}=kafka://127.0.0.1:{port}" for name, port in zip("ab", find_free_ports(2), strict=True)]
    out = call("run", *addresses, "--warehouse", str(tmp_path / "w"), code=1)
    assert out.stderr.count("Connection refused") == 2
    assert not (tmp_path / "w").exists()
