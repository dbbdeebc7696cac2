"""What the sources of a cluster lack, so that an answer leaves it out or infers it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats import kraft_log, metadata_shell
from pipelines.ingest.merge.live_brokers import get_releases
from pipelines.ingest.snapshot_reader import ZOOKEEPER_FORMATS, Snapshot
from pipelines.verdict.cluster_evidence import ClusterFindings
from pipelines.verdict.judgement import describe_source_findings
from pipelines.verdict.verdict_points import DEFAULT_SERVER
from pipelines.what_if.failure_effects import RATES
from udfs.arrow.columns import is_valid, select_rows, to_lists, to_numpy
from udfs.arrow.ragged import any_true
from udfs.failures.kernels.election import NO_BROKER
from udfs.failures.topic_defaults import WITH_KRAFT, WITHOUT_ZOOKEEPER, TopicDefaults, find_end, holds_since


@dataclass(frozen=True)
class SourceGaps:
    """What the sources lack: data that an answer leaves out or infers."""

    failed_already_down: tuple[int, ...]
    sentences: tuple[str, ...]  # of the verdict, on what the sources lack
    unknown_brokers: tuple[int, ...]  # unknown whether they are live: they count as live
    conflicting_listings: tuple[str, ...]
    partitions_with_observers: int
    partitions_with_unknown_elr: int  # their ELR has brokers of unknown state: these are not elected
    warnings: tuple[str, ...]  # of records that show that something is missing
    incomplete_topics: tuple[str, ...]  # the sources do not show, or may not show, all of their partitions
    missing_partitions: int  # of topics that declare more partitions than the sources show
    topics_without_min_isr: int
    assumed_min_isr: int  # min.insync.replicas of these topics
    unplaced_partitions: int
    unplaced_partitions_losing_leader: int
    state_inferred_partitions: int
    quarantined_records: int
    conflicts: int
    unused_files: int
    skipped_entries: int
    brokers_without_rack: tuple[int, ...]  # where racks of others are known
    topics_without_rates: tuple[str, ...]  # of some led partition, where rates of others are known
    unknown_quorum: tuple[str, ...]  # kraft, zookeeper or both: what may elect the controller; empty = it is shown
    topics_with_copy_lag: tuple[str, ...]  # that are uploaded to remote storage with a delay
    copy_lag_bytes: int | None  # of one copy of their logs, at most so many are not uploaded; None = not known
    bootstrap_server: str  # of the command that shows it

    @property
    def is_limited(self) -> bool:
        """Whether the sources lack something, so that an answer for a broker may be too good."""
        return bool(self.sentences)


def find_gaps(
    snapshot: Snapshot, findings: ClusterFindings, defaults: TopicDefaults, failed: Sequence[int] = ()
) -> SourceGaps:
    """Count what an answer on the failure of these brokers leaves out or infers. findings: those on the snapshot."""
    partitions = snapshot.partitions
    is_unplaced = ~is_valid(partitions["replicas"])
    loses_leader = np.isin(to_numpy(partitions["leader"], NO_BROKER), np.asarray(failed, dtype=np.int32))
    elr, elr_offsets, _ = to_lists(partitions["elr"])
    is_led, has_rates = to_numpy(partitions["leader"], NO_BROKER) != NO_BROKER, [is_valid(partitions[r]) for r in RATES]
    lacks_rates = is_led & np.logical_or.reduce([has_rate.any() & ~has_rate for has_rate in has_rates])
    without_rates = pc.unique(select_rows(partitions, pa.array(lacks_rates))["topic"])
    configs = dict(zip(*(snapshot.topics[name].to_pylist() for name in ("topic", "configs")), strict=True))
    late = [topic for topic, own in configs.items() if _has_copy_lag(own)]
    is_late = pc.is_in(partitions["topic"], value_set=pa.array(late, pa.string()))
    return SourceGaps(
        failed_already_down=tuple(sorted(set(failed) & set(findings.down_brokers))),
        sentences=tuple(point.text for point in describe_source_findings(findings)),
        unknown_brokers=tuple(findings.unknown_brokers),
        conflicting_listings=tuple(snapshot.conflicting_listings),
        partitions_with_observers=int((to_lists(partitions["observers"]).lengths > 0).sum()),
        partitions_with_unknown_elr=int(any_true(np.isin(elr, findings.unknown_brokers), elr_offsets).sum()),
        warnings=tuple(findings.warnings),
        incomplete_topics=tuple(findings.incomplete_topic_names),
        missing_partitions=findings.missing_partitions,
        topics_without_min_isr=snapshot.topics["min_insync_replicas"].null_count,
        assumed_min_isr=defaults.min_insync_replicas,
        unplaced_partitions=int(is_unplaced.sum()),
        unplaced_partitions_losing_leader=int((is_unplaced & loses_leader).sum()),
        state_inferred_partitions=findings.inferred_partitions,
        quarantined_records=findings.quarantined_records,
        conflicts=snapshot.conflicts.num_rows,
        unused_files=len(findings.unused_files),
        skipped_entries=len(snapshot.skipped),
        brokers_without_rack=_find_brokers_without_rack(snapshot),
        topics_without_rates=tuple(sorted(without_rates.to_pylist())),
        unknown_quorum=_find_unknown_quorum(snapshot),
        topics_with_copy_lag=tuple(late),
        copy_lag_bytes=pc.sum(partitions["size_bytes"].filter(is_late)).as_py(),
        bootstrap_server=findings.bootstrap_server or DEFAULT_SERVER,
    )


def _has_copy_lag(configs: Sequence[tuple[str, str]] | None) -> bool:
    """Return whether configs of a topic delay its upload (KIP-1241, Kafka 4.4 and later)."""
    values = dict(configs or ())
    is_delayed = any(values.get(f"remote.copy.lag.{unit}", "0") != "0" for unit in ("ms", "bytes"))
    return is_delayed and values.get("remote.storage.enable") == "true"


def _find_brokers_without_rack(snapshot: Snapshot) -> tuple[int, ...]:
    """Find brokers of unknown rack, such as those that are down: a list of live brokers does not show theirs."""
    brokers = snapshot.brokers
    unknown = brokers["broker_id"].filter(pc.is_null(brokers["rack"])).to_pylist()
    return tuple(sorted(unknown)) if len(unknown) < brokers.num_rows else ()


def _find_unknown_quorum(snapshot: Snapshot) -> tuple[str, ...]:
    """Return what may elect the controller where no source shows its voters: an ensemble of ZooKeeper never is."""
    formats = snapshot.format_names
    if snapshot.quorum.num_rows:
        return ()
    before = find_end(get_releases(snapshot.brokers))
    if not formats.isdisjoint(ZOOKEEPER_FORMATS) or (before is not None and before <= WITH_KRAFT):
        return ("zookeeper",)
    has_kraft = not formats.isdisjoint((kraft_log.FORMAT.name, metadata_shell.FORMAT.name))
    has_elr = snapshot.partitions["elr"].null_count < snapshot.partitions.num_rows
    is_new = holds_since(WITHOUT_ZOOKEEPER, get_releases(snapshot.brokers))
    return ("kraft",) if has_kraft or has_elr or is_new else ("kraft", "zookeeper")
