"""Topics in tiered storage (KIP-405): only their local segments fill disks, and only these are copied."""

from __future__ import annotations

import json
from pathlib import Path

from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from udfs.arrow.ragged import row_of
from udfs.planning.cluster_model import build_model
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import PlanRequest

LOCAL, REMOTE = 300, 90_000  # bytes of a partition on the disk of each replica, and in the remote storage
CONFIGS = f"remote.storage.enable=true,local.retention.bytes={LOCAL},retention.bytes={REMOTE}"
DESCRIBE = f"""\
Topic: tiered\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: {CONFIGS}
\tTopic: tiered\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2
Topic: other\tPartitionCount: 1\tReplicationFactor: 2\tConfigs:
\tTopic: other\tPartition: 0\tLeader: 3\tReplicas: 3,1\tIsr: 3,1
"""


def test_only_local_bytes_are_on_disks_and_copied(tmp_path: Path) -> None:
    (tmp_path / "topics.txt").write_text(DESCRIBE)
    log = {"partition": "tiered-0", "size": LOCAL, "offsetLag": 0, "isFuture": False}
    logs = [{"broker": broker, "logDirs": [{"logDir": "/d", "error": None, "partitions": [log]}]} for broker in (1, 2)]
    (tmp_path / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": logs}))
    (tmp_path / "offsets.txt").write_text(f"tiered:0:{REMOTE}\n")  # records since the beginning: most are remote
    snapshot = load_snapshot(find_source(f"prod={tmp_path}"))
    assert snapshot.quarantined == []
    rows = {row["topic"]: row for row in snapshot.partitions.to_pylist()}
    assert (rows["tiered"]["size_bytes"], rows["other"]["size_bytes"]) == (LOCAL, None)
    model = build_model("prod", snapshot.brokers, snapshot.partitions, snapshot.topics)
    assert model.sum_bytes(model).tolist() == [LOCAL, LOCAL, 0]
    plan = make_plan(model, PlanRequest("drain", brokers=(2,)))
    copied = model.size[row_of(plan.offsets)[model.find_copied(plan)]]
    assert copied.tolist() == [LOCAL]
