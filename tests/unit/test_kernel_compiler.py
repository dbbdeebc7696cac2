"""Machine code of kernels is kept until a kernel, or what it calls, changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from udfs import kernel_compiler

CALLEE = "from udfs.kernel_compiler import compiled\n\n\n@compiled\ndef value() -> int:\n    return {number}\n"
CALLER = """from udfs.kernels.callee import value
from udfs.kernel_compiler import compiled


@compiled
def doubled() -> int:
    return 2 * value()


if __name__ == "__main__":
    import udfs.kernels.caller as here
    print(here.doubled(), sum(here.doubled.stats.cache_hits.values()))
"""


def make_package(folder: Path) -> Path:
    """Make a package with what every kernel needs; return the folder of its kernels."""
    kernels = folder / "udfs" / "kernels"
    kernels.mkdir(parents=True)
    for place in (kernels, kernels.parent):
        (place / "__init__.py").touch()
    shutil.copy(kernel_compiler.__file__, folder / "udfs" / "kernel_compiler.py")
    (kernels / "caller.py").write_text(CALLER)
    return kernels


@pytest.mark.slow
def test_an_archive_copied_elsewhere_finds_its_machine_code(tmp_path: Path) -> None:
    """Spark copies it to another path for each application."""
    (make_package(tmp_path / "package") / "callee.py").write_text(CALLEE.format(number=1))
    archive = shutil.make_archive(str(tmp_path / "wheel"), "zip", tmp_path / "package")
    cache = tmp_path / "cache" / "kafka-placement"

    def run_caller(folder: Path) -> list[int]:
        folder.mkdir()
        path = str(shutil.copy(archive, folder / "wheel.zip"))
        environment = {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(cache.parent)}
        command = [sys.executable, "-P", "-m", "udfs.kernels.caller"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        return [int(word) for word in done.stdout.split()]

    assert run_caller(tmp_path / "one") == [2, 0]
    assert run_caller(tmp_path / "two") == [2, 1]
    assert len(list(cache.glob("compiled-*"))) == 1


@pytest.mark.slow
def test_a_change_in_one_file_recompiles_its_callers(tmp_path: Path) -> None:
    kernels = make_package(tmp_path)

    def run_caller(number: int) -> list[int]:
        (kernels / "callee.py").write_text(CALLEE.format(number=number))
        command = [
            sys.executable,
            "-B",
            "-m",
            "udfs.kernels.caller",
        ]  # -B: bytecode knows its source by size and second
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return [int(word) for word in done.stdout.split()]

    assert run_caller(1) == [2, 0]
    assert run_caller(1) == [2, 1]
    assert run_caller(2) == [4, 0]
    folder = kernels.parent / "__pycache__" / "compiled"
    assert len(list(folder.glob("caller.doubled-*.nbi"))) == 1  # outdated code is removed


POINTS = """from typing import NamedTuple

from udfs.kernel_compiler import compiled


class {name}(NamedTuple):
    x: int


@compiled
def shifted(point: {name}) -> int:
    return point.x + 1


if __name__ == "__main__":
    import udfs.kernels.points as points
    print(points.shifted(points.{name}(1)))
"""


@pytest.mark.slow
def test_machine_code_for_a_class_that_no_longer_exists_is_ignored(tmp_path: Path) -> None:
    kernels = make_package(tmp_path)
    for name in ("Point", "Position"):
        (kernels / "points.py").write_text(POINTS.format(name=name))
        command = [sys.executable, "-B", "-m", "udfs.kernels.points"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_python_cannot_call_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither before nor after a kernel has called it: it has no machine code of its own."""
    monkeypatch.setattr(kernel_compiler, "_FOLDER", None)  # a test leaves no machine code among the kernels

    @kernel_compiler.part
    def twice(value: int) -> int:
        return 2 * value

    @kernel_compiler.compiled
    def kernel(value: int) -> int:
        return twice(value) + 1

    for _ in range(2):
        with pytest.raises(TypeError, match="only compiled functions can call"):
            twice(3)
        assert kernel(3) == 7
