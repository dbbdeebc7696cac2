"""Declare every Delta table: each `Table` in one of these modules, in the order of the modules and their lines."""

from types import ModuleType

from pipelines.tables import (
    alert_tables,
    bronze_tables,
    execution_tables,
    gold_tables,
    growth_tables,
    internal_tables,
    ops_tables,
    silver_tables,
    simulation_tables,
)
from pipelines.tables.table_contract import Table


def _find_tables(*modules: ModuleType) -> dict[str, Table]:
    declared = (value for module in modules for value in vars(module).values() if isinstance(value, Table))
    return {table.name: table for table in declared}


# Tables that every `run` writes, those that `replay` writes, and all.
RUN_TABLES = _find_tables(bronze_tables, silver_tables, gold_tables, internal_tables, ops_tables)
REPLAY_TABLES = _find_tables(simulation_tables)
GROWTH_TABLES = _find_tables(growth_tables)  # of all runs of a cluster, written at the end of each
TABLES = {**RUN_TABLES, **GROWTH_TABLES, **_find_tables(alert_tables, execution_tables), **REPLAY_TABLES}
