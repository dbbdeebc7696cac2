"""`tables`: which tables and views there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pipelines.cli.app import app
from pipelines.cli.common_options import (
    ConfOption,
    JsonOption,
    SetOption,
    WarehouseOption,
    open_store,
    read_settings,
    write_json,
)
from pipelines.cli.help_examples import examples
from pipelines.config.settings import Settings
from pipelines.errors import StoreError

if TYPE_CHECKING:
    from pipelines.spark.warehouse_folder import TableListing


@app.command(rich_help_panel="Tables, with Spark", epilog=examples("tables"))
def tables(
    warehouse: WarehouseOption = None, json_file: JsonOption = None, conf: ConfOption = None, options: SetOption = None
) -> None:
    """List the tables with their rows, versions and comments, and the views."""
    listing = list_tables(read_settings(conf, options, warehouse))
    if json_file is not None:
        write_json(json_file, {"tables": listing})
    if str(json_file) != "-":
        print_tables(listing)


def list_tables(settings: Settings) -> list[TableListing]:
    """List the tables. Small tables in a folder are read without Spark.

    Raises:
        StoreError: If there are none.
    """
    from pipelines.spark.session import starts_embedded_spark
    from pipelines.spark.warehouse_folder import check_folder, list_tables_without_spark

    place = settings.store
    listing = None
    if place.in_folder and starts_embedded_spark():
        check_folder(place.warehouse, writing=False)
        listing = list_tables_without_spark(place.warehouse)
    if listing is None:
        listing = open_store(settings, small=True).list_tables()
    if not listing:
        where = Path(place.warehouse).resolve() if place.in_folder else place.catalog or place.warehouse
        raise StoreError(f"there are no tables at {where}. Create them: kafka-placement run SOURCE...")
    return listing


def print_tables(listing: Sequence[TableListing]) -> None:
    """Print the tables and the views over them."""
    from pipelines.cli.text_grid import print_grid
    from pipelines.spark.views import VIEWS

    columns = ("table", "rows", "version", "comment")
    print_grid(
        columns,
        ([row.name, str(row.rows), str(row.version), row.comment] for row in listing),
        right=("rows", "version"),
    )
    typer.echo("Views:")
    for view in VIEWS:
        typer.echo(f"  {view.name:38} {view.comment}")
