"""Views that answer frequent questions: `SELECT * FROM insights.hottest_brokers`; and names and values in SQL.

Unless a comment says otherwise, a view shows the newest snapshot of each cluster as it is (scheme observed).
"""

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pipelines.spark.change_views import CHANGE_VIEWS
from pipelines.spark.view_columns import LOAD_VIEWS, VIEW_COLUMNS
from pipelines.sql_text import quote_name, quote_text
from pipelines.tables import TABLES
from pipelines.verdict.cluster_evidence import COUNTED_SQL, ISSUE_COUNTS_SQL, ISSUES_SQL, PartitionIssue
from pipelines.verdict.verdict_points import ANSWER_SQL, LEVEL_SQL
from udfs.arrow.columns import get_comment
from udfs.failures.scenarios import ScenarioKind

SCHEMA = "insights"
SNAPSHOTS = f"{SCHEMA}.snapshots"  # the first view, which all others read
# These views read all snapshots of their tables, and all others at most the newest two of each cluster.
_HISTORIES = (
    *("topic_changes", "topic_health_history", "hottest_broker_history", "metric_history"),
    *("forecast_accuracy", "finding_changes"),
)
HISTORY_VIEWS = (SNAPSHOTS, *(f"{SCHEMA}.{name}" for name in _HISTORIES))


class View(NamedTuple):
    """A view."""

    name: str  # schema.name
    comment: str  # what its rows are
    sql: str  # a query over tables (schema.table) and earlier views
    columns: tuple[pa.Field, ...] = ()  # with comments; empty = those of the query

    @property
    def dependencies(self) -> list[str]:
        """The tables and views that it reads, as schema.name."""
        return list(dict.fromkeys(re.findall(r"\b(?:FROM|JOIN)\s+(\w+\.\w+)", self.sql)))

    def of_table(self) -> "View":
        """The same view, whose rows are read from the table that a folder has for it."""
        return self._replace(sql=f"SELECT * FROM {name_rows(self.name)}")


def parse_queries(text: str) -> Iterator[tuple[str, str, str]]:
    """Parse queries, each after a comment `-- name: what it shows`: yield (name, what it shows, SQL)."""
    for query in re.finditer(r"^-- ([\w.]+): (.+(?:\n-- .+)*)\n((?:.+\n)+)", text, re.MULTILINE):
        yield query[1], query[2].replace("\n-- ", " "), query[3].strip()


def _failure_risk(columns: str, kind: str) -> str:
    return f"""SELECT f.cluster_id, {columns}, {LEVEL_SQL} AS level, {ANSWER_SQL} AS answer,
       f.newly_offline_partitions, f.unclean_elections, f.newly_under_min_isr_partitions,
       f.under_min_isr_partitions, f.single_isr_partitions, f.leaders_lost, f.takeover_brokers,
       f.worst_survivor, round(f.worst_survivor_ratio, 3) AS worst_survivor_ratio
FROM gold.failure_summary f JOIN insights.snapshots s ON f.cluster_id = s.cluster_id AND f.snapshot_id = s.snapshot_id
WHERE s.newest AND f.scheme = 'observed' AND f.scenario_kind = '{kind}'"""


_NEWEST_PARTITIONS = """(
  SELECT p.* FROM silver.partitions p
  JOIN insights.snapshots s ON p.cluster_id = s.cluster_id AND p.snapshot_id = s.snapshot_id
  WHERE s.newest
)"""
# The newest snapshot is the one seen last: a cluster may return to an earlier state, when a broker comes back. The
# snapshot then has several rows in insights.snapshots, of which one is the newest. `period` is the same for all
# places of a snapshot that follow each other.
_QUERIES = f"""
-- insights.snapshots: The states of each cluster over time, numbered from 1; a state that comes back counts again, one
-- that runs see again without another in between does not.
SELECT cluster_id, snapshot_id, first_seen_at, seen_at,
       row_number() OVER (PARTITION BY cluster_id ORDER BY place) AS number,
       row_number() OVER (PARTITION BY cluster_id ORDER BY place DESC) = 1 AS newest
FROM (
  SELECT cluster_id, snapshot_id, min(as_of) AS first_seen_at, max(as_of) AS seen_at, max(place) AS place
  FROM (
    SELECT *, place - row_number() OVER (PARTITION BY cluster_id, snapshot_id ORDER BY place) AS period
    FROM (
      SELECT cluster_id, snapshot_id, as_of,
             row_number() OVER (PARTITION BY cluster_id ORDER BY as_of, finished_at, snapshot_id) AS place
      FROM (
        SELECT cluster_id, snapshot_id, as_of, max(finished_at) AS finished_at
        FROM ops.runs WHERE stage = 'gold.scheme_comparison' GROUP BY cluster_id, snapshot_id, as_of
      )
    )
  )
  GROUP BY cluster_id, snapshot_id, period
)

-- insights.hottest_brokers: Brokers by the number of partitions they lead, the hottest first (place 1);
-- leaders_over_mean 1 = the mean.
SELECT l.cluster_id, l.broker_id, l.rack, l.leaders,
       round(try_divide(l.leaders, avg(l.leaders) OVER (PARTITION BY l.cluster_id)), 3) AS leaders_over_mean,
       l.preferred_leaders, l.replicas, l.bytes_out_per_s,
       rank() OVER (PARTITION BY l.cluster_id ORDER BY l.leaders DESC) AS place
FROM gold.current_loads l JOIN insights.snapshots s ON l.cluster_id = s.cluster_id AND l.snapshot_id = s.snapshot_id
WHERE s.newest AND l.scheme = 'observed'

-- insights.broker_failure_risk: Whether each live broker can fail now: Yes, or the reason why not.
{_failure_risk("f.failed_brokers[0] AS broker_id", ScenarioKind.BROKER)}

-- insights.custom_failure_risk: Whether the brokers of each custom failure (run --fail, failures.custom) can fail
-- together now.
{_failure_risk("f.failed_brokers", ScenarioKind.CUSTOM)}

-- insights.rack_failure_risk: Whether all brokers of each rack can fail together now.
{_failure_risk("substring(f.scenario, 6) AS rack", ScenarioKind.RACK)}

-- insights.partition_issues: What is wrong with partitions now (offline, under_min_isr, under_replicated), or would be
-- (offline_if_broker_fails, and of the others offline_if_rack_fails: the leader's; under_min_isr_if_broker_fails: of an
-- in-sync replica). Without topics that are ignored or marked for deletion.
SELECT cluster_id, topic, partition, issue, leader, replicas, isr, size_bytes
FROM ({ISSUES_SQL.format(partitions=_NEWEST_PARTITIONS)})

-- insights.single_leader_topics: Topics with several online partitions, all of them led by one broker.
SELECT h.cluster_id, h.topic, h.partitions, h.leaders, h.hottest_broker AS broker_id, h.brokers_spread_percent
FROM gold.leader_hotspots h JOIN insights.snapshots s ON h.cluster_id = s.cluster_id AND h.snapshot_id = s.snapshot_id
WHERE s.newest AND h.scheme = 'observed' AND h.topic IS NOT NULL AND h.leaders > 1 AND h.leaders_max = h.leaders

-- insights.single_failure_offline_partitions: Online partitions that go offline if one broker, their leader
-- (broker_id), fails.
SELECT cluster_id, topic, partition, leader AS broker_id, replicas, isr, size_bytes
FROM ({ISSUES_SQL.format(partitions=_NEWEST_PARTITIONS)}) WHERE issue = '{PartitionIssue.OFFLINE_IF_BROKER_FAILS}'

-- insights.single_failure_under_min_isr_partitions: Partitions that the failure of one broker (broker_id) takes below
-- min.insync.replicas, though not offline: they block acks=all producers. Each has as many live in-sync replicas as
-- acks=all needs.
SELECT cluster_id, topic, partition, explode(min_isr_critical_brokers) AS broker_id,
       effective_min_isr AS live_isr_count, effective_min_isr - 1 AS live_isr_count_after, effective_min_isr, leader,
       replicas, isr, size_bytes
FROM {_NEWEST_PARTITIONS}
{COUNTED_SQL}

-- insights.topic_health_history: How many partitions of each topic are offline, below min.insync.replicas or
-- under-replicated in every snapshot, or would be after a failure, as in insights.partition_issues. Without topics that
-- are ignored or marked for deletion.
SELECT t.cluster_id, s.number, s.first_seen_at, s.seen_at, t.* EXCEPT (cluster_id, snapshot_id)
FROM (
  SELECT cluster_id, snapshot_id, topic, count(*) AS partitions,
         {ISSUE_COUNTS_SQL}
  FROM silver.partitions {COUNTED_SQL} GROUP BY cluster_id, snapshot_id, topic
) t JOIN insights.snapshots s ON t.cluster_id = s.cluster_id AND t.snapshot_id = s.snapshot_id

-- insights.hottest_broker_history: The broker that leads the most partitions in every snapshot, the lowest id among
-- equals, and its leaders over the mean of the live brokers.
SELECT cluster_id, number, first_seen_at, seen_at, -hottest.id AS broker_id, hottest.leaders, leaders_mean,
       round(try_divide(hottest.leaders, leaders_mean), 3) AS leaders_over_mean
FROM (
  SELECT l.cluster_id, s.number, s.first_seen_at, s.seen_at, max(struct(l.leaders, -l.broker_id AS id)) AS hottest,
         avg(l.leaders) AS leaders_mean
  FROM gold.current_loads l JOIN insights.snapshots s ON l.cluster_id = s.cluster_id AND l.snapshot_id = s.snapshot_id
  WHERE l.scheme = 'observed' GROUP BY l.cluster_id, s.number, s.first_seen_at, s.seen_at
)

-- insights.worst_pair: The two brokers of each cluster whose failure together is worst.
SELECT cluster_id, broker_id, other_broker_id, newly_offline_partitions, under_min_isr_partitions, worst_survivor,
       worst_survivor_ratio
FROM (
  SELECT f.cluster_id, f.failed_brokers[0] AS broker_id, f.failed_brokers[1] AS other_broker_id,
         f.newly_offline_partitions, f.under_min_isr_partitions, f.worst_survivor,
         round(f.worst_survivor_ratio, 3) AS worst_survivor_ratio,
         row_number() OVER (PARTITION BY f.cluster_id ORDER BY f.newly_offline_partitions DESC,
           f.unclean_elections DESC, f.under_min_isr_partitions DESC, f.worst_survivor_ratio DESC, f.scenario)
           AS place
  FROM gold.failure_summary f JOIN insights.snapshots s ON f.cluster_id = s.cluster_id AND f.snapshot_id = s.snapshot_id
  WHERE s.newest AND f.scheme = 'observed' AND f.scenario_kind = 'pair'
) WHERE place = 1

-- insights.manually_placed_topics: Topics that no scheme of Kafka explains: placed by hand, or changed since; and the
-- first partition that differs. Where racks_known is false, topics that Kafka placed across racks are among them.
SELECT o.cluster_id, o.topic, o.first_mismatch_partition, o.partitions_checked, o.evidence, o.note, b.racks_known
FROM gold.topic_origin o JOIN insights.snapshots s ON o.cluster_id = s.cluster_id AND o.snapshot_id = s.snapshot_id
JOIN (
  SELECT cluster_id, snapshot_id, bool_or(rack IS NOT NULL) AS racks_known
  FROM silver.brokers GROUP BY cluster_id, snapshot_id
) b ON o.cluster_id = b.cluster_id AND o.snapshot_id = b.snapshot_id
WHERE s.newest AND o.origin = 'none'

-- insights.metric_history: Every metric in every snapshot, and its change since the previous snapshot: those of
-- gold.scheme_comparison, and live_brokers, under_replicated_partitions and under_min_isr_partitions.
SELECT m.cluster_id, m.metric, s.first_seen_at, s.seen_at, s.number, m.value,
       m.value - lag(m.value) OVER (PARTITION BY m.cluster_id, m.metric ORDER BY s.number) AS change
FROM (
  SELECT cluster_id, snapshot_id, metric, value FROM gold.scheme_comparison WHERE scheme = 'observed'
  UNION ALL
  SELECT cluster_id, snapshot_id, 'live_brokers', double(count_if(live IS NOT false)) FROM silver.brokers GROUP BY ALL
  UNION ALL
  SELECT * FROM (
    SELECT cluster_id, snapshot_id, double(count_if(under_replicated)) AS under_replicated_partitions,
           double(count_if(under_min_isr)) AS under_min_isr_partitions
    FROM silver.partitions {COUNTED_SQL} GROUP BY cluster_id, snapshot_id
  ) UNPIVOT (value FOR metric IN (under_replicated_partitions, under_min_isr_partitions))
) m JOIN insights.snapshots s ON m.cluster_id = s.cluster_id AND m.snapshot_id = s.snapshot_id

-- insights.forecast_accuracy: How many forecasts of each kind came true, over all runs and plans of a cluster, and of
-- copy times and offline partitions how many times the forecast they were.
SELECT cluster_id, forecast_kind, subject_kind, quantity, sum(forecasts) AS forecasts, sum(as_forecast) AS as_forecast,
       sum(as_forecast) / sum(forecasts) AS as_forecast_ratio, min(forecast_at) AS first_forecast_at,
       max(outcome_at) AS last_outcome_at, min(actual_value / forecast_value) AS lowest_ratio,
       median(actual_value / forecast_value) AS median_ratio, max(actual_value / forecast_value) AS highest_ratio
FROM gold.forecast_outcomes GROUP BY cluster_id, forecast_kind, subject_kind, quantity
"""
VIEWS = tuple(
    View(*parts, VIEW_COLUMNS[parts[0].partition(".")[2]])
    for parts in parse_queries(_QUERIES + CHANGE_VIEWS + LOAD_VIEWS)
)
BY_NAME = {view.name: view for view in VIEWS}


def find_dependencies(names: Iterable[str], known: Container[str] = ()) -> tuple[list[str], list[View]]:
    """Return the tables that these tables and views are or read, and the views in the order to create them.

    known: views whose rows are known, so that they read nothing.
    """
    result, views = list(dict.fromkeys(names)), set()
    for name in result:  # grows in the loop
        if name in BY_NAME:
            views.add(name)
            read = () if name in known else BY_NAME[name].dependencies
            result += [other for other in read if other not in result]
    return [name for name in result if name not in BY_NAME], [view for view in VIEWS if view.name in views]


# Spark's condition for a catalog that holds tables only, as the open-source Unity Catalog.
_NO_VIEWS = "MISSING_CATALOG_ABILITY.VIEWS"
_SESSION_CATALOG = "spark_catalog"
_SCHEMAS = "|".join(sorted({name.split(".")[0] for name in (*TABLES, *BY_NAME)}))
_NAME = re.compile(rf"('(?:[^'\\\\]|\\\\.)*')|\b({_SCHEMAS})\.(\w+)")  # a string, or the name of a table or view


def name_rows(view: str) -> str:
    """Return the name that a session gives to the table with the rows of a view."""
    return view.replace(".", "_rows.")


def use_temporary_names(sql: str) -> str:
    """Replace names of tables and views, such as gold.plans, by those of temporary views, such as gold__plans."""
    return _NAME.sub(lambda match: match[1] or f"{match[2]}__{match[3]}", sql)


def create_views(spark: SparkSession, views: Sequence[View]) -> bool:
    """Create views in the current catalog, or replace them; return whether the catalog can hold views."""
    try:
        if views:
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        for view in views:
            columns = ", ".join(f"{c.name} COMMENT {quote_text(get_comment(c))}" for c in view.columns)
            head = f"{view.name} ({columns})" if columns else view.name
            spark.sql(f"CREATE OR REPLACE VIEW {head} COMMENT {quote_text(view.comment)} AS {view.sql}")
    except AnalysisException as error:
        if error.getCondition() != _NO_VIEWS:
            raise
        return False
    return True


def register_catalog_views(spark: SparkSession, catalog: str, views: Sequence[View], tables: Sequence[str]) -> None:
    """Make views known by name: those of a catalog, or, if it cannot hold views, of the session's own one."""
    missing = [view for view in views if not spark.catalog.tableExists(f"{quote_name(catalog)}.{view.name}")]
    if create_views(spark, missing):
        return
    view_names = {view.name for view in views}
    names = sorted({*tables, *(name for view in views for name in view.dependencies if name not in view_names)})
    spark.catalog.setCurrentCatalog(_SESSION_CATALOG)
    for schema in sorted({name.split(".")[0] for name in names}):
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for name in names:
        spark.sql(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM {quote_name(catalog)}.{name}")
    create_views(spark, views)
