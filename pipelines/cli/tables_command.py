"""`tables`: the tables and views, with rows, versions and comments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.text_format import print_grid, print_line
from pipelines.config.setting_sections import Settings
from pipelines.errors import StoreError

if TYPE_CHECKING:
    from pipelines.spark.warehouse_folder import TableListing


@app.command(rich_help_panel="Tables, with Spark", epilog=examples("tables"))
def tables(
    warehouse: common.WarehouseOption = None,
    json_file: common.JsonOption = None,
    conf: common.ConfOption = None,
    options: common.SetOption = None,
) -> None:
    """List the tables with their rows, versions and comments, and the views."""
    from pipelines.spark.views import VIEWS

    listing = _list_tables(common.read_settings(conf, options, warehouse))
    if json_file is not None:
        common.write_json(json_file, {"tables": listing})
    if str(json_file) != "-":
        rows = ([row.name, str(row.rows), str(row.version), row.comment] for row in listing)
        print_grid(("table", "rows", "version", "comment"), rows, right=("rows", "version"))
        print_line("Views:")
        for view in VIEWS:
            print_line(f"  {view.name:38} {view.comment}")


def _list_tables(settings: Settings) -> list[TableListing]:
    """List the tables; small tables in a folder are read without Spark. Raises: StoreError if there are none."""
    from pipelines.spark.table_migrations import check_migrated

    place = settings.store
    store = common.open_store(settings, small=True)
    check_migrated(store)
    listing = store.list_tables()
    if not listing:
        where = Path(place.warehouse).resolve() if place.in_folder else place.catalog or place.warehouse
        raise StoreError(f"there are no tables at {where}. Create them: kafka-placement run SOURCE...")
    return listing
