"""What the commands that touch tables show a person: progress, the closing table, listings, answers."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

import typer
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Row, SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table as Grid

from pipelines.cli.broker_failure_output import LEVELS
from pipelines.cli.json_rows import reject_repeated, text_of
from pipelines.config.settings import StoreSettings
from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.report.figure_queries import FIGURES
from pipelines.report.report_data import OF_VERDICT, verdicts_of
from pipelines.runner import Progress, Run
from pipelines.spark.session import silence, starts_here
from pipelines.spark.store import Store, check_folder, listing_without_spark
from pipelines.spark.views import BY_NAME as VIEWS
from pipelines.spark.views import needed
from pipelines.tables import TABLES

_SHOW = re.compile(r"\s*(SHOW|DESCRIBE|DESC)\b", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*(EXPLAIN\s+((EXTENDED|CODEGEN|COST|FORMATTED)\s+)?)", re.IGNORECASE)
_TAIL = re.compile(r"\s*;(\s|;|--[^\n]*(\n|$)|/\*[^*]*\*/)*$")  # ends of statements, and comments behind them


@contextmanager
def progress(steps: int) -> Iterator[Progress]:
    """A bar on a terminal's stderr; elsewhere nothing, so that logs stay readable."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Progress()
        return
    columns = (
        TextColumn("{task.description:28}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=steps)
        yield Progress(
            began=lambda step: bar.update(task, description=step), ended=lambda step, seconds: bar.advance(task)
        )


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _grid(**options: Any) -> Grid:
    # Lines around cells for a person; columns alone for what reads a pipe or a log.
    return Grid(**options) if sys.stdout.isatty() else Grid(**options, box=None, pad_edge=False)


def _print(grid: Grid) -> None:
    # A pipe has no width: do not cut there what a person may read later.
    width = None if sys.stdout.isatty() else 10_000
    # Cells are data, and their square brackets and colons mean nothing.
    Console(width=width, soft_wrap=False, markup=False, emoji=False, highlight=False).print(grid)


def show(
    store: Store,
    snapshots: Sequence[SnapshotKey],
    steps: Sequence[str],
    page: Path | None = None,
    max_pairs: int | None = None,
    verdicts: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Print what a run found: the verdict of each cluster, the schemes beside each other, and where the report is.

    verdicts: of the clusters (verdict_of), if they are known; more may be among them.
    """
    if "silver.source_summary" in steps:
        _show_sources(store, snapshots)
    if "gold.scheme_comparison" in steps:
        _show_verdicts(snapshots, _verdicts(store, snapshots) if verdicts is None else verdicts)
        _show_schemes(store, snapshots, max_pairs)
    if page is not None:
        typer.echo(f"Report: {page.resolve()}")


def show_details(store: Store, snapshots: Sequence[SnapshotKey], steps: Sequence[str], work: Run) -> None:
    """Print what was read of each source, where each table is, and how long each stage took: `run --verbose`."""
    if "silver.source_summary" in steps:
        for row in _accounts(store, snapshots):
            typer.echo(_account(row))
    typer.echo("Written:")
    for name in steps:
        if name in TABLES:
            typer.echo(f"  {name:24} {store.place(name)}")
    if "quality" in steps:
        typer.echo(f"  {'ops.quality_results':24} {store.place('ops.quality_results')}")
        if work.docs_folder:
            typer.echo(f"  {'quality pages':24} {Path(work.docs_folder).resolve()}/index.html")
    typer.echo(f"  {'ops.runs':24} {store.place('ops.runs')}")
    took = ", ".join(f"{step} {seconds:.1f}" for step, seconds in work.seconds.items())
    typer.echo(f"Seconds (stages run side by side): {took}")


def _accounts(store: Store, snapshots: Sequence[SnapshotKey]) -> list[dict[str, Any]]:
    columns = ("cluster_id", "source", "format", "records", "kept", "quarantined", "ignored")
    rows = store.rows("silver.source_summary", snapshots, columns)
    return sorted(rows, key=itemgetter("cluster_id", "source"))


def _account(row: Mapping[str, Any]) -> str:
    return (
        "{cluster_id}: {source} ({format}): "
        "{records} records: {kept} kept, {quarantined} quarantined, {ignored} ignored".format_map(row)
    )


def _verdicts(store: Store, snapshots: Sequence[SnapshotKey]) -> dict[str, dict[str, Any]]:
    run_sql = store.querier([name for figure in FIGURES if figure.name in OF_VERDICT for name in figure.tables])
    return verdicts_of(run_sql, snapshots)


def _show_verdicts(snapshots: Sequence[SnapshotKey], verdicts: Mapping[str, Mapping[str, Any]]) -> None:
    for cluster in sorted(key.cluster_id for key in snapshots):
        verdict = verdicts[cluster]
        typer.echo(f"{cluster}: {LEVELS[verdict['level']]}: {verdict['sentence']}")
    typer.echo("")


def _show_sources(store: Store, snapshots: Sequence[SnapshotKey]) -> None:
    for row in _accounts(store, snapshots):
        if row["quarantined"]:
            typer.echo(_account(row))
    conflicts = store.rows("silver.conflicts", snapshots, ["cluster_id"])
    for cluster, times in sorted(Counter(row["cluster_id"] for row in conflicts).items()):
        typer.echo(f"{cluster}: the sources conflict each other {times} times, see silver.conflicts")


def _show_schemes(store: Store, snapshots: Sequence[SnapshotKey], max_pairs: int | None) -> None:
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    columns = ("cluster_id", "scheme", "metric", "value", "ratio_to_naive")
    for row in store.rows("gold.scheme_comparison", snapshots, columns):
        cells.setdefault((row["cluster_id"], row["scheme"]), {})[row["metric"]] = row
    live = store.rows("silver.brokers", snapshots, ["cluster_id", "live"])
    brokers = Counter(row["cluster_id"] for row in live if row["live"])
    for cluster in {key.cluster_id for key in snapshots} - {cluster for cluster, _ in cells}:
        cells[cluster, "-"] = {}
    grid = _grid(title="Leaders now, and after the worst failure of one broker", title_justify="left")
    for heading in ("cluster", "scheme"):
        grid.add_column(heading)
    headings = (
        "live\nbrokers",
        "leaders\nmax/mean",
        "worst survivor\nmax/mean",
        "its ratio\nto naive",
        "survivors that\ntake over (mean)",
        "offline partitions\nat worst",
        "copysets",
        "P(loss if\n3 fail)",
    )
    for heading in headings:
        grid.add_column(heading, justify="right")
    for (cluster, scheme), metrics in sorted(cells.items()):

        def shown(metric: str, digits: int = 3, of: str = "value", metrics: dict[str, Any] = metrics) -> str:
            return _number(metrics.get(metric, {}).get(of), digits)

        worst, offline = "worst_survivor_ratio", shown("most_offline_partitions", 0)
        grid.add_row(
            cluster,
            scheme,
            str(brokers.get(cluster, 0)),
            shown("leaders_max_over_mean_ratio"),
            shown(worst),
            shown(worst, of="ratio_to_naive"),
            shown("mean_takeover_brokers", 1),
            # Where no broker lives, none can fail: what is offline already is the worst.
            shown("offline_partitions", 0) if offline == "-" else offline,
            shown("copysets", 0),
            shown("loss_probability_of_3_brokers", 5),
        )
    _print(grid)
    for cluster, n in sorted(brokers.items()):
        if max_pairs is not None and n * (n - 1) // 2 > max_pairs:
            typer.echo(f"{cluster}: pairs of brokers are left out: {n * (n - 1) // 2} are more than failures.max_pairs")


def tables_of(place: StoreSettings, open_store: Callable[[], Store]) -> list[dict[str, Any]]:
    """Return what tables there are: name, rows, version, comment, place. A folder's small tables need no Spark."""
    listing = None
    if place.in_folder and starts_here():
        check_folder(place.warehouse, writing=False)
        listing = listing_without_spark(place.warehouse)
    if listing is None:
        listing = open_store().listing()
    if not listing:
        where = Path(place.warehouse).resolve() if place.in_folder else place.catalog or place.warehouse
        raise StoreError(f"there are no tables at {where}. Make them: kafka-placement run SOURCE...")
    return listing


def show_tables(listing: Sequence[Mapping[str, Any]]) -> None:
    """The same for a person."""
    grid = _grid()
    for heading in ("table", "rows", "version", "comment"):
        grid.add_column(heading, justify="right" if heading in ("rows", "version") else "left")
    for row in listing:
        grid.add_row(row["table"], str(row["rows"]), str(row["version"]), row["comment"])
    _print(grid)
    typer.echo("Questions that people ask, as views over these:")
    for view in VIEWS.values():
        typer.echo(f"  {view.name:28} {view.comment}")


def asked(store: Store, sql: str, as_json: bool) -> tuple[list[str], list[Row]]:
    """(columns, rows) of a query. as_json: whether each row must make an object."""
    plain = sql.replace("`", "")
    named = [n for n in (*TABLES, *VIEWS) if re.search(rf"\b{re.escape(n)}\b", plain, re.IGNORECASE)]
    named, views = needed(named)
    found = store.register(named)
    for name in named:
        if name not in found:
            raise StoreError(f"there is no table {name} at {store.place(name)}. Make it: kafka-placement run SOURCE...")
    store.register_views(views)
    silence(store.spark)
    try:
        frame = store.spark.sql(_read_only(store.spark, sql))
        columns = frame.columns
        if as_json:
            reject_repeated(columns)
        return columns, frame.collect()
    except (AnalysisException, ParseException) as error:
        names = ", ".join((*TABLES, *VIEWS))
        said = f"the query is not understood: {error.getMessage() or error}"
        raise StoreError(f"{said}\nquery only reads: SELECT, SHOW, DESCRIBE, EXPLAIN. The tables: {names}") from error
    except StoreError:
        raise
    except Exception as error:  # whatever is wrong in what a person wrote: a division by zero, a bad cast
        raise StoreError(f"the query failed: {_first_line(error)}") from error


def _read_only(spark: SparkSession, sql: str) -> str:
    """The statement, if all that it can do is to read; else AnalysisException: some would change things at once.

    What Spark takes for a table in brackets is a query, whatever comments and strings are in it.
    """
    explain = _EXPLAIN.match(sql)
    if explain:
        return explain[1] + _read_only(spark, sql[explain.end() :])
    if _SHOW.match(sql):
        return sql
    tries = list(dict.fromkeys((sql, _TAIL.sub("", sql))))
    for last, query in enumerate(tries, 1):
        try:
            spark.sql(f"SELECT * FROM ({query}\n)")
        except ParseException:
            if last == len(tries):
                raise
        else:
            return query
    raise AssertionError("not reached")


def show_rows(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """The same for a person."""
    grid = _grid()
    for column in columns:
        grid.add_column(column)
    for row in rows:
        grid.add_row(*map(text_of, row))
    _print(grid)


def _first_line(error: Exception) -> str:
    """What an error says, without the place in Spark's own code where it came up."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    caused = [line for line in lines if re.match(r": ([\w.$]+): ", line)]  # of Java, behind what Python was about to do
    return re.sub(r"^: [\w.$]+: ", "", caused[0]) if caused else lines[0]
