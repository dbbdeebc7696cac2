"""Compiled kernels are kept, and never outlive a change of what they call."""

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


def package(folder: Path) -> Path:
    """The kernels' folder of a package with what every kernel needs."""
    kernels = folder / "udfs" / "kernels"
    kernels.mkdir(parents=True)
    for place in (kernels, kernels.parent):
        (place / "__init__.py").touch()
    shutil.copy(kernel_compiler.__file__, folder / "udfs" / "kernel_compiler.py")
    (kernels / "caller.py").write_text(CALLER)
    return kernels


@pytest.mark.slow
def test_an_archive_carried_elsewhere_finds_what_was_compiled(tmp_path: Path) -> None:
    """Spark carries it to another path for each application."""
    (package(tmp_path / "package") / "callee.py").write_text(CALLEE.format(number=1))
    archive = shutil.make_archive(str(tmp_path / "wheel"), "zip", tmp_path / "package")
    cache = tmp_path / "cache" / "kafka-placement"

    def answer(folder: Path) -> list[int]:
        folder.mkdir()
        path = str(shutil.copy(archive, folder / "wheel.zip"))
        environment = {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(cache.parent)}
        command = [sys.executable, "-P", "-m", "udfs.kernels.caller"]
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        return [int(word) for word in ran.stdout.split()]

    assert answer(tmp_path / "one") == [2, 0]
    assert answer(tmp_path / "two") == [2, 1]
    assert len(list(cache.glob("compiled-*"))) == 1


@pytest.mark.slow
def test_a_change_in_one_file_compiles_what_calls_it_anew(tmp_path: Path) -> None:
    kernels = package(tmp_path)

    def answer(number: int) -> list[int]:
        (kernels / "callee.py").write_text(CALLEE.format(number=number))
        command = [
            sys.executable,
            "-B",
            "-m",
            "udfs.kernels.caller",
        ]  # -B: bytecode knows its source by size and second
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return [int(word) for word in ran.stdout.split()]

    assert answer(1) == [2, 0]
    assert answer(1) == [2, 1]  # from where it was kept
    assert answer(2) == [4, 0]
    kept = kernels.parent / "__pycache__" / "compiled"
    assert len(list(kept.glob("caller.doubled-*.nbi"))) == 1  # what is outdated is gone


def test_a_part_is_not_for_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, before a kernel has taken it in and after; there is no machine code to jump to."""
    monkeypatch.setattr(kernel_compiler, "_FOLDER", None)  # nothing of a test is kept among the kernels

    @kernel_compiler.part
    def twice(value: int) -> int:
        return 2 * value

    @kernel_compiler.compiled
    def kernel(value: int) -> int:
        return twice(value) + 1

    for _ in range(2):
        with pytest.raises(TypeError, match="by compiled functions alone"):
            twice(3)
        assert kernel(3) == 7
