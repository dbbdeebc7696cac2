"""Text of settings: TOML files, values of options, and ${env:NAME}, so that no secret is in a file or an option."""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.errors import SettingsError
from udfs.quantities import format_bytes

VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
MAX_FILE_BYTES = 1_000_000  # of a settings file
_MAX_DOTS = 300  # in a line: tomllib takes a time quadratic in the parts of a key
_TOO_MANY_DIGITS = "a number has thousands of digits. No setting takes more than 19"
_NESTED = "brackets are nested too deeply. No setting needs more than 3 levels"


def read_settings_file(
    path: str | Path, name: str = "settings file", max_bytes: int = MAX_FILE_BYTES, encoding: str = "utf-8"
) -> str:
    """Read a file that an option or a setting names. Raises: SettingsError with the name, the path and a remedy."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise SettingsError(f"{name} {path}: it has more than {format_bytes(max_bytes)}. Name another file")
        return data.decode(encoding)
    except OSError as error:
        raise SettingsError(f"{name} {path}: cannot be read: {error.strerror}. Check path and permissions") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{name} {path}: byte {error.start} is not UTF-8. Save it as UTF-8") from error


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Parse a TOML file; raise SettingsError with the line if it is wrong."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _MAX_DOTS:
            raise SettingsError(f"{origin}, line {number}: has more than {_MAX_DOTS} dots. Write shorter lines")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{origin}: is not TOML: {error}. See conf/pipeline.toml for an example") from error
    except RecursionError:
        raise SettingsError(f"{origin}: {_NESTED}") from None
    except ValueError:
        raise SettingsError(f"{origin}: {_TOO_MANY_DIGITS}") from None


def parse_value(text: str, origin: str) -> Any:
    """Parse the value of an option or a variable: JSON if it is JSON, else text without spaces around it."""
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except json.JSONDecodeError:
        return text.strip()
    except RecursionError:
        raise SettingsError(f"{origin}: {_NESTED}") from None
    except ValueError:  # Python reads no number of thousands of digits
        raise SettingsError(f"{origin}: {_TOO_MANY_DIGITS}") from None


def _reject_constant(name: str) -> Any:
    raise json.JSONDecodeError(f"{name} is not a number", name, 0)


def fill_variables(text: str, what: str, environment: Mapping[str, str] | None = None) -> str:
    """Replace each ${env:NAME} by the variable of the environment. Raises: SettingsError if there is none."""
    environment = os.environ if environment is None else environment

    def look_up(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise SettingsError(f"{what}: the environment has no variable {match[1]}. Set it: export {match[1]}=...")
        return environment[match[1]]

    return VARIABLE.sub(look_up, text)
