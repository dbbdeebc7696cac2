"""`report`: the report on the newest snapshot of each cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.text_format import format_count

if TYPE_CHECKING:
    pass


@app.command(rich_help_panel="Tables, with Spark", epilog=examples("report"))
def report(
    file: Annotated[Path, typer.Argument(help="File to write.", metavar="FILE")],
    clusters: Annotated[
        list[str] | None, typer.Option("--cluster", help="Only this cluster; repeat for more.", metavar="NAME")
    ] = None,
    warehouse: common.WarehouseOption = None,
    conf: common.ConfOption = None,
    options: common.SetOption = None,
) -> None:
    """Write the report, one HTML page, on the newest snapshot of each cluster."""
    from pipelines.report.html_page import write_report

    facts = write_report(
        common.open_store_to_read(common.read_settings(conf, options, warehouse)), file, clusters or ()
    )
    typer.echo(f"{format_count(len(facts.clusters), 'cluster')}: {file}")
