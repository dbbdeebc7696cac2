"""`snapshot`: saves what a running cluster shows of itself as files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.app import app, examples
from pipelines.cli.common_options import ConfOption, SetOption, read_settings
from pipelines.cli.option_values import flag, option, parse_path, parse_place
from pipelines.cli.source_arguments import (
    CommandConfigOption,
    MetricsOption,
    MetricsRequest,
    WindowOption,
    save_live_cluster,
)
from pipelines.cli.text_format import print_line
from pipelines.errors import SettingsError
from pipelines.whole_files import create_folder


@app.command(rich_help_panel="Running clusters", epilog=examples("snapshot"))
def snapshot(
    source: Annotated[
        str,
        typer.Argument(
            help="The cluster as [NAME=]kafka://HOST:PORT, with several brokers separated by commas.",
            metavar="SOURCE",
            parser=parse_place,
        ),
    ],
    out: Annotated[Path, option("Folder for the files: a new or empty one.", "DIR", parser=parse_path)],
    command_config: CommandConfigOption = None,
    metrics: MetricsOption = None,
    window: WindowOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
    offsets: Annotated[bool, flag("offsets", "Also read log end offsets, which takes longer.")] = False,
) -> None:
    """Save what a running cluster shows as the files that Kafka's own tools print, which every command reads."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SettingsError(f"--out {out}: it exists and is not an empty folder. Name another one")
    loads = MetricsRequest.of_options(metrics, window, read_settings(conf, options))
    try:
        with create_folder(out.absolute()) as folder:
            written = save_live_cluster(source, command_config, folder, loads, offsets=offsets, is_saved=True)
            loads.check_names([written.cluster_id])
            names = [file.name for file in written.files]
    except OSError as error:
        raise SettingsError(f"--out {out}: cannot be written: {error.strerror}. Name another folder") from error
    for name in names:
        print_line(str(out / name))
    print_line(f"Every command reads it: kafka-placement what-if {shlex.quote(f'{written.cluster_id}={out}')}")
