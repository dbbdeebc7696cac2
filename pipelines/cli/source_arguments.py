"""SOURCE arguments: files of a cluster, or a running cluster, which is read when its command begins; and its loads."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from pipelines.cli.option_values import option, parse_place
from pipelines.cli.text_format import print_error, print_message, print_warning
from pipelines.config.setting_sections import MetricsSettings, Settings, parse_duration, print_window
from pipelines.errors import KafkaPlacementError, SourceError
from pipelines.ingest.sources import Source, check_names, find_source, is_live
from pipelines.metrics.metrics_origin import check_places, find_unused, select_origin, write_option
from udfs.wording import count_of

if TYPE_CHECKING:
    from pipelines.metrics.metric_names import KnownBroker

_HELP = "client.properties as for Kafka's own tools, to connect to kafka:// sources"
SourceArgument = Annotated[
    str,
    typer.Argument(
        help="A file, a folder with the files of one cluster, or kafka://HOST:PORT; NAME=... names the cluster.",
        metavar="SOURCE",
        parser=parse_place,
    ),
]
SourcesArgument = Annotated[
    list[str],
    typer.Argument(
        help="A file, a folder or kafka://HOST:PORT per cluster; NAME=... names the cluster.",
        metavar="SOURCE...",
        parser=parse_place,
    ),
]
CommandConfigOption = Annotated[
    str | None, option(f"{_HELP}.", "FILE", "--command-config", parser=parse_place, default="no security")
]
CommandConfigsOption = Annotated[
    list[str] | None,
    option(
        f"{_HELP}; repeat it for clusters by name.",
        "[NAME=]FILE",
        "--command-config",
        parser=parse_place,
        default="no security",
    ),
]
MetricsOption = Annotated[
    list[str] | None,
    option(
        "Loads of topics: prometheus=URL, or a file or folder of scrapes, query results or CSV; repeat it for "
        "clusters by name.",
        "[NAME=]METRICS",
        "--metrics",
        parser=parse_place,
        default="those that the source shows",
    ),
]
WindowOption = Annotated[
    int | None,
    option(
        "Time before now whose loads count, as in 7d or 12h.", "TIME", parser=parse_duration, default="metrics.window"
    ),
]
_MAX_READ_TWICE = 256_000_000  # bytes of files whose brokers are looked up before the loads are read
# Deleted when the process ends: Spark reads the files until then.
_FOLDERS: list[TemporaryDirectory[str]] = []


class MetricsRequest(NamedTuple):
    """What --metrics asks for. texts: its values as written; end: of the window, in UTC; has_window: by --window."""

    texts: Sequence[str]
    settings: MetricsSettings
    end: datetime
    has_window: bool = False

    @classmethod
    def of_options(
        cls, texts: Sequence[str] | None, window: int | None, settings: Settings, end: datetime | None = None
    ) -> MetricsRequest:
        """Return the request of options. window: seconds, None = that of the settings; end: None = now.

        Raises: typer.BadParameter; SourceError if a file of metrics does not exist.
        """
        if texts:
            check_places(texts)
        elif window is not None:
            raise typer.BadParameter("--window is for --metrics: name metrics, as in --metrics prometheus=http://...")
        own = settings.metrics if window is None else settings.metrics.model_copy(update={"window": window})
        return cls(texts or (), own, end or datetime.now(UTC), window is not None)

    def check_names(self, clusters: Sequence[str]) -> None:
        """Raise typer.BadParameter if metrics are for a cluster that is not among these."""
        if self.texts and (unused := find_unused(self.texts, clusters)):
            these = ", ".join(clusters)
            raise typer.BadParameter(f"--metrics {unused[0]}: no source is named so; the clusters are {these}")

    def add_loads(
        self,
        source: Source,
        folder: Path | None,
        brokers: Sequence[KnownBroker] | None = None,
        format_name: str | None = None,
    ) -> Source:
        """Return a source with the loads of its cluster as one more file.

        folder: of that file, None = a temporary one; brokers: of the cluster, None = those that the source shows;
        format_name: of the source's files.
        """
        if not self.texts:
            return source
        from pipelines.ingest.formats.topic_loads import have_window
        from pipelines.metrics.load_reading import FILE_NAME, read_loads

        origin = select_origin(self.texts, source.cluster_id)
        if origin is None:
            return source
        known = _find_brokers(source, format_name) if brokers is None else brokers
        lines = read_loads(origin, self.settings, source.cluster_id, known, self.end)
        file = (folder or _create_folder()) / FILE_NAME
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        print_message(f"read {lines[0].removeprefix('loads from ')}: {count_of(len(lines) - 1, 'line')} of loads")
        older = [one for one in source.files if one.name == FILE_NAME]
        if older:
            print_message(f"{older[0]} is not used: --metrics replaces it")
        options = f"{source.options} {write_option(self.texts, source.cluster_id)}".lstrip()
        if have_window(lines):
            options += f" --window {print_window(self.settings.window)}"
        elif self.has_window:
            print_warning(f"--window has no effect: the loads of {origin} are not of a window")
        return replace(
            source,
            files=(*(one for one in source.files if one not in older), file),
            own_files=(file,),
            address=source.name_place(),
            options=options,
        )


def _create_folder() -> Path:
    """Create a folder that lasts as long as the process."""
    folder = TemporaryDirectory(prefix="kafka-placement-")
    _FOLDERS.append(folder)
    return Path(folder.name)


def _find_brokers(source: Source, format_name: str | None) -> Sequence[KnownBroker] | None:
    """Return the brokers of files that may be live; None if the files are too large to be read twice."""
    from pipelines.ingest.snapshot_reader import load_snapshot
    from pipelines.metrics.metric_names import KnownBroker

    if source.size_bytes > _MAX_READ_TWICE:
        return None
    brokers = load_snapshot(source, format_name).brokers.select(["broker_id", "host", "live"]).to_pylist()
    return [KnownBroker(row["broker_id"], row["host"]) for row in brokers if row["live"] is not False]


def open_source(
    argument: str,
    command_config: str | Sequence[str] | None = None,
    metrics: MetricsRequest | None = None,
    format_name: str | None = None,
    beside: str | None = None,
) -> Source:
    """Return the source of an argument; a running cluster is read now, and what it did not answer becomes warnings.

    command_config: FILE or NAME=FILE, as written; format_name: of its files; beside: another source of the command,
    for which these two may be. Raises: SourceError; SettingsError for a wrong file of properties; typer.BadParameter
    for options that are for neither source.
    """
    _check_use([argument], command_config, format_name, [] if beside is None else [beside])
    source = _open(argument, command_config, metrics, format_name, is_again=argument == beside)
    if metrics is not None:
        metrics.check_names([source.cluster_id])
    return source


def _open(
    argument: str,
    command_config: str | Sequence[str] | None,
    metrics: MetricsRequest | None,
    format_name: str | None,
    *,
    is_again: bool = False,
) -> Source:
    if is_live(argument):
        return save_live_cluster(argument, command_config, _create_folder() / "cluster", metrics, is_again=is_again)
    source = find_source(argument)
    return source if metrics is None else metrics.add_loads(source, None, format_name=format_name)


def save_live_cluster(
    argument: str,
    command_config: str | Sequence[str] | None,
    folder: Path,
    metrics: MetricsRequest | None = None,
    *,
    offsets: bool = False,
    is_saved: bool = False,
    is_again: bool = False,
) -> Source:
    """Read a running cluster now, write what it shows to a folder, and say so, unless this is the second time.

    offsets: also of all logs. is_saved: whether the user keeps the files.
    Raises: SourceError if the argument is not the address of one, or if it does not answer.
    """
    from pipelines.live.live_sources import fetch_source, parse_address, select_properties

    address = parse_address(argument)
    texts = [command_config] if isinstance(command_config, str) else list(command_config or ())
    properties = select_properties(address.name, texts)
    source, reading = fetch_source(address, properties, folder, offsets=offsets, is_saved=is_saved)
    brokers, topics = reading.state.brokers, reading.topics
    partitions = sum(len(topic.partitions) for topic in topics)
    counts = {"broker": len(brokers), "topic": len(topics), "partition": partitions}
    listed = ", ".join(count_of(count, noun) for noun, count in counts.items())
    if not is_again:
        print_message(f"read {argument}: {listed}{'' if reading.elrs is not None else '; the cluster has no ELRs'}")
    words = [word for text in texts for word in ("--command-config", text)]
    source = replace(source, options=shlex.join(words))
    if metrics is None:
        return source
    from pipelines.metrics.metric_names import KnownBroker

    return metrics.add_loads(source, folder, [KnownBroker(broker.id, broker.host) for broker in brokers])


def open_sources(
    arguments: Sequence[str],
    command_config: Sequence[str] | None,
    metrics: MetricsRequest,
    format_name: str | None = None,
) -> tuple[list[Source], int]:
    """Return the sources of all arguments, and how many were left out: nothing can be read of them.

    An error message names each of these. Raises: KafkaPlacementError if no source is left, or if two are of one
    cluster.
    """
    _check_use(arguments, command_config, format_name)
    sources, faults = [], []
    for argument in arguments:
        try:
            sources.append(_open(argument, command_config, metrics, format_name))
        except SourceError as fault:
            faults.append(str(fault))
    leave_out(sources, faults)
    check_names(sources)
    if not faults:
        metrics.check_names([source.cluster_id for source in sources])
    return sources, len(faults)


def leave_out(others: Sequence[Source], faults: Sequence[str]) -> None:
    """Say which sources are left out, and why. Raises: KafkaPlacementError if there are no others."""
    if faults and not others:
        raise KafkaPlacementError(*faults)
    for text in faults:
        print_error([f"{text.removesuffix('.')}. This cluster is left out of the run"])


def save_live_sources(arguments: Sequence[str], command_config: str | None, format_name: str | None) -> list[str]:
    """Return the arguments with running clusters replaced by the files that were read of them."""
    _check_use(arguments, command_config, format_name)
    out = []
    for argument in arguments:
        source = open_source(argument, command_config) if is_live(argument) else None
        out.append(argument if source is None else f"{source.cluster_id}={source.files[0].parent}")
    return out


def _check_use(
    arguments: Sequence[str],
    command_config: str | Sequence[str] | None,
    format_name: str | None,
    beside: Sequence[str] = (),
) -> None:
    """Raise typer.BadParameter for an option that is only for running clusters, or only for files.

    beside: other arguments, of which one is enough for an option.
    """
    live = list(filter(is_live, arguments))
    if command_config and not live and not any(map(is_live, beside)):
        raise typer.BadParameter("--command-config is for running clusters: none of the sources is kafka://HOST:PORT")
    if format_name is not None and live and all(map(is_live, beside)):
        raise typer.BadParameter(f"--format is for files: leave it out for {live[0]}, or save it with snapshot first")


def get_servers(source: str) -> str | None:
    """Return the servers of a running cluster that an argument names; None for files."""
    if not is_live(source):
        return None
    from pipelines.live.live_sources import parse_address

    return parse_address(source).servers
