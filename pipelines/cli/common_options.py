"""Options and arguments that several commands take, and what they stand for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.config.settings import Settings, load_settings
from pipelines.errors import SettingsError
from pipelines.ingest.sources import Source

if TYPE_CHECKING:
    from pipelines.spark.store import Store

SourceArgument = Annotated[
    str,
    typer.Argument(help="One cluster: a file or a folder of its files; NAME=PATH names the cluster.", metavar="SOURCE"),
]
SourcesArgument = Annotated[
    list[str], typer.Argument(help="Clusters, each a file or a folder; NAME=PATH names one.", metavar="SOURCE...")
]
FormatOption = Annotated[str | None, typer.Option("--format", help="Read every file as this format; else recognised.")]
JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Write the whole answer to this file; - prints it, alone.", metavar="FILE")
]
SMALL_REPLAY = 100_000  # events; fewer are not worth what a large Spark compiles
WarehouseOption = Annotated[
    str | None, typer.Option(help="Folder of the tables.", metavar="DIR", show_default="warehouse")
]
ConfOption = Annotated[str | None, typer.Option(help="Settings file over the defaults.", metavar="FILE")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="One setting, as in run.seed=7.", metavar="KEY=VALUE")
]


def settings_of(conf: str | None, options: list[str] | None, warehouse: str | None = None) -> Settings:
    given = list(options or [])
    if warehouse is not None:
        given.append(f"store.warehouse={warehouse}")
    return load_settings(given, conf)


def store_of(settings: Settings, small: bool, writing: bool = False) -> Store:
    from pipelines.spark.session import open_session, starts_here
    from pipelines.spark.store import Store, check_folder

    place = settings.store
    if place.in_folder and starts_here():
        check_folder(place.warehouse, writing)
    spark = open_session("kafka-placement", warehouse=None, small=small)
    return Store(spark, place.warehouse, place.catalog)


def store_to_read(settings: Settings) -> Store:
    """The store of a command that reads: little is compiled where the tables are small."""
    from pipelines.spark.store import holds_less

    return store_of(settings, holds_less(settings.store.warehouse, settings.ingest.small_input_bytes))


def warn(sources: list[Source]) -> None:
    for source in sources:
        for warning in source.warnings:
            typer.echo(f"kafka-placement: warning: {warning}", err=True)


def write_json(path: Path, answer: dict[str, Any]) -> None:
    """Nothing; the answer is this file's text; `-` = it is printed."""
    write_text(path, json.dumps(answer, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Nothing; what --json asks for is this file; `-` = it is printed."""
    if str(path) == "-":
        typer.echo(text, nl=False)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"--json {path}: cannot be written: {error.strerror}") from error


def tell(json_file: Path | None, answer: Mapping[str, Any], lines: Iterable[str]) -> None:
    """Nothing; the answer is printed line by line, and written as --json asks."""
    if json_file is not None:
        write_json(json_file, dict(answer))
    if str(json_file) != "-":
        for line in lines:
            typer.echo(line)


def broker_ids(text: str) -> list[int]:
    ids = []
    for part in text.split(","):
        if not re.fullmatch(r"\s*\d+\s*", part):
            raise typer.BadParameter(f"--fail {text!r}: {part.strip()!r} is no broker id. Write ids, as in 2,5.")
        ids.append(int(part))
    return list(dict.fromkeys(ids))
