"""Where the text of a conf/ file is: beside this module in a wheel (zipped or not), at the top of the source tree."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from pipelines.errors import SettingsError


def conf_text(name: str) -> str:
    """The text of conf's file `name` as this installation carries it."""
    packaged = files("pipelines") / "_conf" / name
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    in_source_tree = Path(__file__).resolve().parents[2] / "conf" / name
    if in_source_tree.is_file():
        return in_source_tree.read_text(encoding="utf-8")
    raise SettingsError(
        f"conf/{name} is neither in the package nor in {in_source_tree.parent}. Install the package anew"
    )
