"""Checks that no file that a command is to write is one that it reads."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipelines.errors import SettingsError

_OUTPUTS = ("--json", "--out", "--report")


def check_outputs(arguments: Sequence[str]) -> None:
    """Raise SettingsError if a file after --json, --out or --report is another argument too, or in such a folder."""
    outputs: list[tuple[str, str]] = []
    inputs: list[str] = []
    words = iter(arguments)
    for word in words:
        option, sign, value = word.partition("=")
        if option in _OUTPUTS:
            outputs.append((option, value if sign else next(words, "")))
        else:
            inputs += [word, value]  # a source may be NAME=PATH
    for option, name in outputs:
        file = Path(name)
        if _is_file(file) and any(_is_file(path) and path.samefile(file) for path in _list_files(inputs, file)):
            raise SettingsError(f"{option} {name}: the command reads this file: name another one")


def _list_files(inputs: Sequence[str], output: Path) -> Iterator[Path]:
    """Yield the paths that arguments name, and for a folder the file in it of the output's name."""
    for text in filter(None, inputs):
        yield Path(text)
        yield Path(text, output.name)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except ValueError:  # a null character
        return False
