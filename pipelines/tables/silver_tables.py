"""The silver tables: what the sources say, merged, typed and checked."""

import pyarrow as pa

from pipelines.ingest.merge import entities
from pipelines.tables.bronze_tables import FORMAT, RAW
from pipelines.tables.table_contract import SNAPSHOT_KEY, Between, Matches, NoRowWhere, Table, columns
from udfs.arrow.columns import LONG, TEXT, column
from udfs.failures.partition_health import HEALTH_COLUMNS
from udfs.failures.replica_logs import REPLICA_BYTES_COLUMNS

BROKERS = Table(
    "silver.brokers",
    "One row per broker: registered, listed, or named by a replica list.",
    columns(*entities.BROKERS),
    keys=(*SNAPSHOT_KEY, "broker_id"),
    expectations=(Between("broker_id", 0), Between("replicas", 0), Between("leaders", 0)),
    gated=True,
)

TOPICS = Table(
    "silver.topics",
    "One row per topic.",
    columns(*entities.TOPICS, entities.IGNORED),
    keys=(*SNAPSHOT_KEY, "topic"),
    partition_by=("cluster_id",),
    expectations=(
        Matches("topic", "[a-zA-Z0-9._-]{1,249}"),
        Between("partitions", 0),
        Between("replication_factor", 1),
        NoRowWhere("shown_within_declared", "listed_partitions > partitions", "shows more partitions than it has"),
    ),
    gated=True,
)

PARTITIONS = Table(
    "silver.partitions",
    "One row per partition, without quarantined ones.",
    columns(*entities.INFERRED_PARTITIONS, *HEALTH_COLUMNS, *REPLICA_BYTES_COLUMNS),
    keys=(*SNAPSHOT_KEY, "topic", "partition"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "topic"),
    expectations=(
        Between("partition", 0),
        Between("size_bytes", 0),
        NoRowWhere("has_replicas", "size(replicas) = 0", "has an empty replica list"),
        NoRowWhere("replicas_distinct", "size(array_distinct(replicas)) < size(replicas)", "repeats a replica"),
        NoRowWhere(
            "leader_in_replicas",
            "leader <> -1 AND NOT array_contains(replicas, leader)",
            "has a leader outside of its replicas",
        ),
        NoRowWhere(
            "isr_in_replicas", "size(array_except(isr, replicas)) > 0", "has an ISR member outside of its replicas"
        ),
    ),
    gated=True,
)

REPLICAS = Table(
    "silver.replicas",
    "One row per replica; logs on disk that no assignment accounts for have no position.",
    columns(*entities.REPLICAS),
    keys=(*SNAPSHOT_KEY, "topic", "partition", "broker_id", "is_future"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "topic", "broker_id"),
    expectations=(Between("position", 0), Between("size_bytes", 0)),
)

MEASURED_LOADS = Table(
    "silver.measured_loads",
    "One row per topic and broker whose loads metrics show (see --metrics), and per broker over all topics.",
    columns(*entities.TOPIC_LOADS),
    keys=(),
    expectations=(
        Between("bytes_in_per_s", 0),
        Between("bytes_out_per_s", 0),
        NoRowWhere(
            "peak_is_highest",
            "bytes_in_peak_per_s < bytes_in_p95_per_s OR bytes_out_peak_per_s < bytes_out_p95_per_s",
            "has a peak below its 95th percentile",
        ),
    ),
)

LOG_DIRS = Table(
    "silver.log_dirs",
    "One row per log directory of a broker (JBOD has several): its volume and what its logs use.",
    columns(*entities.LOG_DIR_USAGE),
    keys=(*SNAPSHOT_KEY, "broker_id", "log_dir"),
    expectations=(
        Between("total_bytes", 0),
        Between("usable_bytes", 0),
        Between("used_bytes", 0),
        NoRowWhere("usable_within_total", "usable_bytes > total_bytes", "has more usable bytes than it has in total"),
    ),
)

QUARANTINE = Table(
    "silver.quarantine",
    "One row per rejected record, with every reason. If only a part of a record is rejected, the rest is used.",
    columns(entities.SOURCE, entities.RECORD_NUMBER, entities.LINE_NUMBER, RAW, entities.REASONS),
    keys=(*SNAPSHOT_KEY, "source", "record_number"),
)

WARNINGS = Table(
    "silver.warnings",
    "One row per record that shows what the sources lack: a failed command, a listing of selected partitions.",
    columns(*entities.WARNINGS),
    keys=(*SNAPSHOT_KEY, "source", "record_number"),
)

CONFLICTS = Table(
    "silver.conflicts",
    "One row per disagreement between two facts of a cluster's sources: which value is used, and which is not.",
    columns(*entities.CONFLICTS),
    keys=(),
)

SOURCE_SUMMARY = Table(
    "silver.source_summary",
    "One row per source file: every record is accepted, quarantined or ignored, and the three add up.",
    columns(
        entities.SOURCE,
        FORMAT,
        column("records", LONG, "input records", required=True),
        column("accepted_records", LONG, "records with facts about the cluster", required=True),
        column("quarantined_records", LONG, "records rejected, see silver.quarantine", required=True),
        column("ignored_records", LONG, "records without facts that the program uses", required=True),
        column("ignored_reasons", pa.map_(TEXT, LONG), "ignored records by reason", required=True),
    ),
    keys=(*SNAPSHOT_KEY, "source"),
    expectations=(
        NoRowWhere(
            "records_add_up",
            "accepted_records + quarantined_records + ignored_records <> records",
            "has accepted, quarantined and ignored records that do not add up to its records",
        ),
        NoRowWhere(
            "something_accepted",
            "records > 0 AND accepted_records = 0 AND quarantined_records > 0",
            "has only quarantined or ignored records",
        ),
    ),
    gated=True,
)
