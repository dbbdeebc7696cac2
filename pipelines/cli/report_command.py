"""`report`: the HTML report from the tables alone."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.app import app
from pipelines.cli.common_options import ConfOption, SetOption, WarehouseOption, open_store_to_read, read_settings
from pipelines.cli.help_examples import examples


@app.command(rich_help_panel="Tables, with Spark", epilog=examples("report"))
def report(
    file: Annotated[Path, typer.Argument(help="File to write.", metavar="FILE")],
    clusters: Annotated[
        list[str] | None, typer.Option("--cluster", help="Only this cluster; repeat for more.", metavar="NAME")
    ] = None,
    warehouse: WarehouseOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Write the report, one HTML page, on the newest snapshot of each cluster."""
    from pipelines.report.html_page import write_report

    facts = write_report(open_store_to_read(read_settings(conf, options, warehouse)), file, clusters or ())
    typer.echo(f"{len(facts.clusters)} {'cluster' if len(facts.clusters) == 1 else 'clusters'}: {file}")
