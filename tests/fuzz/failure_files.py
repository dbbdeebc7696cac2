"""Stores failing cases: the recipe, what failed, and the minimal files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.fuzz.case_execution import write_case
from tests.fuzz.cases import FuzzCase, build_case
from tests.fuzz.workers import Failure


def store_case(seed: int, failure: Failure, case: FuzzCase, folder: Path) -> Path:
    """Write a case to a folder of its own, and return that folder."""
    own = folder / f"{seed}-{failure.case}-{re.sub('[^a-zA-Z0-9]+', '-', failure.check)[:60].strip('-')}"
    shutil.rmtree(own, ignore_errors=True)
    argument = write_case(case, own / "source")
    files = "\n".join(f"  {file.name!r}: {len(file.data):,} bytes" for file in case.files)
    recipe = (
        f"{failure.check}\n\n{failure.detail}\n\n"
        f"To repeat the whole case: python -m tests.fuzz --replay {seed}:{failure.case}\n"
        f"Mutations: {', '.join(build_case(seed, failure.case).mutations)}\n"
        f"The files beside this one are a minimal case; source: {argument!r}, command: {case.command}\n{files}\n"
    )
    (own / "recipe.txt").write_text(recipe, encoding="utf-8", errors="backslashreplace")
    return own
