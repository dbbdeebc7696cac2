"""A run over several clusters, of which one does not answer."""

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
    saved = f"prod={ROOT / 'data_samples' / 'kafka-4.1.1-kraft'}"
    out = call("run", address, saved, "--to", "silver", "--warehouse", str(tmp_path / "w"), code=1)
    first, *_, last = out.stderr.strip().splitlines()
    assert "Connection refused" in first
    assert first.endswith("This cluster is left out of the run")
    assert last == "kafka-placement: 1 cluster could not be read, see above"
    clusters = DeltaTable(str(tmp_path / "w" / "silver" / "partitions")).to_pyarrow_table(columns=["cluster_id"])
    assert set(clusters["cluster_id"].to_pylist()) == {"prod"}


def test_no_source_is_left(tmp_path: Path) -> None:
    addresses = [f"{name}=kafka://127.0.0.1:{port}" for name, port in zip("ab", find_free_ports(2), strict=True)]
    out = call("run", *addresses, "--warehouse", str(tmp_path / "w"), code=1)
    assert out.stderr.count("Connection refused") == 2
    assert not (tmp_path / "w").exists()
