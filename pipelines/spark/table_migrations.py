"""Continue a warehouse of an earlier version whose tables had other names or columns: rows are written anew, once.

Each table has its own version, and each step is one commit or one renamed table, so that the next migration finishes
one that was interrupted. ops.runs comes last: while its version is an earlier one, the warehouse is not migrated.
"""

from collections.abc import Collection
from contextlib import suppress

from pipelines.errors import StoreError
from pipelines.spark.store import Store
from pipelines.spark.table_upgrades import TABLE_VERSION, make_migration_error
from pipelines.tables import TABLES, earlier_tables
from pipelines.tables.earlier_tables import EARLIER_TABLES, TABLE_NAMES, find_earlier_columns
from pipelines.tables.gold_tables import PLAN_METRICS, PLANS
from pipelines.tables.ops_tables import RUNS
from pipelines.tables.table_contract import Table

# Bounds of metrics in gold.plans: of the objective, and of the moves, unless a budget paid for fewer.
_BOUNDS = {
    "copied_bytes": "CASE WHEN objective = 'bytes copied' THEN lower_bound END",
    "moves": "coalesce(CASE WHEN objective = 'replicas copied' THEN lower_bound END, CASE WHEN moves >= moves_bound "
    "THEN moves_bound END)",
    "leader_changes": "CASE WHEN objective = 'preferred leaders changed' THEN lower_bound END",
    "worst_survivor_ratio": "CASE WHEN objective = 'leaders of the worst survivor of a failure, over the mean' "
    "THEN lower_bound END",
}


def check_migrated(store: Store) -> None:
    """Raise StoreError if tables have other names and columns than readers expect, until they are migrated."""
    earlier = None
    with suppress(StoreError):  # a damaged table: who reads it explains the damage
        earlier = _find_earlier(store)
    if earlier is not None:
        store.check_versions([*EARLIER_TABLES, *TABLES])
        raise make_migration_error(f"table {earlier} at {store.describe_location(earlier)}")


def migrate_tables(store: Store) -> list[str]:
    """Continue tables of earlier versions with all their rows; return the names of the tables, if there are such.

    Raises: StoreError, before any table changes, if one of them cannot be continued.
    """
    if _find_earlier(store) is None:
        return []
    with store.lock("ops"):  # runs that start at the same time wait
        if _find_earlier(store) is None:
            return []
        store.check_versions([*EARLIER_TABLES, *TABLES])
        for earlier, name in TABLE_NAMES.items():
            if store.exists(earlier):
                _take_over(store, earlier, name)
        if store.exists(PLANS.name):
            columns = store.find_table_state(PLANS.name).schema.names
            if find_earlier_columns(PLANS.name).keys() & set(columns):
                store.rewrite(PLAN_METRICS, PLANS.name, _make_metrics_query(columns))
        for view in earlier_tables.VIEWS:
            store.remove_view(view)
        names = sorted(filter(store.exists, TABLES), key=lambda name: name == RUNS.name)
        for name in names:
            state = store.find_table_state(name)
            query = _make_query(TABLES[name], state.schema.names)
            if query and state.version < TABLE_VERSION:
                store.rewrite(TABLES[name], name, query)
            store.create(TABLES[name])
    return names


def _find_earlier(store: Store) -> str | None:
    """Find a table of an earlier version: ops.runs, or if there is none, one that is not continued as it is."""
    names = (
        [RUNS.name]
        if store.exists(RUNS.name)
        else [*TABLE_NAMES, *earlier_tables.COLUMNS, *earlier_tables.REMOVED_ROWS]
    )
    earlier = (n for n in names if store.exists(n) and store.find_table_state(n).version < TABLE_VERSION)
    return next(earlier, None)


def _take_over(store: Store, earlier: str, name: str) -> None:
    """Give a table its name now; at a URL, where that is not possible, copy its rows."""
    if not store.exists(name):
        if not store.rename(earlier, name):
            columns = store.find_table_state(earlier).schema.names
            store.rewrite(TABLES[name], earlier, _make_query(TABLES[name], columns, always=True))
    elif store.has_local_files:
        problem = f"table {earlier} at {store.describe_location(earlier)} is called {name} now, which exists too"
        raise StoreError(f"{problem}. Move one of them away, or load the sources of both into another folder")


def _make_query(table: Table, columns: Collection[str], *, always: bool = False) -> str:
    """Make the query for the rows of a table that an earlier version wrote with these columns; empty = as they are."""
    earlier = {name: now for name, now in find_earlier_columns(table.name).items() if name in columns}
    values, is_removed = earlier_tables.VALUES.get(table.name, {}), table.name in earlier_tables.REMOVED_ROWS
    if not (earlier or values or is_removed or always):
        return ""
    names = {name: name for name in columns} | {now: name for name, now in earlier.items() if now}
    parts = []
    for field in table.schema:
        unknown = f"CAST(NULL AS {field.dataType.simpleString()})"
        value = values.get(field.name, f"`{names[field.name]}`" if field.name in names else unknown)
        parts.append(f"{value} AS `{field.name}`")
    return f"SELECT {', '.join(parts)} FROM {{source}}{' WHERE false' if is_removed else ''}"


def _make_metrics_query(columns: Collection[str]) -> str:
    """Make the query for the rows of gold.plan_metrics from the columns that gold.plans had."""
    values = {name: ("0", name) for name in ("copied_bytes", "moves", "leader_changes")}
    for name in earlier_tables.METRICS:
        pair = (f"{name}_before", f"{name}_after")
        values[name] = pair if pair[0] in columns else ("NULL", "NULL")
    structs = (
        f"named_struct('metric', '{name}', 'before', CAST({before} AS DOUBLE), 'after', CAST({after} AS DOUBLE), "
        f"'lower_bound', CAST({_BOUNDS.get(name, 'NULL')} AS DOUBLE))"
        for name, (before, after) in values.items()
    )
    bound = "CAST(get_json_object(certificate, '$.moves_lower_bound') AS DOUBLE) AS moves_bound"
    return (
        "SELECT cluster_id, snapshot_id, goal, m.metric, m.before, m.after, m.lower_bound FROM (SELECT cluster_id, "
        f"snapshot_id, goal, explode(array({', '.join(structs)})) AS m FROM (SELECT *, {bound} FROM {{source}}) "
        "WHERE feasible)"
    )
