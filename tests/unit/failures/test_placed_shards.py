"""Topics of a shard are placed by a scheme over the brokers that Kafka would place over."""

from __future__ import annotations

import pyarrow as pa

from udfs.failures.partition_arrays import TopicShard, place_shard
from udfs.failures.scenarios import Cluster
from udfs.placement.schemes import SCHEMES

_LOADS = pa.list_(pa.struct([("partition", pa.int32())]))


def test_only_krafts_scheme_leaves_out_cordoned_brokers() -> None:
    topics = pa.table(
        {
            "topic": ["t"],
            "partitions": [12],
            "replication_factor": [2],
            "partition_loads": pa.array([[{"partition": p} for p in range(12)]], _LOADS),
        }
    )
    cluster = Cluster((3, 4, 7, 9), (None,) * 4, cordoned=(None, True, False, None))
    for name, expected in (("kraft", {0, 2, 3}), ("kafka", {0, 1, 2, 3}), ("naive", {0, 1, 2, 3})):
        placed = place_shard(TopicShard("c", cluster, topics, topics), SCHEMES[name], 1)
        assert set(placed.broker.tolist()) == expected
