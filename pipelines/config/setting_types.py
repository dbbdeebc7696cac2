"""Types of settings, and their text: TOML files, values of options, and ${env:NAME} for secrets."""

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field

from pipelines.errors import SettingsError
from udfs.wording import format_bytes, quote_value

NOT_UTF8 = "it has bytes that are not UTF-8. Write it as UTF-8"


def _reject_booleans(value: Any) -> Any:
    if isinstance(value, bool):  # pydantic would take true for 1
        raise ValueError("expected a number, not true or false")
    return value


def _check_text(text: str) -> str:
    """Reject control characters, and bytes that are not UTF-8: tables could not store them."""
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise ValueError("it has a control character. Remove it")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(NOT_UTF8) from None
    return text


Whole = Annotated[int, BeforeValidator(_reject_booleans)]
# A number of bytes, or a text such as 500GB or 20GiB.
Bytes = Annotated[ByteSize, BeforeValidator(_reject_booleans), AfterValidator(int)]
Number = Annotated[float, BeforeValidator(_reject_booleans), Field(allow_inf_nan=False)]
Text = Annotated[str, AfterValidator(_check_text)]


def check_distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values. Raises: ValueError if one is there twice."""
    if len(set(values)) != len(values):
        raise ValueError("a value is listed twice")
    return values


def check_names(what: str, known: Iterable[str]) -> AfterValidator:
    """Return a check that names are distinct, and among the known ones."""

    def check(names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in known:
                raise ValueError(f"there is no {what} {quote_value(name)}. Choose from {', '.join(known)}")
        return check_distinct(names)

    return AfterValidator(check)


# The largest values that still mean something. Sums of them stay within 64 bits.
MAX_RATIO, MAX_WORK, MAX_BYTES, MAX_ENTRIES = 1e6, 10**12, 10**18, 10_000
MAX_BROKER_ID = 2**31 - 1


BrokerIds = Annotated[tuple[Annotated[Whole, Field(ge=0, le=MAX_BROKER_ID)], ...], AfterValidator(check_distinct)]


class SettingsSection(BaseModel):
    """A section; frozen, so that no stage can change what another one reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
