"""`maintain`: upgrade tables, delete snapshots that no longer stay, write few files, and remove unused ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.text_format import print_line
from udfs.wording import count_of

if TYPE_CHECKING:
    from pipelines.maintenance import MaintenanceResult


@app.command(rich_help_panel="Tables, with Spark", epilog=examples("maintain"))
def maintain(
    warehouse: common.WarehouseOption = None,
    json_file: common.JsonOption = None,
    conf: common.ConfOption = None,
    options: common.SetOption = None,
) -> None:
    """Delete old snapshots, as [retention] says, and tidy up the files of all tables. `run` does so now and then.

    Tables of an earlier version of kafka-placement are upgraded first, with all their rows.
    """
    from pipelines.maintenance import maintain_tables

    settings = common.read_settings(conf, options, warehouse)
    result = maintain_tables(common.open_existing_store(settings), settings, datetime.now(UTC))
    if json_file is not None:
        common.write_json(json_file, result)
    if str(json_file) != "-":
        print_maintenance(result)


def print_maintenance(result: MaintenanceResult) -> None:
    """Print what was done."""
    if result.upgraded:
        print_line(f"{count_of(len(result.upgraded), 'table')} of an earlier version upgraded, with all rows.")
    for one in result.deleted:
        print_line(f"{one.cluster_id}: snapshot {one.snapshot_id} deleted, {count_of(one.rows, 'row')}")
    for table in result.compacted:
        print_line(f"{table.name}: {count_of(table.files_before, 'file')} written to {table.files_after}")
    print_line(
        f"{count_of(len(result.deleted), 'snapshot')} deleted, {count_of(len(result.compacted), 'table')} "
        f"written to fewer files, {count_of(result.removed_files, 'unused file')} removed."
    )
