"""`doctor`: whether this machine can run everything."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import typer

from pipelines import __version__
from pipelines.cli.app import app, examples
from pipelines.cli.common_options import ConfOption, JsonOption, SetOption, WarehouseOption, read_settings, write_answer
from pipelines.config.setting_sections import StoreSettings
from pipelines.errors import EXIT_INPUT, KafkaPlacementError
from pipelines.warehouse_urls import redact_urls

_MIN_MEMORY_GIB = 4
# Libraries with the release that this version was tested with.
_LIBRARIES = {
    **{"pyspark": "4.1", "delta-spark": "4.4", "pandas": "2", "numpy": "2"},
    **{"pyarrow": "", "numba": "", "ortools": "9"},
}


@dataclass(frozen=True)
class Check:
    """A check: what was checked, whether it passed, what was found, and how to fix it."""

    subject: str
    ok: bool
    result: str
    remedy: str = ""


@app.command(rich_help_panel="This machine", epilog=examples("doctor"))
def doctor(
    warehouse: WarehouseOption = None, json_file: JsonOption = None, conf: ConfOption = None, options: SetOption = None
) -> None:
    """Check Java, jars, libraries, memory and warehouse, and say how to fix what is missing."""
    checks = _check_machine(read_settings(conf, options, warehouse).store)
    lines = []
    for check in checks:
        lines.append(f"{'ok  ' if check.ok else 'FAIL'}  {check.subject:18} {check.result}")
        if check.remedy:
            lines.append(f"{'':26}{check.remedy}")
    failed = sum(not check.ok for check in checks)
    lines.append(f"{failed} of {len(checks)} checks failed." if failed else "All checks passed.")
    write_answer(json_file, {"ok": not failed, "checks": checks}, lines)
    if failed:
        raise typer.Exit(EXIT_INPUT)


def _check_machine(place: StoreSettings) -> list[Check]:
    """Check everything that the program needs on this machine, in the order of setup; write only a temporary file."""
    from pipelines.setup.jars import list_jar_files
    from pipelines.setup.java import check_java

    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    enough = memory_gib >= _MIN_MEMORY_GIB
    more = f"At least {_MIN_MEMORY_GIB} GiB are needed; lower spark.driver.memory with spark-submit --conf."
    return [
        Check("kafka-placement", True, __version__),
        Check("Python", True, f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}"),
        _run_check("Java", lambda: check_java().version),
        _run_check("Delta's jars", lambda: ", ".join(path.name for path in list_jar_files())),
        *(_check_library(name, release) for name, release in _LIBRARIES.items()),
        _check_compiled_kernels(),
        Check("memory", enough, f"{memory_gib:.1f} GiB, {os.cpu_count()} cores", "" if enough else more),
        *_check_warehouse(place.warehouse, place.catalog),
    ]


def _run_check(subject: str, check: Callable[[], str]) -> Check:
    try:
        return Check(subject, True, check())
    except KafkaPlacementError as error:
        problem, _, remedy = str(error).partition(". ")
        return Check(subject, False, problem, remedy)


def _check_library(name: str, release: str) -> Check:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name, False, "not installed", "Run `make setup`, or reinstall the wheel.")
    ok = not release or f"{version}.".startswith(f"{release}.")
    return Check(name, ok, version, "" if ok else f"Install {name} {release}, with which this program was tested.")


def _check_compiled_kernels() -> Check:
    from udfs.kernel_compiler import cache_folder

    folder = cache_folder()
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), None) if folder else None
    ok = existing is not None and os.access(existing, os.W_OK)
    remedy = "Every process compiles the kernels again (minutes): set XDG_CACHE_HOME to a writable folder."
    return Check("compiled kernels", ok, str(folder or "no folder"), "" if ok else remedy)


def _check_warehouse(warehouse: str, catalog: str) -> list[Check]:
    from pipelines.spark.delta_log import last_version
    from pipelines.spark.warehouse_folder import check_folder
    from pipelines.tables import TABLES

    if catalog or "://" in warehouse:
        return [Check("warehouse", True, f"{catalog or redact_urls(warehouse)}: not checked from here")]
    folder = Path(warehouse).resolve()
    exists = folder.exists()

    def check_writable() -> str:
        check_folder(warehouse if exists else str(next(p for p in folder.parents if p.exists())), writing=True)
        return str(folder) if exists else f"{folder} does not exist yet; a run creates it"

    checks = [_run_check("warehouse", check_writable)]
    if exists:
        tables = [name for name in TABLES if last_version(folder / name.replace(".", "/")) >= 0]
        checks.append(Check("tables", True, f"{len(tables)} of {len(TABLES)} exist"))
    return checks
