"""Reassignment files of other tools in `apply`: the plan folder that stands for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipelines.cli.check_rendering import render_findings
from pipelines.cli.common_options import print_findings
from pipelines.cli.text_format import print_line
from pipelines.config.setting_sections import Settings
from pipelines.errors import SettingsError
from pipelines.execution.journal import JOURNAL
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.live.live_sources import read_snapshot
from pipelines.plan_files.foreign_plan import ForeignPlan, hash_files, write_foreign_plan
from pipelines.plan_files.plan_reader import read_plan
from pipelines.plan_files.reassignment_reader import read_reassignment


def choose_folder(
    files: Sequence[Path],
    connection: KafkaAdmin,
    settings: Settings,
    throttle_bytes_per_s: int | None,
    may_write: bool,
    *,
    factor: int | None = None,
    accepts_harm: bool = False,
) -> Path:
    """Return the plan folder beside the first file: the one that was begun, else a new one, once files are judged.

    may_write: whether to make one. factor: the replication factor that the files are to give; None = the topics'.

    Raises: SettingsError if there is none, if it was begun with other files, or if the
    files are harmful; SourceError if a file cannot be read.
    """
    waves = [read_reassignment(path) for path in files]
    folder = files[0].with_name(f"{files[0].name}.plan")
    if (folder / JOURNAL).exists():
        if read_plan(folder).source_files != hash_files(files):
            problem = f"{folder} was begun with other files, or with others of this name"
            raise SettingsError(f"{problem}. Name that folder to go on with it, or give the files another name")
        print_line(f"{folder}: the plan that was begun with {_name(files)}")
        return folder
    if not may_write:
        raise SettingsError(f"{_name(files)}: nothing of it was begun, as there is no {folder / JOURNAL}")
    snapshot, _ = read_snapshot(connection)
    print_findings(snapshot)
    plan = ForeignPlan(files, waves, folder)
    judgement = write_foreign_plan(
        plan, snapshot, settings, throttle_bytes_per_s, factor=factor, accepts_harm=accepts_harm
    )
    for line in render_findings(judgement):
        print_line(line)
    print_line(f"{folder}: the plan that stands for {_name(files)} from now on, with its waves and its journal")
    return folder


def _name(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))
