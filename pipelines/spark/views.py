"""Views that answer frequent questions: `SELECT * FROM insights.hottest_brokers`; and names and values in SQL.

Unless a comment says otherwise, a view shows the newest snapshot of each cluster as it is (scheme observed).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pipelines.ingest.sources import SnapshotKey
from pipelines.tables import TABLES
from pipelines.verdict.cluster_evidence import ANY_ISSUE_SQL, ISSUE_CASES_SQL
from pipelines.verdict.failure_answers import ANSWER_SQL
from udfs.failures.scenarios import ScenarioKind
from udfs.planning.certificates import BYTES_COPIED, LEADERS_CHANGED, REPLICAS_COPIED, WORST_SURVIVOR
from udfs.planning.plan_rows import METRICS

SCHEMA = "insights"


class View(NamedTuple):
    """A view."""

    name: str  # schema.name
    comment: str  # what its rows are
    sql: str  # a query over tables (schema.table) and earlier views

    @property
    def dependencies(self) -> list[str]:
        """The tables and views that it reads, as schema.name."""
        return list(dict.fromkeys(re.findall(r"\b(?:FROM|JOIN)\s+(\w+\.\w+)", self.sql)))


def parse_queries(text: str) -> Iterator[tuple[str, str, str]]:
    """Parse queries, each after a comment `-- name: what it shows`: yield (name, what it shows, SQL)."""
    for query in re.finditer(r"^-- ([\w.]+): (.+(?:\n-- .+)*)\n((?:.+\n)+)", text, re.MULTILINE):
        yield query[1], query[2].replace("\n-- ", " "), query[3].strip()


def _failure_risk(columns: str, kind: str) -> str:
    return f"""SELECT f.cluster_id, {columns}, {ANSWER_SQL} AS answer,
       f.newly_offline_partitions, f.unclean_elections, f.under_min_isr_before_partitions,
       f.under_min_isr_partitions, f.single_isr_partitions, f.leaders_lost, f.takeover_brokers,
       f.worst_survivor, round(f.worst_survivor_ratio, 3) AS worst_survivor_ratio
FROM gold.failure_summary f JOIN insights.snapshots s ON f.cluster_id = s.cluster_id AND f.snapshot_id = s.snapshot_id
WHERE s.newest AND f.scheme = 'observed' AND f.scenario_kind = '{kind}'"""


def _plan_metrics() -> str:
    """List the metrics of a plan as structs: before, after, and the lower bound if the plan's certificate has one."""
    costs = {"copied_bytes": BYTES_COPIED, "moves": REPLICAS_COPIED, "leader_changes": LEADERS_CHANGED}
    values = {name: ("CAST(0 AS DOUBLE)", f"CAST({name} AS DOUBLE)") for name in costs}
    values |= {m.name: (f"CAST({m.name}_before AS DOUBLE)", f"CAST({m.name}_after AS DOUBLE)") for m in METRICS}
    bounds = {
        name: f"CASE WHEN objective = '{quantity}' THEN lower_bound END"
        for name, quantity in (*costs.items(), ("worst_survivor_ratio", WORST_SURVIVOR))
    }
    # A budget may pay for a part of the plan only: then it copies fewer replicas than all targets require.
    moves = "CAST(get_json_object(certificate, '$.moves_lower_bound') AS DOUBLE)"
    bounds["moves"] = f"coalesce({bounds['moves']}, CASE WHEN moves >= {moves} THEN {moves} END)"
    return ",\n  ".join(
        f"named_struct('metric', '{name}', 'before', {before}, 'after', {after}, "
        f"'lower_bound', {bounds.get(name, 'CAST(NULL AS DOUBLE)')})"
        for name, (before, after) in values.items()
    )


# The newest snapshot is the one seen last: a cluster may return to an earlier state, when a broker comes back.
_QUERIES = f"""
-- insights.snapshots: All snapshots of each cluster; number counts from 1 in the order in which they were last seen.
SELECT cluster_id, snapshot_id, seen_at,
       row_number() OVER (PARTITION BY cluster_id ORDER BY seen_at, finished_at, snapshot_id) AS number,
       row_number() OVER (PARTITION BY cluster_id ORDER BY seen_at DESC, finished_at DESC, snapshot_id DESC) = 1
         AS newest
FROM (
  SELECT cluster_id, snapshot_id, max(as_of) AS seen_at, max(finished_at) AS finished_at
  FROM ops.runs WHERE stage = 'gold.scheme_comparison' GROUP BY cluster_id, snapshot_id
)

-- insights.hottest_brokers: Brokers by the number of partitions they lead, the hottest first (place 1);
-- leaders_over_mean 1 = the mean.
SELECT l.cluster_id, l.broker_id, l.rack, l.leaders,
       round(try_divide(l.leaders, avg(l.leaders) OVER (PARTITION BY l.cluster_id)), 3) AS leaders_over_mean,
       l.preferred_leaders, l.replicas, l.bytes_out_per_s,
       rank() OVER (PARTITION BY l.cluster_id ORDER BY l.leaders DESC) AS place
FROM gold.broker_load l JOIN insights.snapshots s ON l.cluster_id = s.cluster_id AND l.snapshot_id = s.snapshot_id
WHERE s.newest AND l.scheme = 'observed'

-- insights.broker_failure_risk: Whether each broker can fail now: Yes, or the reason why not.
{_failure_risk("f.failed_brokers[0] AS broker_id", ScenarioKind.BROKER)}

-- insights.custom_failure_risk: Whether the brokers of each custom failure (run --fail, failures.custom) can fail
-- together now.
{_failure_risk("f.failed_brokers", ScenarioKind.CUSTOM)}

-- insights.rack_failure_risk: Whether all brokers of each rack can fail together now.
{_failure_risk("substring(f.scenario, 6) AS rack", ScenarioKind.RACK)}

-- insights.partition_issues: What is wrong with partitions now (offline, under_min_isr, under_replicated), or would be
-- (offline_if_broker_fails, and of the others offline_if_rack_fails: the leader's). Without topics marked for deletion.
SELECT cluster_id, topic, partition, explode(filter(array({ISSUE_CASES_SQL}), i -> i IS NOT NULL)) AS issue,
       leader, replicas, isr, size_bytes
FROM (
  SELECT p.* FROM silver.partitions p
  JOIN insights.snapshots s ON p.cluster_id = s.cluster_id AND p.snapshot_id = s.snapshot_id
  LEFT ANTI JOIN (SELECT * FROM silver.topics WHERE marked_for_deletion) t
    ON p.cluster_id = t.cluster_id AND p.snapshot_id = t.snapshot_id AND p.topic = t.topic
  WHERE s.newest
) WHERE {ANY_ISSUE_SQL}

-- insights.single_leader_topics: Topics with several online partitions, all of them led by one broker.
SELECT h.cluster_id, h.topic, h.partitions, h.leaders, h.hottest_broker AS broker_id, h.brokers_spread_percent
FROM gold.leader_hotspots h JOIN insights.snapshots s ON h.cluster_id = s.cluster_id AND h.snapshot_id = s.snapshot_id
WHERE s.newest AND h.scheme = 'observed' AND h.topic IS NOT NULL AND h.leaders > 1 AND h.leaders_max = h.leaders

-- insights.single_failure_offline_partitions: Online partitions that go offline if one broker, their leader
-- (broker_id), fails.
SELECT p.cluster_id, p.topic, p.partition, p.leader AS broker_id, p.replicas, p.isr, p.size_bytes
FROM silver.partitions p JOIN insights.snapshots s ON p.cluster_id = s.cluster_id AND p.snapshot_id = s.snapshot_id
WHERE s.newest AND p.successor = -1

-- insights.snapshot_changes: Partitions that differ between the newest snapshot and the previous one.
SELECT cluster_id, topic, partition,
       CASE WHEN old IS NULL THEN 'created' WHEN new IS NULL THEN 'removed'
            WHEN NOT (new.replicas <=> old.replicas) THEN 'replicas changed'
            WHEN NOT (new.leader <=> old.leader) THEN 'leader changed' ELSE 'ISR changed' END AS change,
       old.leader AS leader_before, new.leader AS leader_now,
       old.replicas AS replicas_before, new.replicas AS replicas_now, old.isr AS isr_before, new.isr AS isr_now
FROM (
  SELECT p.cluster_id, p.topic, p.partition,
         any_value(struct(p.leader, p.replicas, p.isr)) FILTER (WHERE s.newest) AS new,
         any_value(struct(p.leader, p.replicas, p.isr)) FILTER (WHERE NOT s.newest) AS old
  FROM silver.partitions p
  JOIN (
    SELECT cluster_id, snapshot_id, newest,
           lead(newest) OVER (PARTITION BY cluster_id ORDER BY number) AS next_is_newest,
           count(*) OVER (PARTITION BY cluster_id) AS snapshots
    FROM insights.snapshots
  ) s ON p.cluster_id = s.cluster_id AND p.snapshot_id = s.snapshot_id
  WHERE s.snapshots > 1 AND (s.newest OR s.next_is_newest)
  GROUP BY p.cluster_id, p.topic, p.partition
)
WHERE new IS NULL OR old IS NULL OR NOT (new.replicas <=> old.replicas) OR NOT (new.leader <=> old.leader)
   OR NOT (array_sort(new.isr) <=> array_sort(old.isr))

-- insights.broker_changes: Brokers that differ between the newest snapshot and the previous one.
SELECT cluster_id, broker_id,
       CASE WHEN old IS NULL THEN 'added' WHEN new IS NULL THEN 'removed'
            WHEN NOT (new.live <=> old.live)
              THEN CASE WHEN new.live IS NULL THEN 'state unknown' WHEN new.live THEN 'returned' ELSE 'failed' END
            WHEN NOT (new.rack <=> old.rack) THEN 'rack changed' ELSE 'host changed' END AS change,
       old.live AS live_before, new.live AS live_now, old.rack AS rack_before, new.rack AS rack_now,
       old.host AS host_before, new.host AS host_now, old.leaders AS leaders_before, new.leaders AS leaders_now
FROM (
  SELECT b.cluster_id, b.broker_id,
         any_value(struct(b.live, b.rack, b.host, b.leaders)) FILTER (WHERE s.newest) AS new,
         any_value(struct(b.live, b.rack, b.host, b.leaders)) FILTER (WHERE NOT s.newest) AS old
  FROM silver.brokers b
  JOIN (
    SELECT cluster_id, snapshot_id, newest,
           lead(newest) OVER (PARTITION BY cluster_id ORDER BY number) AS next_is_newest,
           count(*) OVER (PARTITION BY cluster_id) AS snapshots
    FROM insights.snapshots
  ) s ON b.cluster_id = s.cluster_id AND b.snapshot_id = s.snapshot_id
  WHERE s.snapshots > 1 AND (s.newest OR s.next_is_newest)
  GROUP BY b.cluster_id, b.broker_id
)
WHERE new IS NULL OR old IS NULL OR NOT (new.live <=> old.live) OR NOT (new.rack <=> old.rack)
   OR NOT (new.host <=> old.host)

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

-- insights.plan_metrics: Every metric of each plan, one a row: its value now (before), after the plan, and the proven
-- lower bound, null where none is proven; also what the plan copies and changes, with 0 before.
SELECT cluster_id, goal, m.metric, m.before, m.after, m.lower_bound
FROM (
  SELECT p.cluster_id, p.goal, explode(array(
  {_plan_metrics()})) AS m
  FROM gold.plans p JOIN insights.snapshots s ON p.cluster_id = s.cluster_id AND p.snapshot_id = s.snapshot_id
  WHERE s.newest AND p.feasible
)

-- insights.manually_placed_topics: Topics that no scheme of Kafka explains: placed by hand, or changed since; and the
-- first partition that differs. Where racks_known is false, topics that Kafka placed across racks are among them.
SELECT o.cluster_id, o.topic, o.first_mismatch_partition, o.partitions_checked, o.evidence, o.note, b.racks_known
FROM gold.topic_origin o JOIN insights.snapshots s ON o.cluster_id = s.cluster_id AND o.snapshot_id = s.snapshot_id
JOIN (
  SELECT cluster_id, snapshot_id, bool_or(rack IS NOT NULL) AS racks_known
  FROM silver.brokers GROUP BY cluster_id, snapshot_id
) b ON o.cluster_id = b.cluster_id AND o.snapshot_id = b.snapshot_id
WHERE s.newest AND o.origin = 'none'

-- insights.metric_history: Every metric in every snapshot, and its change since the previous snapshot.
SELECT c.cluster_id, c.metric, s.seen_at, s.number, c.value,
       c.value - lag(c.value) OVER (PARTITION BY c.cluster_id, c.metric ORDER BY s.number) AS change
FROM gold.scheme_comparison c JOIN insights.snapshots s ON c.cluster_id = s.cluster_id AND c.snapshot_id = s.snapshot_id
WHERE c.scheme = 'observed'
"""
VIEWS = tuple(View(*parts) for parts in parse_queries(_QUERIES))
BY_NAME = {view.name: view for view in VIEWS}


def find_dependencies(names: Iterable[str]) -> tuple[list[str], list[View]]:
    """Return the tables that these tables and views are or read, and the views in the order to create them."""
    result, views = list(dict.fromkeys(names)), set()
    for name in result:  # grows in the loop
        if name in BY_NAME:
            views.add(name)
            result += [other for other in BY_NAME[name].dependencies if other not in result]
    return [name for name in result if name not in BY_NAME], [view for view in VIEWS if view.name in views]


# Spark's condition for a catalog that holds tables only, as the open-source Unity Catalog.
_NO_VIEWS = "MISSING_CATALOG_ABILITY.VIEWS"
_SESSION_CATALOG = "spark_catalog"
_SCHEMAS = "|".join(sorted({name.split(".")[0] for name in (*TABLES, *BY_NAME)}))
_NAME = re.compile(rf"('(?:[^'\\\\]|\\\\.)*')|\b({_SCHEMAS})\.(\w+)")  # a string, or the name of a table or view


def use_temporary_names(sql: str) -> str:
    """Replace names of tables and views, such as gold.plans, by those of temporary views, such as gold__plans."""
    return _NAME.sub(lambda match: match[1] or f"{match[2]}__{match[3]}", sql)


def create_views(spark: SparkSession, views: Sequence[View]) -> bool:
    """Create views in the current catalog, or replace them; return whether the catalog can hold views."""
    try:
        if views:
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        for view in views:
            spark.sql(f"CREATE OR REPLACE VIEW {view.name} COMMENT {quote_text(view.comment)} AS {view.sql}")
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


def quote_text(text: str) -> str:
    """Quote a text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quote_name(name: str) -> str:
    """Quote a name, or a path in the place of one, for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def match_snapshots(snapshots: Sequence[SnapshotKey]) -> str:
    """Write the condition that a row belongs to one of these snapshots."""
    keys = sorted(snapshots)
    if not keys:
        return "false"
    if len(keys) == 1:
        return f"cluster_id = {quote_text(keys[0].cluster_id)} AND snapshot_id = {quote_text(keys[0].snapshot_id)}"

    # Sets, because a hundred comparisons are more code than Java allows in a method. The first two let Delta skip
    # files. The length separates the two ids, which may contain any character.
    values = {
        "cluster_id": [key.cluster_id for key in keys],
        "snapshot_id": [key.snapshot_id for key in keys],
        "concat(length(snapshot_id), ' ', snapshot_id, cluster_id)": [
            f"{len(key.snapshot_id)} {key.snapshot_id}{key.cluster_id}" for key in keys
        ],
    }
    return " AND ".join(f"{column} IN ({', '.join(map(quote_text, sorted(set(v))))})" for column, v in values.items())
