"""The hottest broker of clusters, now and by each scheme over many seeds: for a command, and for Spark's workers."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import DOUBLE, FLAG, INT, INTS, LONG, TEXT, schema_of, to_array, to_codes, to_lists, to_numpy
from udfs.arrow.ragged import offsets_of
from udfs.hotspots.hotspot_distribution import (
    DISTRIBUTION_COLUMNS,
    PlacementTrial,
    SchemeHotspots,
    TrialFacts,
    TrialOptions,
)
from udfs.hotspots.kernels.leader_counts import ClusterTopics
from udfs.hotspots.leaders_by_seed import read_cluster_topics
from udfs.hotspots.single_leader_topics import SingleLeaderTopic, find_single_leader_topics
from udfs.placement.schemes import KRAFT
from udfs.placement.topic_placement import LiveBrokers


@dataclass(frozen=True)
class ObservedLeaders:
    """Leaders on live brokers now; None if no live broker leads a partition."""

    leaders: int
    hottest_broker: int | None = None
    leaders_max: int | None = None
    max_over_mean_ratio: float | None = None
    single_partition_leaders_max: int | None = None


@dataclass(frozen=True)
class ClusterHotspots:
    """Hotspots of a cluster: observed, and by scheme with seeds from `run_seed`."""

    cluster: str
    live_brokers: int
    topics: int
    run_seed: int
    observed: ObservedLeaders
    schemes: dict[str, SchemeHotspots]
    single_leader_topics: tuple[SingleLeaderTopic, ...] = ()
    rack_sizes: tuple[int, ...] = ()  # brokers of each known rack that KRaft's scheme places over, the largest first


def find_hotspots(
    cluster: str, brokers: LiveBrokers, topics: pa.Table, partitions: pa.Table, options: TrialOptions
) -> ClusterHotspots:
    """Find the hottest broker of a cluster (its name determines seeds; tables: of silver), now and by each scheme."""
    partitions = partitions.filter(pc.is_valid(partitions["replicas"]))
    brokers = brokers.select_counted(np.isin(brokers.ids, to_lists(partitions["replicas"]).values))
    ids = np.asarray(brokers.ids, dtype=np.int64)
    leader = to_numpy(partitions["leader"], -1)
    single_partition_topics = to_array(topics["topic"].filter(pc.equal(topics["partitions"], 1)))
    is_single = np.asarray(pc.is_in(to_array(partitions["topic"]), value_set=single_partition_topics))
    live = np.isin(leader, ids)
    leaders, single = (
        np.bincount(np.searchsorted(ids, leader[rows]), minlength=len(ids)) for rows in (live, live & is_single)
    )
    observed = ObservedLeaders(int(leaders.sum()))
    if observed.leaders:
        most, hottest = int(leaders.max()), int(ids[leaders.argmax()])
        ratio = most * len(ids) / observed.leaders
        observed = ObservedLeaders(observed.leaders, hottest, most, ratio, int(single.max()))
    cluster_topics = read_cluster_topics(cluster, topics)
    schemes: dict[str, SchemeHotspots] = {}
    for scheme in options.schemes:
        trial = PlacementTrial.create(scheme, cluster_topics, brokers, options.seeds, options.max_placed_topics)
        facts, hottest_by_seed = trial.find_facts(leaders.tolist()), trial.find_hottest(options.run_seed)
        schemes[scheme] = SchemeHotspots.create(facts, *hottest_by_seed, options.thresholds)
    code, names = to_codes(partitions["topic"])
    led_by_one = find_single_leader_topics(code, np.where(live, leader, -1), names.to_pylist()) if len(ids) > 1 else ()
    by_rack = Counter(rack for rack in brokers.select_usable(KRAFT).racks if rack is not None)
    sizes = tuple(sorted(by_rack.values(), reverse=True))
    return ClusterHotspots(cluster, len(ids), topics.num_rows, options.run_seed, observed, schemes, led_by_one, sizes)


_SNAPSHOT = [("cluster_id", TEXT), ("snapshot_id", TEXT)]
# name_hash: of `hash_names`; partition_ids: the only partitions to place, null = all.
TOPIC = pa.struct([("name_hash", LONG), ("partitions", INT), ("replication_factor", INT), ("partition_ids", INTS)])
BROKER = pa.struct([("broker_id", INT), ("rack", TEXT), ("cordoned", FLAG)])
LEADERS = pa.struct([("broker_id", INT), ("leaders", LONG)])
# A snapshot's topics, live brokers, those with replicas and what they lead now, and the chunk of the seeds to try.
_LISTS = (("topics", pa.list_(TOPIC)), ("brokers", pa.list_(BROKER)), ("leaders", pa.list_(LEADERS)))
TRIAL_INPUT = pa.schema([*_SNAPSHOT, ("chunk", INT), *_LISTS])
_FACTS = [(name, DOUBLE if "float" in str(type_) else LONG) for name, type_ in TrialFacts.__annotations__.items()]
# By one scheme: the hottest broker of each seed of the chunk. Chunk 0 also has the facts.
TRIAL_OUTPUT = pa.schema(
    [*_SNAPSHOT, ("scheme", TEXT), ("leaders_max", pa.list_(LONG)), ("replicas_max", pa.list_(LONG)), *_FACTS]
)
DISTRIBUTION = pa.schema([*_SNAPSHOT, ("scheme", TEXT), *schema_of(DISTRIBUTION_COLUMNS)])


def _read_topics(topics: pa.StructArray) -> ClusterTopics:
    name_hash, partitions, factor, ids = (pc.struct_field(topics, i) for i in range(4))
    values = [to_numpy(array).astype(np.int64) for array in (partitions, factor, ids.flatten())]
    offsets = offsets_of(to_numpy(pc.list_value_length(ids)))
    hashes = np.array(name_hash, dtype=np.int64).view(np.uint64)
    return ClusterTopics(hashes, values[0], values[1], values[2], offsets)


def _try_chunk(
    options: TrialOptions, scheme: str, row: dict[str, Any], topics: ClusterTopics, brokers: LiveBrokers
) -> dict[str, Any]:
    trial = PlacementTrial.create(scheme, topics, brokers, options.seeds, options.max_placed_topics)
    first, until = (trial.seeds * (row["chunk"] + k) // options.chunks for k in (0, 1))
    leaders, replicas = trial.find_hottest(options.run_seed, first, until)
    output = {name: row[name] for name, _ in _SNAPSHOT}
    output |= {"scheme": scheme, "leaders_max": leaders, "replicas_max": replicas}
    if row["chunk"] == 0:
        leading = {entry["broker_id"]: entry["leaders"] for entry in row["leaders"] or ()}
        output |= vars(trial.find_facts([leading.get(broker, 0) for broker in brokers.ids]))
    return output


def make_trial_function(options: TrialOptions) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `DataFrame.mapInArrow`: batches of TRIAL_INPUT -> batches of TRIAL_OUTPUT."""

    def try_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.select(["cluster_id", "snapshot_id", "chunk", "leaders"]).to_pylist()
            for i, row in enumerate(rows):
                topics = _read_topics(batch["topics"].slice(i, 1).flatten())
                live = sorted(batch["brokers"][i].as_py() or [], key=lambda broker: broker["broker_id"])
                with_replicas = [entry["broker_id"] for entry in row["leaders"] or ()]
                brokers = LiveBrokers(*([broker[field.name] for broker in live] for field in BROKER))
                brokers = brokers.select_counted(np.isin(brokers.ids, with_replicas))
                output = [_try_chunk(options, scheme, row, topics, brokers) for scheme in options.schemes]
                yield from pa.Table.from_pylist(output, TRIAL_OUTPUT).to_batches()

    return try_chunks


def make_summary_function(options: TrialOptions) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return a function for `GroupedData.applyInArrow`: chunks of a scheme (TRIAL_OUTPUT) -> a row of DISTRIBUTION."""

    def summarise(key: tuple[pa.Scalar, ...], chunks: pa.Table) -> pa.Table:
        first = chunks.filter(pc.is_valid(chunks["brokers"])).to_pylist()[0]
        facts = TrialFacts(**{name: first[name] for name, _ in _FACTS})
        leaders, replicas = (pc.list_flatten(chunks[name]) for name in ("leaders_max", "replicas_max"))
        row = SchemeHotspots.create(facts, leaders, replicas, options.thresholds).to_row()
        keys = {name: first[name] for name in ("cluster_id", "snapshot_id", "scheme")}
        return pa.Table.from_pylist([keys | row], DISTRIBUTION)

    return summarise
