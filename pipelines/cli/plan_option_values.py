"""The plan request that the options of `plan` ask for."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from typer import BadParameter

from pipelines.cli.common_options import PlanOptions
from pipelines.cli.option_values import parse_broker_ids
from pipelines.config.plan_parameters import build_request, build_wave_limits
from pipelines.config.setting_sections import Settings, parse_duration
from pipelines.plan_files.new_brokers import UNKNOWN_RACK, NewBroker
from pipelines.quoted_values import quote_value, shorten_text
from udfs.planning.goal_registry import GOALS, goals_with_option
from udfs.planning.plan_request import ALL, OBJECTIVES, PlanRequest
from udfs.planning.waves import WaveLimits

_PREFIXES = ("k", "m", "g", "t", "p")
_UNITS: dict[str, int] = {"": 1, **{name: 1000**power for power, name in enumerate(_PREFIXES, 1)}}
_UNITS |= {f"{name}i": 1024**power for power, name in enumerate(_PREFIXES, 1)}
_MAX_SIZE = 10**18
_CONFLICTING = (("--keep-leaders", "--per-topic"), ("--by-bytes", "--per-topic"))


def parse_request(options: PlanOptions, settings: Settings) -> PlanRequest:
    """Combine options and settings; raise BadParameter if an option is wrong, missing, or not one of the goal's."""
    _check_goal(options)
    fields: dict[str, Any] = {"factor": options.rf, "objective": options.objective or ALL}
    fields |= {name: getattr(options, name) for name in _UNPARSED}
    fields |= {} if options.seed is None else {"seed": options.seed}
    for name, parse in _PARSERS.items():
        if (text := getattr(options, name)) is not None:
            field = "replacements" if name == "replace" else name
            fields[field] = parse_option(f"--{name.replace('_', '-')}", text, parse)
    if options.max_time is not None:
        if options.objective not in (None, ALL):
            raise BadParameter(f"--max-time: needs --objective {ALL}. Use --max-bytes, or leave --objective out")
        seconds = parse_option("--max-time", options.max_time, parse_duration)
        fields["max_broker_bytes"] = int(seconds * parse_limits(options, settings).throttle_bytes_per_s)
    request = build_request(settings, options.goal or "", options.prefer_fewer_copysets, **fields)
    replaced, replacing = ({pair[end] for pair in request.replacements} for end in (0, 1))
    excluded = set(request.exclude_brokers)
    for option, names, problem in (
        ("--brokers", set(request.brokers) & excluded, "named in --exclude-brokers too"),
        ("--replace", replacing & excluded, "to take over, but named in --exclude-brokers"),
        ("--replace", replacing & replaced, "to take over, and replaced itself"),
        ("--topics", set(request.topics) & set(request.exclude_topics), "named in --exclude-topics too"),
    ):
        if names:
            raise BadParameter(f"{option}: {', '.join(sorted(map(str, names)))} is {problem}. Name it once")
    return request


def parse_limits(options: PlanOptions, settings: Settings) -> WaveLimits:
    """Combine the limits of waves in the settings with --throttle; raise BadParameter if it is wrong."""
    limits = build_wave_limits(settings)
    if options.throttle is None:
        return limits
    return replace(limits, throttle_bytes_per_s=float(parse_option("--throttle", options.throttle, parse_throttle)))


def parse_option(option: str, text: str, parse: Callable[[str], Any]) -> Any:
    """Parse the value of an option; raise BadParameter, which names both, if it is wrong."""
    try:
        return parse(text)
    except ValueError as error:
        raise BadParameter(f"{option} {shorten_text(text)}: {error}") from error


def _check_goal(options: PlanOptions) -> None:
    """Check that the goal exists, and takes the options that were written."""
    if options.goal not in GOALS:
        raise BadParameter(f"--goal {shorten_text(str(options.goal))}: must be one of {', '.join(GOALS)}")
    if options.objective not in (None, *OBJECTIVES):
        raise BadParameter(f"--objective {shorten_text(options.objective)}: must be one of {', '.join(OBJECTIVES)}")
    goal, written = GOALS[options.goal], [option for option in options.values if option != "--goal"]
    for option in written:
        if option not in goal.options:
            raise BadParameter(f"{option} is for --goal {' or '.join(goals_with_option(option))}, not {goal.name}")
    if options.objective is not None and options.objective not in goal.objectives:
        others = " or ".join(name for name, other in GOALS.items() if options.objective in other.objectives)
        remedy = f"{goal.name} takes {' or '.join(goal.objectives)}"
        raise BadParameter(f"--objective {options.objective} is for --goal {others}; {remedy}")
    for one, other in _CONFLICTING:
        if one in written and other in written:
            raise BadParameter(f"{one} and {other} cannot be used together: leave one of them out")
    for option, remedy in goal.required_options.items():
        if option not in written:
            raise BadParameter(f"--goal {goal.name}: {remedy}")


def parse_ids(text: str) -> tuple[int, ...]:
    """Parse broker ids with commas between them: rising, each once."""
    return tuple(sorted(parse_broker_ids(text)))


def parse_replacements(text: str) -> tuple[tuple[int, int], ...]:
    """Parse 7=66,8=67 to pairs of a broker and its replacement, by the first ids."""
    pairs: dict[int, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})\s*=\s*([0-9]{1,9})\s*", part)
        if not match or match[1] == match[2] or int(match[1]) in pairs:
            problem = "is not a pair of different broker ids, or replaces a broker twice"
            raise ValueError(f"{quote_value(part.strip())} {problem}. Write each once, as in 7=66,8=67")
        pairs[int(match[1])] = int(match[2])
    return tuple(sorted(pairs.items()))


def parse_new_brokers(text: str) -> tuple[NewBroker, ...]:
    """Parse 13:rack-b,14 to brokers with their racks, by id."""
    brokers: dict[int, NewBroker] = {}
    for part in text.split(","):
        id_text, _, rack = map(str.strip, part.partition(":"))
        (id_,) = parse_broker_ids(id_text, "13:rack-b")
        if rack == UNKNOWN_RACK or not rack.isprintable() or id_ in brokers:
            problem = "has no name of a rack, or names a broker again"
            raise ValueError(
                f"{quote_value(part.strip())} {problem}. Write each broker once, as in 13:rack-b,14:rack-c"
            )
        brokers[id_] = NewBroker(id_, rack or None)
    return tuple(brokers[id_] for id_ in sorted(brokers))


def parse_names(text: str) -> tuple[str, ...]:
    """Parse topic names with commas between them: in order, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise ValueError("a name is empty. Write names separated by commas, as in orders,clicks")
    return tuple(sorted(set(parts)))


def parse_size(text: str) -> int:
    """Parse a size like 500GB, 1.5 TiB or 1000 to bytes: 1 GB = 10^9, 1 GiB = 2^30."""
    match = re.fullmatch(r"\s*+([0-9]{1,19}(?:\.[0-9]{1,19})?)\s*+(?:([kmgtp]i?)?b)?\s*+", text.lower())
    size = round(float(match[1]) * _UNITS[match[2] or ""]) if match else _MAX_SIZE + 1
    if size > _MAX_SIZE:
        forms = "Write digits, then B, kB to PB, or KiB to PiB, or nothing for bytes: 500GB, 1.5TB, 20GiB, 1000"
        raise ValueError(f"not a size of at most 1,000 PB. {forms}")
    return size


def parse_throttle(text: str) -> int:
    """Parse bytes per second, more than none."""
    if not (throttle := parse_size(text)):
        raise ValueError("nothing would be copied. Write bytes per second, as in 50MB")
    return throttle


_UNPARSED = (
    *("max_moves", "keep_leaders", "per_topic", "by_bytes", "allow_empty_racks", "keep_rack_violations"),
    *("at_min_isr_partitions", "under_min_isr_partitions"),
)
_PARSERS: dict[str, Callable[[str], Any]] = {
    **{"brokers": parse_ids, "exclude_brokers": parse_ids, "topics": parse_names, "exclude_topics": parse_names},
    **{"replace": parse_replacements, "max_bytes": parse_size},
}
