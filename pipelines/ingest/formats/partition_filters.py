"""Which partitions a command shows: all of the cluster, or only some, because of its options or of what follows it."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from pipelines.ingest.formats.shell_words import Command

_MAX_NAME = 80  # characters of an option that a message repeats
UNDER_MIN_ISR, AT_MIN_ISR = "under-min-isr-partitions", "at-min-isr-partitions"
# Options may be cut off by the width of a terminal, and Kafka's tools accept them so.
_FILTERS = (
    (re.compile(r"under-rep[\w-]*+"), "under-replicated-partitions", "no partition is under-replicated"),
    (re.compile(r"unav[\w-]*+"), "unavailable-partitions", "no partition is without a leader"),
    (re.compile(r"under-m[\w-]*+"), UNDER_MIN_ISR, "no partition has fewer in-sync replicas than min.insync.replicas"),
    (re.compile(r"at-m[\w-]*+"), AT_MIN_ISR, "no partition has just as many in-sync replicas as min.insync.replicas"),
    (re.compile(r"topics-w[\w-]*+"), "topics-with-overrides", "no topic has settings of its own"),
)
_SELECTED = {
    UNDER_MIN_ISR: "the partitions with fewer in-sync replicas than min.insync.replicas",
    AT_MIN_ISR: "the partitions with just as many in-sync replicas as min.insync.replicas",
}
_OPTION = re.compile(r"(?:--?|–|—)([a-z][\w-]*+)(?:=(.*))?", re.S)
_OTHER_ACTIONS = frozenset({"list", "create", "alter", "delete", "help", "version"})
_ALL_TOPICS = frozenset({".*", ".+", "^.*$", "*", ""})
_VARIABLE = re.compile(r"\$|\{\}|%|<")
_KCAT_VALUES = frozenset("btpXFGocDKfsSmdk")  # options of kcat that a value follows
_LABELS = re.compile(r"(?:topic|partition|leader|replicas|isr)s?:?", re.I)
_ROWS = re.compile(r"leader|replica|isr|partition", re.I)


class Selection(NamedTuple):
    """Why a command shows only some of the cluster's partitions."""

    option: str  # as the command has it
    nothing: str | None = None  # what it means that the command printed nothing
    topic: str | None = None  # the only topic that it shows, or a pattern of topics

    @property
    def isr_option(self) -> str | None:
        """The option without dashes, if it selects partitions by the size of their ISR."""
        name = self.option.removeprefix("--")
        return name if name in _SELECTED else None

    @property
    def selected(self) -> str:
        """The partitions that the command selects, as in `some partitions`."""
        return _SELECTED.get(self.isr_option or "", "some partitions")


def find_selection(command: Command) -> Selection | None:
    """Return why a command that lists partitions shows only some, or None if it shows all."""
    if command.tool in ("kcat", "kafkacat"):
        selection = _find_kcat_topic(command.words)
    elif command.tool == "rpk":
        selection = _find_rpk_topic(command.words)
    else:
        selection = _find_option(command)
    return selection or next(filter(None, map(_find_filter, command.pipes)), None)


def lists_partitions(command: Command) -> bool:
    """Return whether a command lists partitions with their leaders."""
    if command.tool in ("kcat", "kafkacat"):
        return any(name == "L" for name, _ in read_kcat(command.words))
    if command.tool == "rpk":
        return command.words[:2] in (["topic", "describe"], ["topic", "info"]) or (
            command.words[:2] == ["topic", "list"] and any(word in ("-d", "--detailed") for word in command.words)
        )
    if command.tool == "kafka-list-topic":  # Kafka 0.8.0
        return True
    if command.tool not in ("", "kafka-topics"):
        return False
    options = dict(read_options(command.words))
    if any(name.startswith("des") and "describe".startswith(name) for name in options):
        return True
    return not _OTHER_ACTIONS & options.keys() and any(
        pattern.fullmatch(name) for pattern, *_ in _FILTERS for name in options
    )


def _find_option(command: Command) -> Selection | None:
    options = list(read_options(command.words))
    for name, _ in options:
        for pattern, option, nothing in _FILTERS:
            if pattern.fullmatch(name):
                return Selection(f"--{option}", nothing)
    for name, value in options:
        if name in ("topic", "topic-id") and value not in _ALL_TOPICS:
            if command.is_repeated and _VARIABLE.search(value):  # kafka-topics --topic $t, for all topics
                continue
            return Selection(f"--{name} {value}".rstrip()[:_MAX_NAME], None, value[:_MAX_NAME])
    return None


def read_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the long options of a command with their values; the value of a flag is empty."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if match := _OPTION.fullmatch(word):
            value = match[2]
            if value is None:
                value = "" if following.startswith(("-", "–", "—")) else following
            yield match[1], value.rstrip(":")


def read_kcat(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of kcat with their values: letters, which may be joined as in -Lt orders."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if not word.startswith("-") or word.startswith("--"):
            continue
        for i, letter in enumerate(word[1:], 2):
            if letter in _KCAT_VALUES:
                yield letter, word[i:] or following
                break
            yield letter, ""


def _find_kcat_topic(words: Sequence[str]) -> Selection | None:
    topic = next((value for name, value in read_kcat(words) if name == "t"), None)
    return None if topic is None else Selection(f"-t {topic}"[:_MAX_NAME], None, topic[:_MAX_NAME])


def _find_rpk_topic(words: Sequence[str]) -> Selection | None:
    if words[:2] == ["topic", "list"] or any(value in _ALL_TOPICS for _, value in _read_regexes(words)):
        return None
    names = [word for word in words[2:] if not word.startswith("-")]
    topics = ",".join(names)[:_MAX_NAME]
    return Selection(f"rpk topic describe {topics}".rstrip(), None, topics) if names else None


def _read_regexes(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in pairwise(words) if name in ("-r", "--regex"))


def _find_filter(words: Sequence[str]) -> Selection | None:
    """Return why a command that reads the output of another passes on only a part of it."""
    if not words:
        return None
    name, arguments = words[0].rpartition("/")[2], words[1:]
    patterns = [word for word in arguments if not word.startswith("-")]
    pattern = patterns[0] if patterns else ""
    flags = "".join(word for word in arguments if word.startswith("-"))
    if name in ("grep", "egrep", "fgrep", "zgrep", "rg", "findstr", "Select-String", "sls"):
        if "v" in flags.replace("--invert-match", "v"):  # without noise, or without some partitions
            is_part = _ROWS.search(pattern) is not None
        else:
            is_part = not all(_LABELS.fullmatch(part.strip(r"\s^")) for part in re.split(r"\\?\|", pattern))
    elif name == "head":
        is_part = True
    elif name == "tail":
        is_part = not any(word.startswith("+") for word in arguments)
    elif name in ("awk", "gawk", "mawk"):
        is_part = not pattern.lstrip().startswith("{")
    elif name == "sed":
        is_part = "n" in flags
    else:
        is_part = False
    return Selection(f"| {' '.join(words)}"[:_MAX_NAME]) if is_part else None
