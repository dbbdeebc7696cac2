"""The file of --owner-map: which team owns which topics."""

import csv
from typing import NamedTuple

from pipelines.config.setting_types import read_settings_file
from pipelines.errors import SettingsError
from udfs.wording import quote_value

_MAX_BYTES = 10_000_000
_HEADER = ["topic", "team"]
_EXAMPLE = "Write a pattern and a team, as in orders.*,payments"


class TopicOwner(NamedTuple):
    """The team that owns the topics that match a pattern."""

    pattern: str
    team: str


def read_owner_map(file: str) -> list[TopicOwner]:
    """Read the file: CSV with the columns topic and team, # for comments; the first pattern that matches wins.

    Raises: SettingsError if the file is wrong.
    """
    text = read_settings_file(file, "--owner-map", _MAX_BYTES, "utf-8-sig")
    owners: list[TopicOwner] = []
    is_header = True
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where = f"--owner-map {file}, line {number}"
        try:
            cells = [cell.strip() for cell in next(csv.reader([line]))]
        except csv.Error as error:  # a cell of more than 128 KB
            raise SettingsError(f"{where}: {error}. Correct the line") from error
        if is_header:
            if cells != _HEADER:
                raise SettingsError(f"{where}: {quote_value(line)} is not the header. Write {','.join(_HEADER)}")
            is_header = False
            continue
        if len(cells) != len(_HEADER) or not all(cells):
            raise SettingsError(f"{where}: {quote_value(line)} names no team for a pattern. {_EXAMPLE}")
        if not (cells[0].isascii() and cells[0].isprintable()):
            raise SettingsError(f"{where}: {quote_value(cells[0])} can match no topic. {_EXAMPLE}")
        owners.append(TopicOwner(*cells))
    if is_header:
        raise SettingsError(
            f"--owner-map {file}: it is empty. Write {','.join(_HEADER)}, and below it lines such as a*,b"
        )
    return owners
