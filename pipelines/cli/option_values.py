"""Options and parsers of their values, whose errors say what was written, what is allowed and how to write it."""

from __future__ import annotations

import inspect
import math
import os
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, time, timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from pipelines.logging_setup import LogLevel
from udfs.wording import join_names, quote_value

if TYPE_CHECKING:
    from pipelines.execution.wave_window import WaveRange
    from pipelines.ingest.snapshot_reader import Snapshot

INT64 = 2**63 - 1
MAX_BROKER_ID = 2**31 - 1
_WHOLE = re.compile(r"\s*+[+-]?[0-9]{1,19}\s*+", re.ASCII)
_SERVER = re.compile(r"(?:[A-Za-z_]++://)?(?:\[[0-9A-Fa-f:.%]++\]|[\w.%-]++):[0-9]{1,5}", re.ASCII)
_MAX_IDS = 100_000
_WAVES = re.compile(r"(?P<first>[0-9]{1,9})(?P<dash>-(?P<last>[0-9]{1,9})?)?", re.ASCII)


def option(
    text: str, metavar: str, *names: str, parser: Callable[[str], Any] | None = None, default: str | bool = True
) -> Any:
    """Declare an option with a value. names: None = as its parameter; default: as the help shows it."""
    return typer.Option(*names, help=text, metavar=metavar, show_default=default, parser=parser)


def flag(name: str, text: str) -> Any:
    """Declare an option without a value."""
    return typer.Option(f"--{name}", help=text)


def whole_number(least: int = -INT64 - 1, most: int = INT64) -> Callable[[str], int]:
    """Return a parser of whole numbers from `least` to `most`."""
    allowed = "of 64 bits" if most == INT64 and least < 0 else f"from {least:,} to {most:,}"

    def parse(text: str) -> int:
        number = int(text) if _WHOLE.fullmatch(str(text)) else None
        if number is None or not least <= number <= most:
            raise ValueError(f"{quote_value(text)} is not a whole number {allowed}. Write digits only, as in 7")
        return number

    return parse


def decimal_number(least: float, most: float, example: str) -> Callable[[str], float]:
    """Return a parser of numbers from `least` to `most`, which NaN and infinities are not."""

    def parse(text: str) -> float:
        try:
            number = float(text) if str(text).isascii() and "_" not in str(text) else math.nan
        except ValueError:
            number = math.nan
        if not least <= number <= most:  # also for NaN
            allowed = f"from {least:,g} to {most:,.0f}"
            raise ValueError(f"{quote_value(text)} is not a number {allowed}. Write it as in {example}")
        return number

    return parse


def parse_moment(text: str) -> datetime:
    """Parse a past date, or a date and a time, with or without an offset from UTC; without one it is UTC."""
    from pipelines.retention import MAX_AHEAD

    try:
        when = datetime.fromisoformat(text.strip())
        when = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        remedy = "Write it as in 2026-11-22T10:00:00"
        raise ValueError(f"{quote_value(text)} is not a date and time in UTC. {remedy}") from None
    if not 1970 <= when.year <= 2999:
        raise ValueError(f"{quote_value(text)} is outside the years 1970 to 2999. Correct the year")
    if when > (now := datetime.now(UTC)) + MAX_AHEAD:
        raise ValueError(f"{quote_value(text)} is in the future: it is {now:%Y-%m-%d %H:%M} UTC. Correct the date")
    return when


def parse_waves(text: str) -> WaveRange:
    """Parse waves: 3, 1-2, or 2- for all from the second on."""
    from pipelines.execution.wave_window import WaveRange

    match = _WAVES.fullmatch(text)
    first, last = (int(match["first"]), int(match["last"] or 0)) if match else (0, 0)
    if match is None or not first or (match["last"] and last < first):
        raise ValueError(f"{quote_value(text)} are no waves. Write them as in 3, 1-2 or 2-, from 1")
    return WaveRange(first, last or (None if match["dash"] else first))


def parse_deadline(text: str) -> datetime:
    """Parse a future time: of a day, the next one, or a date and a time; both local, unless it has an offset."""
    now = datetime.now().astimezone()
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text, re.ASCII):
            of_day = time.fromisoformat(f"0{text}" if text[1] == ":" else text)
            when = datetime.combine(now.date(), of_day).astimezone()
            if when <= now:
                when = datetime.combine(now.date() + timedelta(days=1), when.time()).astimezone()
        else:
            when = datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError):
        raise ValueError(f"{quote_value(text)} is not a time. Write it as in 06:00 or 2026-11-22T06:00") from None
    if when <= now:
        raise ValueError(f"{quote_value(text)} is over: it is {now:%Y-%m-%d %H:%M}. Write a later time")
    return when


def parse_format(text: str) -> str:
    """Check the name of --format."""
    from pipelines.ingest.snapshot_reader import CHOICES

    if text not in CHOICES:
        raise ValueError(f"{quote_value(text)} is not a format. Write one of {', '.join(CHOICES)}")
    return text


def parse_level(text: str) -> LogLevel:
    """Parse the level of --log-level."""
    try:
        return LogLevel(text)
    except ValueError:
        raise ValueError(f"{quote_value(text)} is not a level. Write {', '.join(LogLevel)}") from None


def parse_pattern(text: str) -> str:
    """Check that text can be a pattern of topic names."""
    if not text or not text.isascii() or not text.isprintable():
        raise ValueError(f"{quote_value(text)} can match no topic. Write a pattern, as in tmp-*")
    return text


def parse_place(text: str) -> str:
    """Check that text can be the path of a file or folder, or begin with one's name."""
    if not text.strip():
        raise ValueError("the path is empty. Name a file or a folder")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        problem = "has half a character, which no path can have"
    else:
        if "\0" not in text:
            return text
        problem = "has a NUL character, which no path can have"
    raise ValueError(f"{quote_value(text)} {problem}. Correct the path")


def parse_path(text: str) -> Path:
    """Parse the path of a file or a folder."""
    return Path(parse_place(text))


def parse_output(text: str) -> Path:
    """Parse the path of a file to write into a folder that exists; `-` prints it."""
    path = parse_path(text)
    return path if text == "-" else _check_output(path, creates_folder=False)


def parse_report(text: str) -> Path:
    """Parse the path of a report, whose folder is created; `-` prints it."""
    path = parse_path(text)
    return path if text == "-" else _check_output(path, creates_folder=True)


def _check_output(path: Path, creates_folder: bool) -> Path:
    """Check now that a file can be written, not after an hour's work."""
    try:
        folder = next(parent for parent in path.absolute().parents if not creates_folder or parent.exists())
        if path.is_dir():
            problem = "it is a folder. Name a file"
        elif not folder.exists():
            problem = "its folder does not exist. Create it, or name another file"
        elif not folder.is_dir():
            problem = f"{quote_value(str(folder))} is not a folder. Name another file"
        elif path.exists() and not os.access(path, os.W_OK):
            problem = "it is not writable. Name another file"
        else:
            return path
    except OSError as error:
        problem = f"{error.strerror}. Name another file"
    raise ValueError(f"{quote_value(str(path))} cannot be written: {problem}")


def parse_server(text: str) -> str:
    """Check the servers of --bootstrap-server: HOST:PORT, with commas between them."""
    if not all(_SERVER.fullmatch(part.strip()) for part in text.split(",")):
        raise ValueError(f"{quote_value(text)} is not HOST:PORT. Write it as in localhost:9092 or a:9092,b:9092")
    return text


def parse_broker_ids(text: str, example: str = "2,5") -> list[int]:
    """Parse broker ids with commas between them, without repetitions; raise ValueError if one is wrong."""
    remedy = f"Write ids separated by commas, as in {example}"
    parts = text.split(",", _MAX_IDS)
    if len(parts) > _MAX_IDS:
        raise ValueError(f"more than {_MAX_IDS:,} broker ids. {remedy}")
    for part in parts:
        if not re.fullmatch(r"\s*+[0-9]++\s*+", part):
            raise ValueError(f"{quote_value(part.strip())} is not a broker id. {remedy}")
        if len(part.strip()) > 10 or int(part) > MAX_BROKER_ID:
            largest = f"Kafka's largest broker id is {MAX_BROKER_ID}"
            raise ValueError(f"{quote_value(part.strip())} is not a broker id: {largest}. {remedy}")
    return list(dict.fromkeys(map(int, parts)))


RACK_PREFIX = "rack:"


def find_brokers(option: str, text: str, snapshot: Snapshot) -> list[int]:
    """Return the ids that `2,5` or `eu-1a` name, without repetitions; a rack stands for all its brokers.

    `rack:1` is the rack 1, where `1` is the broker 1.

    Raises: typer.BadParameter, which names the option, for a part that is neither a broker id nor a rack.
    """
    ids: list[int] = []
    try:
        for part in map(str.strip, text.split(",")):
            is_id = part.isdecimal() or not part
            ids += parse_broker_ids(part) if is_id else _find_brokers(part, snapshot)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from error
    return list(dict.fromkeys(ids))


def find_known_brokers(option: str, text: str, snapshot: Snapshot) -> list[int]:
    """Return what find_brokers does. Raises: typer.BadParameter also for the id of a broker that is not there."""
    ids, known = find_brokers(option, text, snapshot), snapshot.brokers["broker_id"].to_pylist()
    if unknown := [broker for broker in ids if broker not in known]:
        problem = f"{snapshot.cluster_id} has no broker {join_names(unknown)}"
        raise typer.BadParameter(f"{option}: {problem}. Its brokers: {join_names(sorted(known), 50)}")
    return ids


def _find_brokers(part: str, snapshot: Snapshot) -> list[int]:
    """Return the brokers of a rack; raise ValueError if the cluster has no such rack."""
    brokers, racks = snapshot.brokers, defaultdict(list)
    for broker, rack in zip(brokers["broker_id"].to_pylist(), brokers["rack"].to_pylist(), strict=True):
        if rack is not None:
            racks[rack].append(broker)
    name = part.removeprefix(RACK_PREFIX)
    if name not in racks:
        names = ", ".join(sorted(racks)) or "none is known"
        raise ValueError(
            f"{quote_value(part)} is neither a broker id nor a rack of cluster {snapshot.cluster_id}. "
            f"Its racks: {names}. Write ids or racks separated by commas, as in 2,5"
        )
    return racks[name]


def take_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the fields of its dataclasses, which typer knows, as parameters in their place."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for one in inspect.signature(command, eval_str=True).parameters.values():
        if not is_dataclass(one.annotation):
            parameters.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[one.name] = one.annotation
        hints = get_type_hints(one.annotation, include_extras=True)
        for field in fields(one.annotation):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            parameters.append(
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name]
                )
            )

    @wraps(command)
    def run(**values: Any) -> None:
        filled = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **filled)

    del run.__wrapped__  # else its parameters would count
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run
