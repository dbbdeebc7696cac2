"""Read the files of conf/: from the package in a wheel (zipped or not), or from the top of the source tree."""

from importlib.resources import files
from pathlib import Path

from pipelines.errors import SettingsError


def read_conf_file(name: str) -> str:
    """Read a file of conf/ as text.

    Raises:
        SettingsError: If it does not exist.
    """
    packaged = files("pipelines") / "_conf" / name
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    source_file = Path(__file__).resolve().parents[2] / "conf" / name
    if source_file.is_file():
        return source_file.read_text(encoding="utf-8")
    raise SettingsError(f"conf/{name} is neither in the package nor in {source_file.parent}. Reinstall the package")
