"""The options of `plan`: what a person writes, as a request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pipelines.config.plan_settings import request_of
from pipelines.config.settings import Settings
from pipelines.errors import SettingsError
from udfs.planning.goals import GOALS
from udfs.planning.plan_request import ALL, MIN_BYTES, MIN_MOVES, OBJECTIVES, PlanRequest

_UNITS: dict[str, int] = {"": 1, **{name: 1000**power for power, name in enumerate(("k", "m", "g", "t", "p"), 1)}}
_UNITS |= {f"{name}i": 1024**power for power, name in enumerate(("k", "m", "g", "t", "p"), 1)}
_MOST_FACTOR = 1000


@dataclass(frozen=True)
class Options:
    """The options as they were written."""

    goal: str
    brokers: str | None = None
    replacements: str | None = None
    factor: int | None = None
    topics: str | None = None
    exclude_topics: str | None = None
    exclude_brokers: str | None = None
    max_bytes: str | None = None
    max_moves: int | None = None
    objective: str | None = None
    keep_leaders: bool = False
    per_topic: bool = False
    by_bytes: bool = False
    allow_fewer_racks: bool = False
    copysets: bool = False
    seed: int | None = None


_ORDER = ("leaders", "failover")
_EVEN = ("balance", "drain", "expand")
_MOVING = tuple(goal for goal in GOALS if goal not in _ORDER)
# {option: its field, the goals that it says something to}: with any other it would do nothing, and is rejected.
_OF_GOALS = {
    "--brokers": ("brokers", ("drain", "expand")),
    "--replace": ("replacements", ("replace",)),
    "--rf": ("factor", ("rf",)),
    "--topics": ("topics", ("rf",)),
    "--exclude-topics": ("exclude_topics", GOALS),
    "--exclude-brokers": ("exclude_brokers", _MOVING),
    "--max-bytes": ("max_bytes", _MOVING),
    "--max-moves": ("max_moves", _MOVING),
    "--objective": ("objective", _MOVING),
    "--keep-leaders": ("keep_leaders", ("failover",)),
    "--per-topic": ("per_topic", _ORDER),
    "--by-bytes": ("by_bytes", _ORDER),
    "--allow-fewer-racks": ("allow_fewer_racks", ("drain", "replace")),
    "--copysets": ("copysets", _EVEN),
    "--seed": ("seed", GOALS),
}
# Options of which the second would do nothing beside the first.
_NOT_TOGETHER = (("--keep-leaders", "--per-topic"), ("--by-bytes", "--per-topic"))


def given(options: Options) -> list[str]:
    """The options that were written, beside the goal, by name."""
    values = {option: getattr(options, field) for option, (field, _) in _OF_GOALS.items()}
    return [option for option, value in values.items() if value is not None and value is not False]


def request(options: Options, settings: Settings) -> PlanRequest:
    """The request that options and settings make together; a SettingsError for options that make none."""
    if options.goal not in GOALS:
        raise SettingsError(f"--goal {options.goal}: there are {', '.join(GOALS)}")
    if options.objective is not None and options.objective not in OBJECTIVES:
        raise SettingsError(f"--objective {options.objective}: there are {', '.join(OBJECTIVES)}")
    written = given(options)
    for option in written:
        goals = _OF_GOALS[option][1]
        if options.goal not in goals:
            raise SettingsError(f"{option} is for --goal {' or '.join(goals)}, not {options.goal}")
    if options.objective == ALL and options.goal not in _EVEN:
        counts = f"{options.goal} is by counts alone: {MIN_BYTES} or {MIN_MOVES}"
        raise SettingsError(f"--objective {ALL} is for --goal {' or '.join(_EVEN)}; {counts}")
    for one, other in _NOT_TOGETHER:
        if one in written and other in written:
            raise SettingsError(f"{one} and {other} are not for use together: leave one of them away")
    if options.goal == "rf" and not 1 <= (options.factor or 0) <= _MOST_FACTOR:
        raise SettingsError(f"--goal rf: name the replication factor, 1 to {_MOST_FACTOR}, as in --rf 3")
    if options.goal == "replace" and not options.replacements:
        raise SettingsError("--goal replace: name the brokers, and who takes over, as in --replace 7=66,8=67")
    asked: dict[str, Any] = {
        "brokers": ids(options.brokers, "--brokers"),
        "replacements": replacements(options.replacements),
        "factor": options.factor,
        "topics": names(options.topics, "--topics"),
        "exclude_topics": names(options.exclude_topics, "--exclude-topics"),
        "exclude_brokers": ids(options.exclude_brokers, "--exclude-brokers"),
        "max_bytes": None if options.max_bytes is None else size(options.max_bytes, "--max-bytes"),
        "max_moves": options.max_moves,
        "objective": options.objective or ALL,
        "keep_leaders": options.keep_leaders,
        "per_topic": options.per_topic,
        "by_bytes": options.by_bytes,
        "allow_fewer_racks": options.allow_fewer_racks,
    }
    if options.seed is not None:
        asked["seed"] = options.seed
    made = request_of(settings, options.goal, options.copysets, **asked)
    _reject_conflicts(made)
    return made


def _reject_conflicts(made: PlanRequest) -> None:
    """Nothing; a SettingsError for what is asked for and excluded at once."""
    olds, news = ({pair[end] for pair in made.replacements} for end in (0, 1))
    excluded = set(made.exclude_brokers)
    for option, both, model in (
        ("--brokers", set(made.brokers) & excluded, "named in --exclude-brokers too"),
        ("--replace", news & excluded, "to take over, but named in --exclude-brokers"),
        ("--replace", news & olds, "to take over, and replaced itself"),
        ("--topics", set(made.topics) & set(made.exclude_topics), "named in --exclude-topics too"),
    ):
        if both:
            raise SettingsError(f"{option}: {', '.join(map(str, sorted(both)))} is {model}. Name it once")


def ids(text: str | None, option: str) -> tuple[int, ...]:
    """Broker ids with commas between, rising, each once."""
    parts = [] if text is None else text.split(",")
    wrong = next((part for part in parts if not re.fullmatch(r"\s*[0-9]{1,9}\s*", part)), None)
    if wrong is not None:
        raise SettingsError(f"{option} {text}: {wrong.strip()!r} is no broker id. Write ids with commas, as in 2,5")
    return tuple(sorted({int(part) for part in parts}))


def replacements(text: str | None) -> tuple[tuple[int, int], ...]:
    """Pairs (from, to) of 7=66,8=67, by rising first ids."""
    out: dict[int, int] = {}
    for part in [] if text is None else text.split(","):
        found = re.fullmatch(r"\s*([0-9]{1,9})\s*=\s*([0-9]{1,9})\s*", part)
        if not found:
            raise SettingsError(f"--replace {text}: {part.strip()!r} is no pair of broker ids, as 7=66 is")
        old, new = map(int, found.groups())
        if old == new or old in out:
            model = "replaces itself" if old == new else "is replaced twice"
            raise SettingsError(f"--replace {text}: broker {old} {model}. Write each once, as in 7=66,8=67")
        out[old] = new
    return tuple(sorted(out.items()))


def names(text: str | None, option: str) -> tuple[str, ...]:
    """Topic names with commas between, in order, each once."""
    parts = [] if text is None else [part.strip() for part in text.split(",")]
    if not all(parts):
        raise SettingsError(f"{option} {text}: a name is empty. Write names with commas, as in orders,clicks")
    return tuple(sorted(set(parts)))


def size(text: str, option: str) -> int:
    """Bytes of 500GB, 1.5 TiB or 1000: with B thousands (1 GB = 10^9), with iB 1024 (1 GiB = 2^30)."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgtp]i?)?b)?\s*", text.lower())
    if not found:
        forms = "Write digits, then B, kB to PB, or KiB to PiB, or nothing for bytes: 500GB, 1.5TB, 20GiB, 1000"
        raise SettingsError(f"{option} {text}: is no size. {forms}")
    return round(float(found[1]) * _UNITS[found[2] or ""])
