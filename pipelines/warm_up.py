"""The last step of set-up: a first start of Spark, which shows that it works here and makes later starts faster.

`python -m pipelines.warm_up` writes down the classes that a small piece of work loads (Java's class data sharing);
a session that starts from that archive is up in half of the time. It also calls the kernels once: compiled, they
are kept beside their sources.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.errors import KafkaPlacementError
from pipelines.java import check_java
from pipelines.jvm import class_archive
from pipelines.session import open_session, stop_embedded
from udfs.hotspot_odds import Mix, Trial
from udfs.kernels import replay_codes as codes
from udfs.kernels.replay_groups import JOIN
from udfs.kernels.topics import BrokerLists
from udfs.origin import BROKERS, TOPICS, topic_origins
from udfs.outcomes.durability import DurabilityPlan, durability
from udfs.outcomes.failures import Outcome
from udfs.outcomes.groups import PARTITIONS as OF_PARTITIONS
from udfs.outcomes.groups import TOPICS as OF_TOPICS
from udfs.outcomes.groups import Share, computed, observed, place
from udfs.outcomes.held import topic_hotspots
from udfs.outcomes.scenarios import Cluster, RandomPlan, scenarios_of
from udfs.outcomes.sums import Want, added, sum_placement, sum_seed, with_pairs
from udfs.parcels import packed
from udfs.placement import LivingBrokers, Requests, place_topics
from udfs.planning.clusters import KINDS, planner
from udfs.planning.goals import GOALS
from udfs.planning.metrics import Effort
from udfs.planning.waves import Limits
from udfs.planning.wishes import PRIORITIES, Wishes
from udfs.replay.answers import replay
from udfs.replay.events import Begin, Event, Held
from udfs.replay.groups import GroupEvent, replay_groups
from udfs.schemes import KAFKA, SCHEMES

COLUMNS = "part STRING NOT NULL, id BIGINT, replicas ARRAY<INT>, size DOUBLE, at TIMESTAMP"
ROWS = """SELECT 'a' AS part, id, array(CAST(id AS INT), 2) AS replicas, id / 2 AS size, TIMESTAMP '2026-01-01' AS at
FROM range(100)"""


def compile_kernels() -> None:
    """Nothing; a topic is placed by each scheme, with racks and without, counted, and its origin sought."""
    name, two = pa.array(["warm-up"]), pa.array([2], pa.int32())
    mix = Mix(np.zeros(1, np.uint64), np.array([2]), np.array([2]), np.array([], dtype=np.int64), np.zeros(2, np.int64))
    for scheme in SCHEMES.values():
        for racks in (None, ["a", "b", "a"]):
            if scheme.place is not None:
                lists = BrokerLists.of(np.arange(3), np.array([0, 3]), racks)
                place_topics(Requests(name, name, two, two), lists, np.zeros(1, dtype=np.int64), scheme, 0)
                trial = Trial.of(scheme.name, mix, LivingBrokers((0, 1, 2), racks or ()), 1, 1)
                trial.counts(0)
                trial.expected_blind()
    brokers = pa.table(
        [pa.array([0, 1, 2], pa.int32()), pa.nulls(3, pa.string()), pa.array([True] * 3)], schema=BROKERS
    )
    shown = [{"partition": 0, "replicas": [0, 1]}, {"partition": 1, "replicas": [1, 2]}]
    for racks in (brokers["rack"], pa.array(["a", "b", "a"])):
        topics = pa.Table.from_pylist([dict.fromkeys(TOPICS.names[:3], "warm-up") | {"shown": shown}], TOPICS)
        topic_origins(topics, brokers.set_column(1, "rack", racks))


def compile_failures() -> None:
    """Nothing; the failures of a cluster of three brokers and a topic are summed and looked at once."""
    cluster = Cluster((0, 1, 2), ("a", "b", "a"), ((0, 1),), 2)
    topic = {"topic": "t", "partitions": 2, "replication_factor": 2, "min_insync_replicas": 1, "partition_loads": []}
    rows = [
        {"topic": "t", "partition": p, "replicas": [p, p + 1], "leader": p, "isr": [], "elr": [], "lags": []}
        for p in range(2)
    ]
    share = Share("c", cluster, pa.Table.from_pylist([topic], OF_TOPICS), pa.Table.from_pylist(rows, OF_PARTITIONS))
    scenarios = scenarios_of("c", cluster, RandomPlan((2,), 1, 0))
    ids = np.arange(3, dtype=np.int32)
    for placement in (observed(share), computed(share, place(share, SCHEMES[KAFKA], 0))):
        sums = with_pairs(added([sum_placement(placement, 3, Want(scenarios, pairs=True))], 3))
        topic_hotspots(placement, pa.array(["t"]), ids, 1.0)
    sum_seed(place(share, SCHEMES[KAFKA], 0), 3)
    for steps in (0, 10**6):
        durability(Outcome(ids, scenarios, sums), cluster.racks, DurabilityPlan((1, 2, 3), steps, 1, 0))


def compile_plans() -> None:
    """Nothing; a plan of each goal is made for a cluster of seven brokers, one of them empty, in three racks."""
    ids = {"broker_id": range(7), "rack": [f"r{b % 3}" for b in range(7)], "alive": [True] * 7, "draining": [False] * 7}
    rows = [
        {"topic": "t", "partition": p, "leader": p % 3, "replicas": [p % 3, 3 + p % 2], "size_bytes": p + 1}
        | {"adding_replicas": [], "removing_replicas": [], "bytes_in_per_s": 1.0 + p, "bytes_out_per_s": 2.0 + p}
        for p in range(24)
    ]
    tables = {
        "brokers": pa.table(ids),
        "topics": pa.table({"topic": ["t"], "marked_for_deletion": [False], "min_insync_replicas": [1]}),
        "partitions": pa.Table.from_pylist(rows),
    }
    parcels = [packed(tables[kind].select(schema.names).cast(schema)) for kind, schema in KINDS.items()]
    held = pa.table({"kind": list(KINDS), "parcel": pa.array(parcels, pa.binary())})
    more = {"drain": {"brokers": (5,)}, "replace": {"replacements": ((5, 6),)}, "rf": {"factor": 3}}
    key = (pa.scalar("warm-up"), pa.scalar(""))
    for goal in GOALS:
        wishes = Wishes(goal, priorities=PRIORITIES, **more.get(goal, {}))  # type: ignore[arg-type]
        planner(wishes, Limits(), Effort(), 1)(key, held)


def compile_replays() -> None:
    """Nothing; a cluster of two brokers is replayed, with a group of one member."""
    begin = Begin((0, 1), frozenset((0, 1)), (Held(("t", 0), (0, 1), (0, 1), 0),), 0, 1)
    events = [Event(0, codes.BROKER_DOWN, 1), Event(10**6, codes.APPEND, partition=("t", 0), request=0, messages=1)]
    replay(begin, events)
    replay_groups([GroupEvent(0, JOIN, "g", "m")])


def make_archive() -> Path:
    """The archive, made anew if it is missing; whole or not at all."""
    archive = class_archive(check_java())
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".warm-up-", dir=archive.parent) as scratch:
        made = Path(scratch, archive.name)
        options = f"-XX:ArchiveClassesAtExit={made} -Xlog:disable -Xlog:all=error:stderr"
        exit_code = work(Path(scratch, "table"), {"spark.driver.extraJavaOptions": options})
        if exit_code == 0 and made.is_file():  # else starts are slower, and that is all
            for outdated in archive.parent.glob("classes-*.jsa"):
                outdated.unlink()
            made.replace(archive)
    return archive


def work(table: Path, settings: dict[str, str]) -> int:
    """The exit code of a JVM whose Spark did once what a run does often, and ended."""
    spark = open_session("warm-up", warehouse=None, extra=settings)
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING delta PARTITIONED BY (part) COMMENT 'a table'")
    rows = spark.sql(ROWS)
    for _ in range(2):
        rows.write.format("delta").mode("overwrite").option("replaceWhere", "part = 'a'").save(str(table))
    passed = rows.mapInArrow(lambda batches: batches, rows.schema).selectExpr("id", "explode(replicas) AS replica")
    stored = spark.read.format("delta").load(str(table)).where("part = 'a'")
    stored.join(passed, on="id", how="left").groupBy("replica").agg({"size": "avg"}).orderBy("replica").collect()
    spark.sql(f"SELECT part, max(size), percent_rank() OVER (ORDER BY part) FROM {name} GROUP BY part").toPandas()
    spark.sql(f"DESCRIBE HISTORY {name}").collect()
    return stop_embedded(spark)


def main() -> int:
    """0 once the archive is there or Spark has shown that it works without; else 1, with one message on stderr."""
    try:
        compile_kernels()
        compile_failures()
        compile_plans()
        compile_replays()
        make_archive()
    except KafkaPlacementError as fault:
        print(f"kafka-placement: {fault}", file=sys.stderr)
        return fault.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
