"""What the commands that touch tables show a person: progress, the closing table, listings, answers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from pyspark.errors import AnalysisException, ParseException
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table as Grid

from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.runner import Progress
from pipelines.store import Store
from pipelines.tables import TABLES


@contextmanager
def progress(steps: int) -> Iterator[Progress]:
    """A bar on a terminal's stderr; elsewhere nothing, so that logs stay readable."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Progress()
        return
    columns = (TextColumn("{task.description:28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=steps)
        yield Progress(
            began=lambda step: bar.update(task, description=step),
            ended=lambda step, seconds: bar.advance(task),
        )


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _print(grid: Grid) -> None:
    # A pipe has no width: do not cut there what a person may read later.
    width = None if sys.stdout.isatty() else 200
    Console(width=width, soft_wrap=False).print(grid)


def show(store: Store, snapshots: Sequence[SnapshotKey], steps: Sequence[str], docs_folder: str | None) -> None:
    """The closing table of a run, what is odd about its sources, and where everything is."""
    if "silver.source_accounts" in steps:
        _show_sources(store, snapshots)
    if "gold.scheme_comparison" in steps:
        _show_schemes(store, snapshots)
    typer.echo("Written:")
    for name in steps:
        if name in TABLES:
            typer.echo(f"  {name:24} {store.place(name)}")
    if "quality" in steps:
        typer.echo(f"  {'ops.quality_results':24} {store.place('ops.quality_results')}")
        if docs_folder:
            typer.echo(f"  {'quality pages':24} {docs_folder}/index.html")
    typer.echo(f"  {'ops.runs':24} {store.place('ops.runs')}")


def _show_sources(store: Store, snapshots: Sequence[SnapshotKey]) -> None:
    accounts = store.read("silver.source_accounts", snapshots).orderBy("cluster_id", "source").collect()
    for row in accounts:
        parts = f"{row.records} records: {row.kept} kept, {row.quarantined} quarantined, {row.ignored} ignored"
        typer.echo(f"{row.cluster_id}: {row.source} ({row.format}): {parts}")
    for row in store.read("silver.contradictions", snapshots).groupBy("cluster_id").count().collect():
        times = row["count"]
        typer.echo(f"{row.cluster_id}: the sources contradict each other {times} times, see silver.contradictions")


def _show_schemes(store: Store, snapshots: Sequence[SnapshotKey]) -> None:
    rows = store.read("gold.scheme_comparison", snapshots).collect()
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        cells.setdefault((row.cluster_id, row.scheme), {})[row.metric] = row
    grid = Grid(title="Leaders now, and after the worst death of one broker", title_justify="left")
    for heading in ("cluster", "scheme"):
        grid.add_column(heading)
    headings = (
        "leaders\nmax/mean",
        "worst survivor\nmax/mean",
        "its ratio\nto naive",
        "survivors that\ntake over (mean)",
        "offline partitions\nat worst",
    )
    for heading in headings:
        grid.add_column(heading, justify="right")
    for (cluster, scheme), metrics in sorted(cells.items()):
        worst = metrics["worst_survivor_max_over_mean_ratio"]
        offline = metrics["most_offline_partitions"].value
        grid.add_row(
            cluster,
            scheme,
            _number(metrics["leaders_max_over_mean_ratio"].value),
            _number(worst.value),
            _number(worst.ratio_to_naive),
            _number(metrics["mean_receivers"].value, 1),
            "-" if offline is None else f"{offline:.0f}",
        )
    _print(grid)


def show_tables(store: Store) -> None:
    """What tables there are."""
    listing = store.listing()
    if not listing:
        raise StoreError(f"there are no tables at {store.warehouse}. Make them: kafka-placement run SOURCE...")
    grid = Grid()
    for heading in ("table", "rows", "version", "comment"):
        grid.add_column(heading, justify="right" if heading in ("rows", "version") else "left")
    for row in listing:
        grid.add_row(row["table"], str(row["rows"]), str(row["version"]), row["comment"])
    _print(grid)


def show_query(store: Store, sql: str, as_json: bool) -> None:
    """The rows of a query: a table, or one JSON object a row."""
    named = [name for name in TABLES if re.search(rf"\b{re.escape(name)}\b", sql.replace("`", ""), re.IGNORECASE)]
    found = store.register(named)
    for name in named:
        if name not in found:
            raise StoreError(f"there is no table {name} at {store.place(name)}. Make it: kafka-placement run SOURCE...")
    try:
        rows = store.spark.sql(sql).collect()
        columns = rows[0].__fields__ if rows else store.spark.sql(sql).columns
    except (AnalysisException, ParseException) as error:
        names = ", ".join(TABLES)
        raise StoreError(f"the query is not understood: {error.getMessage() or error}\nThe tables: {names}") from error
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row.asDict(recursive=True), default=str))
        return
    grid = Grid()
    for column in columns:
        grid.add_column(column)
    for row in rows:
        grid.add_row(*("" if value is None else str(value) for value in row))
    _print(grid)
