"""Pictures of the report for docs/images: `make screenshots`.

Of real runs alone: both captured clusters, and a cluster of 215 brokers as `make fleet` writes it. It needs Debian's
Chromium. `--work DIR` keeps the pages there, and takes those that are there already.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tests.bench.fleet import Shape, make_fleet
from tests.report.seen import chromium_found, launched, opened, unfold

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = [ROOT / "data_samples" / name for name in ("kafka-4.1.1-kraft", "kafka-2.8.2-zookeeper")]
LARGE = Shape(partitions=30_000, clusters=1, brokers=215, topics=900)
TWO, FLEET = "two-clusters", "fleet-215"
KRAFT = "details[data-name='kafka-4.1.1-kraft']"  # in TWO


# What a picture has no use for: links to fold out, and what is read by pointing.
_STILL = "details:not(:has(figure, section, table)), .heat output { display: none !important; }"


@dataclass(frozen=True)
class Shot:
    """One picture. page: TWO or FLEET.   what: CSS selector of the part to show; None = what is seen first.

    width, height: of the window, in CSS pixels.   scale: pixels of the picture to one of these.
    """

    name: str
    page: str
    what: str | None = None
    width: int = 1280
    height: int = 900
    scheme: str = "light"
    scale: float = 1


SHOTS = (
    Shot("takeovers", TWO, f"{KRAFT} figure:has([data-chart=takeovers])", width=1100, scale=1.5),
    Shot("report-light", TWO, height=1500),
    Shot("report-dark", TWO, height=1500, scheme="dark"),
    Shot("report-phone", TWO, width=390, height=1600),
    Shot("broker-failures", TWO, f"{KRAFT} section.card:has(h3:text('Can this broker fail'))", width=1500),
    Shot("fleet-215", FLEET, height=1500),
    Shot("fleet-215-takeovers", FLEET, "#c0 figure:has([data-chart=takeovers])", width=1100),
    Shot("fleet-215-pairs", FLEET, "#c0 figure:has([data-chart=pairs])", width=1100),
)


def pages(work: Path) -> dict[str, Path]:
    """{TWO, FLEET: the page of a run}, made in `work` where they are not there."""
    found = {name: work / f"{name}.html" for name in (TWO, FLEET)}
    if not found[TWO].exists():
        _run([str(folder) for folder in SAMPLES], work / TWO, found[TWO])
        found[TWO].write_text(found[TWO].read_text().replace(f"{ROOT}/", ""))  # paths as in the README
    if not found[FLEET].exists():
        (cluster,) = make_fleet(LARGE, work / "fleet")
        _run([f"{LARGE.brokers}-brokers={cluster}"], work / FLEET, found[FLEET])
    return found


def _run(sources: list[str], warehouse: Path, page: Path) -> None:
    command = [sys.executable, "-m", "pipelines.cli", "run", *sources]
    subprocess.run([*command, "--warehouse", str(warehouse), "--report", str(page)], check=True, cwd=ROOT)


def take(browser: Browser, shot: Shot, page: Path, out: Path) -> float:
    """Seconds until the page had drawn; the picture is out/NAME.png."""
    began = perf_counter()
    with opened(browser, page, shot.width, shot.scheme, shot.height, shot.scale) as seen:
        seconds = perf_counter() - began
        if seen.faults:
            raise SystemExit(f"{page}: {'; '.join(seen.faults)}")
        told: dict[str, Any] = {"path": out / f"{shot.name}.png", "animations": "disabled"}
        if shot.what is not None:  # it may be folded
            unfold(seen.page)
        if shot.what is None:
            seen.page.screenshot(**told)
        else:
            seen.page.locator(shot.what).first.screenshot(**told, style=_STILL)
    return seconds


def main() -> None:
    """Makes the pages where they are not there, and every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--work", type=Path, help="folder of the runs and their pages; else one that goes again")
    chosen = parser.parse_args()
    found = chromium_found()
    if found is None:
        raise SystemExit("make screenshots: no Chromium here (Debian, Ubuntu: apt-get install chromium)")
    chosen.out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        work = chosen.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        made = pages(work)
        browser = stack.enter_context(launched(found))
        for shot in SHOTS:
            seconds = take(browser, shot, made[shot.page], chosen.out)
            size = (chosen.out / f"{shot.name}.png").stat().st_size
            print(f"{shot.name:26} {size / 1e3:7.0f} kB, drawn in {seconds:.1f} s")
        for name, page in made.items():
            print(f"{name:26} page of {page.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
