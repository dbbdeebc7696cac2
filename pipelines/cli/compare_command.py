"""`compare`: placement schemes on synthetic clusters, over brokers, racks, partitions and replication factors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pipelines.cli.app import app, examples
from pipelines.cli.common_options import ConfOption, JsonOption, SetOption, read_settings, write_answer
from pipelines.cli.option_values import option, whole_number
from pipelines.cli.text_format import align_rows
from pipelines.errors import SettingsError
from udfs.placement.schemes import KAFKA, KRAFT, NAIVE
from udfs.wording import count_of

if TYPE_CHECKING:
    from udfs.failures.scheme_distribution import StudiedCluster, StudyResult

_MAX_DETAILED = 6  # clusters: up to so many, every scheme is shown with all figures
_MAX_PARTITIONS = 100_000_000  # placed with each scheme: minutes


@app.command(rich_help_panel="Questions, without Spark", epilog=examples("compare"))
def compare(
    brokers: Annotated[str, option("Numbers of brokers, separated by commas.", "NUMBERS")] = "6,12,60,200",
    racks: Annotated[str, option("Numbers of racks; 0 = no racks.", "NUMBERS")] = "0,3,6",
    partitions: Annotated[str, option("Partitions per topic.", "NUMBERS")] = "1,6,24,100",
    factors: Annotated[str, option("Replication factors.", "NUMBERS", "--rf")] = "2,3",
    leaders_per_broker: Annotated[
        int, option("Average number of leaders per broker.", "N", parser=whole_number(1, 100_000))
    ] = 100,
    seeds: Annotated[
        int | None,
        option(
            "Random placements per cluster and scheme.", "N", parser=whole_number(1, 10_000), default="failures.seeds"
        ),
    ] = None,
    json_file: JsonOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Compare Kafka's placement schemes on synthetic clusters: worst survivor, copysets, risk of loss."""
    from udfs.failures.scheme_distribution import StudyGrid, run_study

    settings = read_settings(conf, options)
    grid = StudyGrid(
        parse_numbers(brokers, "--brokers", 1, 5_000),
        parse_numbers(racks, "--racks", 0, 5_000),
        parse_numbers(partitions, "--partitions", 1, 1_000_000),
        parse_numbers(factors, "--rf", 1, 20),
        leaders_per_broker,
        settings.run.seed,
        seeds or settings.failures.seeds,
    )
    if not grid.list_clusters():
        raise SettingsError("no combination can be placed: all have more racks, or more replicas, than brokers")
    if (placed := grid.count_partitions()) > _MAX_PARTITIONS:
        problem = f"this would place {placed:,} partitions; the limit is {_MAX_PARTITIONS:,}"
        raise SettingsError(f"{problem}. Use fewer combinations, --seeds or --leaders-per-broker")
    result = run_study(grid)
    write_answer(json_file, result, format_study(result))


def parse_numbers(text: str, option: str, least: int, most: int) -> tuple[int, ...]:
    """Parse the numbers of an option, separated by commas; each is from `least` to `most`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(p.isascii() and p.isdigit() and len(p) < 10 and least <= int(p) <= most for p in parts):
        raise SettingsError(f"{option} {text}: write numbers from {least} to {most}, separated by commas, as in 6,12")
    return tuple(dict.fromkeys(map(int, parts)))


_HEADINGS = (
    *("brokers", "racks", "partitions", "RF", "naive", "kafka", "(5-95 %)", "kraft", "(5-95 %)", "kraft/kafka", "|"),
    *("kafka", "kraft", "kraft/kafka", "P(loss) kafka", "kraft"),
)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _ratio(a: float | None, b: float | None) -> str:
    return f"{a / b:.2f}" if a is not None and b else "-"


def _format_row(studied: StudiedCluster) -> list[str]:
    cluster, (naive, kafka, kraft) = studied.cluster, (studied.schemes[name] for name in (NAIVE, KAFKA, KRAFT))
    cells = [str(n) for n in (cluster.brokers, cluster.racks, cluster.partitions_per_topic, cluster.replication_factor)]
    cells.append(_number(naive.worst_survivor_ratio.p50, 3))
    for ratio in (kafka.worst_survivor_ratio, kraft.worst_survivor_ratio):
        cells += [_number(ratio.p50, 3), f"{_number(ratio.p05, 3)}-{_number(ratio.p95, 3)}"]
    cells += [_ratio(kraft.worst_survivor_ratio.p50, kafka.worst_survivor_ratio.p50), "|"]
    cells += [_number(figures.copysets.p50, 0) for figures in (kafka, kraft)]
    cells.append(_ratio(kraft.copysets.p50, kafka.copysets.p50))
    return [*cells, *(_number(figures.loss_probability.p50, 4) for figures in (kafka, kraft))]


def _format_details(studied: StudiedCluster) -> Iterator[str]:
    """Format the medians of all figures, a line per scheme."""
    cluster = studied.cluster
    size = f"{count_of(cluster.brokers, 'broker')}, {count_of(cluster.racks, 'rack')}"
    size += f", {count_of(cluster.partitions_per_topic, 'partition')} per topic"
    yield f"{size}, RF {cluster.replication_factor}: medians"
    rows = [["", "worst survivor", "takeover brokers", "copysets", "P(loss)"]]
    for name, figures in studied.schemes.items():
        values = zip(vars(figures).values(), (3, 0, 0, 6), strict=True)
        rows.append([name, *(_number(value.p50, digits) for value, digits in values)])
    yield from (f"  {line}" for line in align_rows(rows))


def format_study(result: StudyResult) -> Iterator[str]:
    """Format a study as lines for people."""
    yield f"Most loaded survivor after the worst single failure, leaders max/mean: median of {result.seeds} seeds"
    yield "(range of 90 % of them); then copysets, and the probability that RF simultaneous failures lose a partition"
    yield from align_rows([_HEADINGS, *map(_format_row, result.clusters)], left=())
    if len(result.clusters) <= _MAX_DETAILED:
        for studied in result.clusters:
            yield from _format_details(studied)
    for figure, title in (("worst_survivor_ratio", "worst survivor"), ("copysets", "copysets")):
        verdict = result.verdicts[figure]
        if verdict.clusters:
            higher = f"higher in {verdict.kraft_higher} ({verdict.kraft_higher_beyond_seeds} beyond 90 % of the seeds)"
            lower = f"lower in {verdict.kraft_lower} ({verdict.kraft_lower_beyond_seeds})"
            ratio = f"median ratio to kafka {verdict.kraft_over_kafka_median:.2f}"
            span = f"{verdict.kraft_over_kafka_min:.2f} to {verdict.kraft_over_kafka_max:.2f}"
            yield f"{title}: of {verdict.clusters} clusters kraft is {higher}, {lower}; {ratio} ({span})"
