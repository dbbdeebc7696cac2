"""What the sources of a cluster lack, so that an answer leaves it out or infers it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.verdict.cluster_evidence import ClusterFindings
from pipelines.verdict.judgement import describe_source_findings
from pipelines.verdict.naming import name_some
from pipelines.what_if.capacity_use import RATES
from udfs.arrow.columns import is_valid, select_rows, to_lists, to_numpy
from udfs.arrow.ragged import any_true
from udfs.failures.kernels.election import NO_BROKER
from udfs.failures.topic_defaults import TopicDefaults


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
    topics_without_rates: tuple[str, ...]  # of some led partition, where rates of others are known

    @property
    def names_without_rates(self) -> str:
        """The first of the topics without rates."""
        return name_some(self.topics_without_rates)


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
        topics_without_rates=tuple(sorted(without_rates.to_pylist())),
    )
