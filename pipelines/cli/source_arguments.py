"""SOURCE arguments: files of a cluster, or a running cluster, which is read when its command begins."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from pipelines.cli.option_values import parse_place
from pipelines.cli.text_format import format_count, print_error, print_message
from pipelines.errors import KafkaPlacementError, SourceError
from pipelines.ingest.sources import Source, check_names, find_source, is_live

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
    str | None,
    typer.Option("--command-config", help=f"{_HELP}.", metavar="FILE", show_default="no security", parser=parse_place),
]
CommandConfigsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--command-config",
        help=f"{_HELP}; repeat it for clusters by name.",
        metavar="[NAME=]FILE",
        show_default="no security",
        parser=parse_place,
    ),
]
# Deleted when the process ends: Spark reads the files until then.
_FOLDERS: list[TemporaryDirectory[str]] = []


def open_source(argument: str, command_config: str | Sequence[str] | None = None) -> Source:
    """Return the source of an argument; a running cluster is read now, and what it did not answer becomes warnings.

    command_config: FILE or NAME=FILE, as written. Raises: SourceError; SettingsError for a wrong file of properties.
    """
    if not is_live(argument):
        _check_use([argument], command_config)
        return find_source(argument)
    folder = TemporaryDirectory(prefix="kafka-placement-")
    _FOLDERS.append(folder)
    return save_live_cluster(argument, command_config, Path(folder.name, "cluster"))


def save_live_cluster(
    argument: str, command_config: str | Sequence[str] | None, folder: Path, *, offsets: bool = False
) -> Source:
    """Read a running cluster now, write what it shows to a folder, and say so. offsets: also of all logs.

    Raises: SourceError if the argument is not the address of one, or if it does not answer.
    """
    from pipelines.live.live_sources import fetch_source, parse_address, select_properties

    address = parse_address(argument)
    texts = [command_config] if isinstance(command_config, str) else list(command_config or ())
    source, reading = fetch_source(address, select_properties(address.name, texts), folder, offsets=offsets)
    topics = reading.topics
    counts = {
        "broker": len(reading.state.brokers),
        "topic": len(topics),
        "partition": sum(len(topic.partitions) for topic in topics),
    }
    listed = ", ".join(format_count(count, noun) for noun, count in counts.items())
    print_message(f"read {argument}: {listed}" + ("" if reading.elrs is not None else "; the cluster has no ELRs"))
    words = [word for text in texts for word in ("--command-config", text)]
    return replace(source, options=" ".join(map(shlex.quote, words)))


def open_sources(arguments: Sequence[str], command_config: Sequence[str] | None = None) -> tuple[list[Source], int]:
    """Return the sources of all arguments, and how many running clusters were left out as they do not answer.

    An error message names each of these. Raises: KafkaPlacementError if no source is left, or if two are of one
    cluster.
    """
    _check_use(arguments, command_config)
    sources, faults = [], []
    for argument in arguments:
        if not is_live(argument):
            sources.append(find_source(argument))
            continue
        try:
            sources.append(open_source(argument, command_config))
        except SourceError as fault:
            faults.append(str(fault))
    if faults and not sources:
        raise KafkaPlacementError(*faults)
    for text in faults:
        print_error([f"{text}. This cluster is left out of the run"])
    check_names(sources)
    return sources, len(faults)


def save_live_sources(arguments: Sequence[str], command_config: str | None) -> list[str]:
    """Return the arguments with running clusters replaced by the files that were read of them."""
    _check_use(arguments, command_config)
    out = []
    for argument in arguments:
        source = open_source(argument, command_config) if is_live(argument) else None
        out.append(argument if source is None else f"{source.cluster_id}={source.files[0].parent}")
    return out


def _check_use(arguments: Sequence[str], command_config: str | Sequence[str] | None) -> None:
    """Raise typer.BadParameter if --command-config is given, and no source is a running cluster."""
    if command_config and not any(map(is_live, arguments)):
        raise typer.BadParameter("--command-config is for running clusters: none of the sources is kafka://HOST:PORT")
