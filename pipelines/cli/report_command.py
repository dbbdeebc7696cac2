"""`report`: the report on the newest snapshot of each cluster."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.option_values import option, parse_moment, parse_report
from pipelines.cli.text_format import print_line
from udfs.wording import count_of


@app.command(rich_help_panel="Tables, with Spark", epilog=examples("report"))
def report(
    file: Annotated[
        Path, typer.Argument(help="File to write; - prints the page.", metavar="FILE", parser=parse_report)
    ],
    clusters: Annotated[list[str] | None, option("Only this cluster; repeat for more.", "NAME", "--cluster")] = None,
    since: Annotated[
        datetime | None,
        option(
            "Compare each cluster with how it was then (UTC). Default: a week earlier.", "TIME", parser=parse_moment
        ),
    ] = None,
    warehouse: common.WarehouseOption = None,
    conf: common.ConfOption = None,
    options: common.SetOption = None,
) -> None:
    """Write the report, one HTML page, on the newest snapshot of each cluster."""
    from pipelines.report.html_page import render_page, write_page
    from pipelines.report.report_data import read_report

    data = read_report(
        common.open_store_to_read(common.read_settings(conf, options, warehouse)), clusters or (), since=since
    )
    if file == Path("-"):
        common.write_text(file, render_page(data))
        return
    write_page(data, file)
    print_line(f"{count_of(len(data.clusters), 'cluster')}: {file}")
