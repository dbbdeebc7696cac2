"""A year of nights in one warehouse: what one more night, the report and queries cost, and how many files there are.

    python -m tests.bench.year --nights 1 30 365          a small cluster (743 partitions)
    python -m tests.bench.year --fleet --nights 1 30      30 clusters with 20,000 partitions

The first night is a run of the program. The nights between are its rows under other snapshot ids and times, written by
the program's own writer and maintained as runs do it; then come two nights by `run`, of changed sources. Each command
is measured in a process of its own: processor seconds of Python, Java and Python workers, and peak memory. With
`--set retention.all_days=0`, all snapshots stay.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipelines.spark import delta_rs
from pipelines.tables import TABLES
from tests.bench.fleet import Shape, make_fleet
from tests.bench.line_chart import draw_lines
from tests.bench.memory import Watch

SMALL = Shape(partitions=743, clusters=1, brokers=6, topics=40, seed=46)
FLEET = Shape(partitions=20_000, clusters=30, brokers=120, topics=900, seed=46)
LAST_NIGHT = datetime(2026, 11, 1, 2, 0, tzinfo=UTC)
_NEWEST = (
    "SELECT * FROM gold.failure_summary f JOIN insights.snapshots s USING (cluster_id, snapshot_id) WHERE s.newest"
)
_HISTORY = "SELECT cluster_id, count(*), max(seen_at) FROM insights.metric_history GROUP BY cluster_id"


def change_sources(folder: Path, turn: int) -> None:
    """Make another state of each cluster: in turn, one of the first partitions has a smaller ISR."""
    for file in folder.glob("*/topics-describe.txt"):
        lines = file.read_text().splitlines()
        places = [i for i, line in enumerate(lines) if re.search(r"Isr: \d+,\d+", line)]
        place = places[turn % len(places)]
        lines[place] = re.sub(r"Isr: (\d+),[\d,]+", r"Isr: \1", lines[place])
        file.write_text("\n".join(lines) + "\n")


def add_nights(warehouse: Path, nights: int, first: int = 1) -> None:
    """Repeat the rows of the first night of a warehouse under other snapshot ids and later times, a commit a table.

    first: the number of the first of these nights; the one that is there is 0.
    """
    runs = DeltaTable(str(warehouse / "ops" / "runs")).to_pyarrow_table()
    ids = runs.filter(pc.equal(runs["as_of"], pc.min(runs["as_of"])))["snapshot_id"].unique()
    for name, table in TABLES.items():
        folder = warehouse / name.replace(".", "/")
        if table.only_newest or not (folder / "_delta_log").is_dir():
            continue
        rows = DeltaTable(str(folder)).to_pyarrow_table()
        rows = rows.filter(pc.is_in(rows["snapshot_id"], ids))
        if not rows.num_rows:
            continue
        for night in range(first, first + nights):
            delta_rs.write_rows(folder, _shift(rows, night), ())


def copy_nights(first_night: Path, tables: Iterable[str], nights: int, warehouse: Path) -> Path:
    """Copy tables of a warehouse of one night, add nights until there are so many, and return the new warehouse."""
    for name in tables:
        folder = name.replace(".", "/")
        shutil.copytree(first_night / folder, warehouse / folder)
    add_nights(warehouse, nights - 1)
    return warehouse


def _set_ages(warehouse: Path, nights: int) -> None:
    """Let each file of the logs look as old as its night, so that old ones are removed as they would be."""
    for file in warehouse.glob("*/*/_delta_log/0*"):
        at = time.time() - max(nights - int(file.name.partition(".")[0]), 0) * 86_400
        os.utime(file, (at, at))


def _shift(rows: pa.Table, night: int) -> pa.Table:
    for i, field in enumerate(rows.schema):
        column = rows[field.name]
        if field.name == "snapshot_id":
            ids = column.unique().to_pylist()
            others = pa.array([sha256(f"{text} {night}".encode()).hexdigest()[: len(text)] for text in ids])
            rows = rows.set_column(i, field.name, others.take(pc.index_in(column, pa.array(ids))))
        elif pa.types.is_timestamp(field.type) and field.name in ("as_of", "finished_at", "ingested_at"):
            rows = rows.set_column(i, field.name, pc.add(column, pa.scalar(timedelta(days=night), pa.duration("us"))))
    return rows


def run_command(*arguments: str) -> dict[str, float]:
    """Run a command of the program; return its processor seconds, seconds and peak bytes."""
    began = monotonic()
    process = subprocess.Popen([sys.executable, "-m", "pipelines.cli", *arguments], stdout=subprocess.DEVNULL)
    watch = Watch(process.pid)
    status = process.wait()
    watch.stop()
    ended = monotonic()
    if status:
        raise SystemExit(f"{' '.join(arguments)} failed, see above")
    peak = watch.peak_between(began, ended) / 1e9
    return {"cpu_s": watch.cpu_seconds, "wall_s": ended - began, "peak_gb": peak}


def count_files(warehouse: Path) -> dict[str, float]:
    """Count the files of a warehouse, and their bytes."""
    sizes = [file.stat().st_size for file in warehouse.rglob("*") if file.is_file()]
    return {"files": len(sizes), "mb": sum(sizes) / 1e6}


def play(sources: Path, nights: int, place: Path, options: list[str]) -> list[dict[str, Any]]:
    """Make a warehouse of so many nights, and measure one more night and what reads it; print JSON lines."""
    lines: list[dict[str, Any]] = []
    warehouse = place / "warehouse"
    common = ["--warehouse", str(warehouse), *(f"--set={option}" for option in options)]

    def say(step: str, **values: float) -> None:
        line = {"nights": nights, "step": step, **{k: round(v, 2) for k, v in values.items()}}
        print(json.dumps(line), flush=True)
        lines.append(line)

    first = LAST_NIGHT - timedelta(days=nights, hours=8)
    folders = [str(folder) for folder in sorted(sources.iterdir())]
    run_command("run", *folders, *common, "--as-of", f"{first:%Y-%m-%dT%H:%M:%S}")
    say("first night", **count_files(warehouse))
    add_nights(warehouse, nights - 1)
    _set_ages(warehouse, nights)
    say("nights written", **count_files(warehouse))
    if nights > 1:  # what the runs of these nights would have done, and the first run that sees them
        # Files that no table has any more have not been there for days, had these nights passed one by one.
        say("maintain", **run_command("maintain", *common, "--set", "retention.unused_file_days=0"))
        change_sources(sources, nights + 1)
        evening = LAST_NIGHT - timedelta(hours=8)
        say("first run", **run_command("run", *folders, *common, "--as-of", f"{evening:%Y-%m-%dT%H:%M:%S}"))
        say("after the first run", **count_files(warehouse))
    change_sources(sources, nights)
    tonight = ["--as-of", f"{LAST_NIGHT:%Y-%m-%dT%H:%M:%S}"]
    say("run", **run_command("run", *folders, *common, *tonight))
    say("after the run", **count_files(warehouse))
    say("run again", **run_command("run", *folders, *common, *tonight))
    say("report", **run_command("report", str(place / "report.html"), *common))
    say("query of the newest", **run_command("query", _NEWEST, *common))
    say("query of the history", **run_command("query", _HISTORY, *common))
    say("tables", **run_command("tables", *common))
    return lines


def draw(lines: Sequence[dict[str, Any]], title: str, file: Path) -> None:
    """Draw the processor seconds of each command over the nights."""
    commands = ("run", "run again", "report", "query of the newest", "query of the history", "tables")
    of_commands = {
        name: [(line["nights"], line["cpu_s"]) for line in lines if line["step"] == name] for name in commands
    }
    draw_lines(of_commands, f"Processor seconds, {title}", "nights in the warehouse", file)


def main() -> None:
    """Play nights and print what they cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleet", action="store_true", help="30 clusters with 20,000 partitions")
    parser.add_argument("--nights", type=int, nargs="+", default=[1, 30, 365])
    parser.add_argument("--set", action="append", default=[], help="section.key=value, a setting")
    parser.add_argument("--keep", type=Path, help="write the warehouses to this folder, and leave them there")
    parser.add_argument("--picture", type=Path, help="draw the processor seconds of each command to this SVG file")
    arguments = parser.parse_args()
    lines = []
    for nights in arguments.nights:
        with tempfile.TemporaryDirectory() as temporary:
            place = arguments.keep / str(nights) if arguments.keep else Path(temporary)
            shutil.rmtree(place, ignore_errors=True)
            sources = place / "sources"
            make_fleet(FLEET if arguments.fleet else SMALL, sources)
            lines += play(sources, nights, place, arguments.set)
    if arguments.picture:
        draw(lines, "30 clusters, 20,000 partitions" if arguments.fleet else "743 partitions", arguments.picture)


if __name__ == "__main__":
    main()
