"""Compiled kernels are kept, and never outlive a change of what they call."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from udfs.kernels import compiled

CALLEE = "from udfs.kernels.compiled import compiled\n\n\n@compiled\ndef value() -> int:\n    return {number}\n"
CALLER = """from udfs.kernels.callee import value
from udfs.kernels.compiled import compiled


@compiled
def doubled() -> int:
    return 2 * value()


if __name__ == "__main__":
    import udfs.kernels.caller as here
    print(here.doubled(), sum(here.doubled.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_a_change_in_one_file_compiles_what_calls_it_anew(tmp_path: Path) -> None:
    kernels = tmp_path / "udfs" / "kernels"
    kernels.mkdir(parents=True)
    for folder in (kernels, kernels.parent):
        (folder / "__init__.py").touch()
    shutil.copy(compiled.__file__, kernels / "compiled.py")
    (kernels / "caller.py").write_text(CALLER)

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
    assert len(list((kernels / "__pycache__").glob("compiled-*"))) == 1  # what is outdated is gone
