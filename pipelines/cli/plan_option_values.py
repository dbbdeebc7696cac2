"""The plan request that the options of `plan` ask for."""

import re
from dataclasses import replace

from pipelines.cli.option_values import parse_broker_ids
from pipelines.cli.plan_options import PlanOptions
from pipelines.config.plan_parameters import build_request, build_wave_limits
from pipelines.config.setting_sections import Settings
from pipelines.errors import SettingsError
from pipelines.plan_files.new_brokers import UNKNOWN_RACK, NewBroker
from pipelines.quoted_values import quote_value, shorten_text
from udfs.planning.goal_registry import GOALS, goals_with_option
from udfs.planning.plan_request import ALL, OBJECTIVES, PlanRequest
from udfs.planning.waves import WaveLimits

_PREFIXES = ("k", "m", "g", "t", "p")
_UNITS: dict[str, int] = {"": 1, **{name: 1000**power for power, name in enumerate(_PREFIXES, 1)}}
_UNITS |= {f"{name}i": 1024**power for power, name in enumerate(_PREFIXES, 1)}
_MAX_SIZE = 10**18
_MIN_ISR = ("at_min_isr_partitions", "under_min_isr_partitions")
_UNPARSED = (
    "max_moves",
    "keep_leaders",
    "per_topic",
    "by_bytes",
    "allow_empty_racks",
    "keep_rack_violations",
    *_MIN_ISR,
)
_CONFLICTING = (("--keep-leaders", "--per-topic"), ("--by-bytes", "--per-topic"))


def parse_request(options: PlanOptions, settings: Settings) -> PlanRequest:
    """Combine options and settings; raise SettingsError if an option is wrong, missing, or not one of the goal's."""
    _check_goal(options)
    parsed = {
        "brokers": parse_ids(options.brokers, "--brokers"),
        "replacements": parse_replacements(options.replace),
        "factor": options.rf,
        "topics": parse_names(options.topics, "--topics"),
        "exclude_topics": parse_names(options.exclude_topics, "--exclude-topics"),
        "exclude_brokers": parse_ids(options.exclude_brokers, "--exclude-brokers"),
        "max_bytes": None if options.max_bytes is None else parse_size(options.max_bytes, "--max-bytes"),
        "objective": options.objective or ALL,
    }
    parsed |= {name: getattr(options, name) for name in _UNPARSED}
    parsed |= {} if options.seed is None else {"seed": options.seed}
    request = build_request(settings, options.goal or "", options.prefer_fewer_copysets, **parsed)
    replaced, replacing = ({pair[end] for pair in request.replacements} for end in (0, 1))
    excluded = set(request.exclude_brokers)
    for option, names, problem in (
        ("--brokers", set(request.brokers) & excluded, "named in --exclude-brokers too"),
        ("--replace", replacing & excluded, "to take over, but named in --exclude-brokers"),
        ("--replace", replacing & replaced, "to take over, and replaced itself"),
        ("--topics", set(request.topics) & set(request.exclude_topics), "named in --exclude-topics too"),
    ):
        if names:
            raise SettingsError(f"{option}: {', '.join(sorted(map(str, names)))} is {problem}. Name it once")
    return request


def parse_limits(options: PlanOptions, settings: Settings) -> WaveLimits:
    """Combine the limits of waves in the settings with --throttle; raise SettingsError if it is wrong."""
    limits = build_wave_limits(settings)
    if options.throttle is None:
        return limits
    return replace(limits, throttle_bytes_per_s=float(parse_throttle(options.throttle)))


def parse_throttle(text: str) -> int:
    """Parse bytes per second; raise SettingsError if nothing would be copied."""
    throttle = parse_size(text, "--throttle")
    if not throttle:
        raise SettingsError(f"--throttle {text}: nothing would be copied. Write bytes per second, as in 50MB")
    return throttle


def _check_goal(options: PlanOptions) -> None:
    """Check that the goal exists, and takes the options that were written."""
    if options.goal not in GOALS:
        raise SettingsError(f"--goal {shorten_text(str(options.goal))}: must be one of {', '.join(GOALS)}")
    if options.objective not in (None, *OBJECTIVES):
        raise SettingsError(f"--objective {shorten_text(options.objective)}: must be one of {', '.join(OBJECTIVES)}")
    goal, written = GOALS[options.goal], [option for option in options.values if option != "--goal"]
    for option in written:
        if option not in goal.options:
            raise SettingsError(f"{option} is for --goal {' or '.join(goals_with_option(option))}, not {goal.name}")
    if options.objective is not None and options.objective not in goal.objectives:
        others = " or ".join(name for name, other in GOALS.items() if options.objective in other.objectives)
        remedy = f"{goal.name} takes {' or '.join(goal.objectives)}"
        raise SettingsError(f"--objective {options.objective} is for --goal {others}; {remedy}")
    for one, other in _CONFLICTING:
        if one in written and other in written:
            raise SettingsError(f"{one} and {other} cannot be used together: leave one of them out")
    for option, remedy in goal.required_options.items():
        if option not in written:
            raise SettingsError(f"--goal {goal.name}: {remedy}")


def parse_ids(text: str | None, option: str) -> tuple[int, ...]:
    """Parse broker ids with commas between them: rising, each once."""
    try:
        return () if text is None else tuple(sorted(parse_broker_ids(text)))
    except ValueError as error:
        raise SettingsError(f"{option} {shorten_text(text or '')}: {error}") from error


def parse_replacements(text: str | None) -> tuple[tuple[int, int], ...]:
    """Parse 7=66,8=67 to pairs of a broker and its replacement, by the first ids."""
    pairs: dict[int, int] = {}
    for part in [] if text is None else text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})\s*=\s*([0-9]{1,9})\s*", part)
        if not match:
            problem = f"{quote_value(part.strip())} is not a pair of broker ids"
            raise SettingsError(f"--replace {shorten_text(text or '')}: {problem}. Write it as in 7=66")
        old, new = map(int, match.groups())
        if old == new or old in pairs:
            problem = "replaces itself" if old == new else "is replaced twice"
            raise SettingsError(f"--replace {text}: broker {old} {problem}. Write each once, as in 7=66,8=67")
        pairs[old] = new
    return tuple(sorted(pairs.items()))


def parse_new_brokers(text: str | None) -> tuple[NewBroker, ...]:
    """Parse 13:rack-b,14 to brokers with their racks, by id."""
    brokers: dict[int, NewBroker] = {}
    for part in [] if text is None else text.split(","):
        id_text, _, rack = part.strip().partition(":")
        option = f"--add-brokers {shorten_text(text or '')}"
        try:
            (id_,) = parse_broker_ids(id_text, "13:rack-b")
        except ValueError as error:
            raise SettingsError(f"{option}: {error}") from error
        rack = rack.strip()
        if rack == UNKNOWN_RACK or not rack.isprintable():
            problem = f"{quote_value(rack)} is not the name of a rack"
            raise SettingsError(f"{option}: {problem}. Write the broker's rack, as in 13:rack-b")
        if id_ in brokers:
            raise SettingsError(f"{option}: broker {id_} is named twice. Name each once, as in 13:rack-b,14:rack-c")
        brokers[id_] = NewBroker(id_, rack or None)
    return tuple(brokers[id_] for id_ in sorted(brokers))


def parse_names(text: str | None, option: str) -> tuple[str, ...]:
    """Parse topic names with commas between them: in order, each once."""
    parts = [] if text is None else [part.strip() for part in text.split(",")]
    if not all(parts):
        raise SettingsError(f"{option} {text}: a name is empty. Write names separated by commas, as in orders,clicks")
    return tuple(sorted(set(parts)))


def parse_size(text: str, option: str) -> int:
    """Parse a size like 500GB, 1.5 TiB or 1000 to bytes: 1 GB = 10^9, 1 GiB = 2^30."""
    match = re.fullmatch(r"\s*+([0-9]{1,19}(?:\.[0-9]{1,19})?)\s*+(?:([kmgtp]i?)?b)?\s*+", text.lower())
    if not match:
        forms = "Write digits, then B, kB to PB, or KiB to PiB, or nothing for bytes: 500GB, 1.5TB, 20GiB, 1000"
        raise SettingsError(f"{option} {shorten_text(text)}: not a size. {forms}")
    size = round(float(match[1]) * _UNITS[match[2] or ""])
    if size > _MAX_SIZE:
        raise SettingsError(f"{option} {shorten_text(text)}: more than 1,000 PB. Write what all disks can hold at most")
    return size
