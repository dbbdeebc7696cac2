"""The whole pipeline over a fleet, stage by stage, beside Spark's own copy of its partitions table: `make bench-fleet`.

A fleet is made (see fleet.py) or taken from a folder; a process of its own runs all stages from the files on, and then
copies silver.partitions with Spark, once to warm up and three times. The figure is the time of all stages over the
median copy. Memory is that of the driver, the JVM and all Python workers together, by proportional set size.

After all stages, the views are written as tables, as `run` does. With --apart, the largest cluster and the others are
measured on their own too: where the fleet takes longer than both, one waits for the other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from tests.bench.fleet import add_shape_options, make_fleet, shape_of
from tests.bench.memory import Watch

_COPIES = 3


def _say(**event: object) -> None:
    print(json.dumps(event), flush=True)


def _work(folder: Path, options: list[str], last: str | None) -> None:
    """What the measured process does; it tells of each step on stdout."""
    from pipelines.config.settings import load_settings
    from pipelines.ingest.sources import find_sources
    from pipelines.runner import Progress, Run, make_context
    from pipelines.spark.session import open_session
    from pipelines.spark.store import Store
    from pipelines.spark.view_tables import publish_views
    from pipelines.stages.stage_registry import steps_between

    with tempfile.TemporaryDirectory() as place:
        settings = load_settings(options=[f"store.warehouse={place}/warehouse", *options])
        sources = find_sources([str(path) for path in sorted(folder.iterdir())])
        spark = open_session("bench", warehouse=None)
        spark.range(1).count()
        store = Store(spark, settings.store.warehouse)
        progress = Progress(ended=lambda step, seconds: _say(step=step, seconds=seconds, at=monotonic()))
        _say(step="begin", at=monotonic())
        context = make_context(sources, settings, datetime.now(UTC))
        Run(store, context, progress).go(steps_between(None, last), lambda: datetime.now(UTC))
        _say(step="end", at=monotonic())
        if last is None:
            began = monotonic()
            publish_views(store)
            _say(step="views as tables", seconds=monotonic() - began, at=monotonic())
        copied = []
        for turn in range(_COPIES + 1):
            began = monotonic()
            store.read("silver.partitions").write.format("delta").save(f"{place}/copy-{turn}")
            copied.append(monotonic() - began)
        rows = {row.name: row.rows for row in store.list_tables()}
        _say(copies=copied[1:], rows=rows)


def measure(folder: Path, options: list[str], last: str | None) -> None:
    """Runs the pipeline over the fleet in `folder` in a process of its own, and prints what it took."""
    command = [sys.executable, "-m", "tests.bench.fleet_run", "--work", str(folder), "--to", last or ""]
    process = subprocess.Popen([*command, *(f"--set={o}" for o in options)], stdout=subprocess.PIPE, text=True)
    watch = Watch(process.pid)
    assert process.stdout is not None
    events = [json.loads(line) for line in process.stdout if line.startswith("{")]
    watch.stop()
    if process.wait() != 0 or not events or "copies" not in events[-1]:
        raise SystemExit("the run failed, see above")
    end = events.pop()
    at = {event["step"]: event["at"] for event in events}
    total, copy = at["end"] - at["begin"], statistics.median(end["copies"])
    print(f"  {'stage (some run side by side)':32} {'seconds':>8} {'rows':>12} {'peak GB':>8}")
    for event in events:
        if "seconds" in event:
            peak = watch.peak_between(event["at"] - event["seconds"], event["at"])
            rows = f"{end['rows'].get(event['step'], 0):12,}"
            print(f"  {event['step']:32} {event['seconds']:8.1f} {rows} {peak / 1e9:8.2f}")
    peak = watch.peak_between(at["begin"], at["end"])
    print(f"  all stages                       {total:8.1f} {'':12} {peak / 1e9:8.2f}")
    print(f"  Spark's copy of silver.partitions, median of {_COPIES}: {copy:.2f} s; ratio {total / copy:.1f}")


def measure_apart(folder: Path, options: list[str], last: str | None) -> None:
    """Runs the pipeline over the largest cluster of the fleet alone, and over the others."""
    largest, *others = sorted(folder.iterdir(), key=lambda path: -sum(file.stat().st_size for file in path.iterdir()))
    for name, clusters in (("the largest cluster alone", [largest]), ("the other clusters", others)):
        with tempfile.TemporaryDirectory() as part:
            for cluster in clusters:
                Path(part, cluster.name).symlink_to(cluster)
            print(f"{name}: {len(clusters)}", flush=True)
            measure(Path(part), options, last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shape_options(parser)
    parser.add_argument("--fleet", type=Path, help="folder with a folder a cluster, in place of a new fleet")
    parser.add_argument("--to", help="the last stage")
    parser.add_argument("--apart", action="store_true", help="measure the largest cluster and the others alone too")
    parser.add_argument("--set", action="append", default=[], help="section.key=value, a setting")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        _work(arguments.work, arguments.set, arguments.to or None)
        return
    if arguments.fleet:
        _measure_all(arguments.fleet, arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        shape = shape_of(arguments)
        clusters = make_fleet(shape, Path(folder, "fleet"))
        size = shape.partitions + 500 * shape.small
        print(f"{size:,} partitions, {len(clusters)} clusters, {shape.brokers + 5 * shape.small:,} brokers", flush=True)
        _measure_all(Path(folder, "fleet"), arguments)


def _measure_all(folder: Path, arguments: argparse.Namespace) -> None:
    measure(folder, arguments.set, arguments.to)
    if arguments.apart:
        measure_apart(folder, arguments.set, arguments.to)


if __name__ == "__main__":
    main()
