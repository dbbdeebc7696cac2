"""What is wrong with a snapshot's cluster already, and what its sources lack; the report finds it in SQL."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.live_brokers import get_down_brokers, get_unknown_brokers
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.report.verdict import ClusterFindings
from udfs.arrow.columns import is_valid, to_flags, to_lists, to_numpy
from udfs.arrow.ragged import is_in_segment, row_of

# Fields of conflicts between two clusters, rather than between two moments of one.
IDENTITY_FIELDS = ("topic_id", "host")
# Those of configs that decide which failures a topic survives.
CONFIG_FIELDS = ("config min.insync.replicas", "config unclean.leader.election.enable")


def find_findings(snapshot: Snapshot) -> ClusterFindings:
    """Return what limits the answers on a snapshot."""
    topics, partitions = snapshot.topics, snapshot.partitions
    incomplete = topics.filter(topics["incomplete"])["topic"].to_pylist()
    deleted = topics.filter(topics["marked_for_deletion"])["topic"]
    is_offline = to_numpy(partitions["leader"], -1) < 0
    is_offline &= is_valid(partitions["replicas"]) & to_flags(pc.is_in(partitions["topic"], deleted.combine_chunks()))
    return ClusterFindings(
        down_brokers=tuple(get_down_brokers(snapshot.brokers).tolist()),
        under_replicated_partitions=count_under_replicated(partitions),
        offline_partitions_of_deleted_topics=int(is_offline.sum()),
        reassigned_partitions=count_reassigned(partitions),
        quarantined_records=len(snapshot.quarantined),
        unused_files=tuple(file.name for file in snapshot.files if file.problem is not None),
        incomplete_topics=len(incomplete),
        incomplete_topic_names=tuple(incomplete),
        missing_partitions=pc.sum(pc.subtract(topics["partitions"], topics["listed_partitions"])).as_py() or 0,
        unplaced_partitions=int((~is_valid(partitions["replicas"])).sum()),
        inferred_partitions=int(to_flags(partitions["state_inferred"]).sum()),
        unknown_brokers=tuple(get_unknown_brokers(snapshot.brokers).tolist()),
        identity_conflicts=_count_conflicts(snapshot, IDENTITY_FIELDS),
        config_conflicts=_count_conflicts(snapshot, CONFIG_FIELDS),
        warnings=tuple(list_warnings(snapshot)),
    )


def _count_conflicts(snapshot: Snapshot, fields: Sequence[str]) -> int:
    return int(to_flags(pc.is_in(snapshot.conflicts["field"], pa.array(fields))).sum())


def list_warnings(snapshot: Snapshot) -> list[str]:
    """Return what the records of the sources warn of, with file and line."""
    return [f"{row['source']} line {row['line_number']}: {row['warning']}" for row in snapshot.warnings.to_pylist()]


def count_reassigned(partitions: pa.Table) -> int:
    """Count the partitions (schema INFERRED_PARTITIONS) with replicas that are being added or removed."""
    lengths = [to_lists(partitions[name]).lengths for name in ("adding_replicas", "removing_replicas")]
    return int(((lengths[0] > 0) | (lengths[1] > 0)).sum())


def count_under_replicated(partitions: pa.Table) -> int:
    """Count the partitions (schema INFERRED_PARTITIONS) that have a replica out of sync, with a leader or without.

    Observers and replicas that are being added are not expected in the ISR.
    """
    replicas = to_lists(partitions["replicas"])
    expected = np.ones(len(replicas.values), dtype=np.bool_)
    for name in ("isr", "observers", "adding_replicas"):
        lists = to_lists(partitions[name])
        expected &= ~is_in_segment(replicas.values, replicas.offsets, lists.values, lists.offsets)
    lacks = np.bincount(row_of(replicas.offsets)[expected], minlength=partitions.num_rows) > 0
    return int(lacks.sum())
