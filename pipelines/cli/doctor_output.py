"""`doctor`: whether this machine can run everything, and what to do where it cannot."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from pipelines import __version__
from pipelines.errors import KafkaPlacementError
from pipelines.setup.jars import jar_paths
from pipelines.setup.java import check_java
from pipelines.spark.store import check_folder
from pipelines.tables import TABLES

_LEAST_MEMORY_GIB = 4
# Libraries that must fit each other: found, and of the release that this version was tested with.
_LIBRARIES = {
    "pyspark": "4.1",
    "delta-spark": "4.4",
    "pandas": "2",
    "numpy": "2",
    "pyarrow": "",
    "numba": "",
    "ortools": "9",
}


@dataclass(frozen=True)
class Finding:
    """What was looked at, whether it is well, what was found, and what to do about it ("" = nothing)."""

    what: str
    fine: bool
    found: str
    remedy: str = ""


def findings(warehouse: str, catalog: str) -> list[Finding]:
    """All that this program needs on the machine, one after another; nothing is written but a trial file."""
    return [
        Finding("kafka-placement", True, __version__),
        _python(),
        _asked("Java", lambda: check_java().version),
        _asked("Delta's jars", lambda: ", ".join(path.name for path in jar_paths())),
        *(_library(name, release) for name, release in _LIBRARIES.items()),
        _compiled(),
        _memory(),
        *_warehouse(warehouse, catalog),
    ]


def lines(found: list[Finding]) -> list[str]:
    """The same for a person."""
    out = []
    for one in found:
        out.append(f"{'ok  ' if one.fine else 'FAIL'}  {one.what:18} {one.found}")
        if one.remedy:
            out.append(f"{'':26}{one.remedy}")
    bad = sum(not one.fine for one in found)
    out.append("" if not bad else f"{bad} of {len(found)} need something.")
    return out if bad else [*out[:-1], "Everything is there."]


def answer(found: list[Finding]) -> dict[str, Any]:
    """The same for --json."""
    return {"fine": all(one.fine for one in found), "findings": [asdict(one) for one in found]}


def _asked(what: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, check())
    except KafkaPlacementError as error:
        problem, _, remedy = str(error).partition(". ")
        return Finding(what, False, problem, remedy)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info >= (3, 11)
    return Finding("Python", fine, f"{version}, {sys.executable}", "" if fine else "Use Python 3.11 or newer.")


def _library(name: str, release: str) -> Finding:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, False, "not installed", "Run `make setup`, or install the wheel anew.")
    fine = not release or version == release or version.startswith(f"{release}.")
    return Finding(name, fine, version, "" if fine else f"Install {name} {release}: this version was tested with that.")


def _compiled() -> Finding:
    """Kernels are compiled once and kept; where nothing can be kept, each process compiles them."""
    from udfs import kernel_compiler

    folder = Path(kernel_compiler.__file__).parent / "__pycache__"
    fine = os.access(folder if folder.exists() else folder.parent, os.W_OK)
    remedy = (
        ""
        if fine
        else "Each process compiles the kernels anew (minutes): let XDG_CACHE_HOME name a folder to keep them."
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Finding("compiled kernels", fine or os.access(cache, os.W_OK), str(folder if fine else cache), remedy)


def _memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    fine = total >= _LEAST_MEMORY_GIB
    remedy = (
        "" if fine else f"{_LEAST_MEMORY_GIB} GiB are the least; lower spark.driver.memory with --conf of spark-submit."
    )
    return Finding("memory", fine, f"{total:.1f} GiB, {os.cpu_count()} cores", remedy)


def _warehouse(warehouse: str, catalog: str) -> list[Finding]:
    if catalog or "://" in warehouse:
        return [Finding("warehouse", True, f"{catalog or warehouse}: not looked at from here")]
    folder = Path(warehouse).resolve()
    if not folder.exists():
        return [_asked("warehouse", lambda: _could_be_made(folder))]

    def used() -> str:
        check_folder(warehouse, writing=True)
        return str(folder)

    out = [_asked("warehouse", used)]
    held = [name for name in TABLES if (folder / name.replace(".", "/") / "_delta_log").is_dir()]
    return [*out, Finding("tables", True, f"{len(held)} of {len(TABLES)} have been made")]


def _could_be_made(folder: Path) -> str:
    above = next(place for place in folder.parents if place.exists())
    with tempfile.TemporaryDirectory(dir=above):
        return f"{folder} is not there yet; a run makes it"
