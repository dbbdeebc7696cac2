"""Which partitions a command shows: all of the cluster, or only some, because of its options or of what follows it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pipelines.ingest.formats.shell_words import VIEWERS, Command
from udfs.wording import join_names

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
_RPK_VALUES = re.compile(  # options of rpk that a value follows
    r"-X|--(?:config|config-opt|profile|brokers|user|password|sasl-\w+|(?:admin-api-)?tls-\w+|api-urls|hosts|format)"
)
_RPK_PARTITIONS = ("-p", "--partition", "-n", "--node-ids")  # of rpk cluster partitions list, where a value follows
_DETAILED = re.compile("-[a-z]*d[a-z]*")
# What all lines of a listing, or all records of a log, have.
_LABELS = re.compile(r"(?:topic|partition|leader|replicas|isr)s?:?|payload:?|_?record", re.I)
# Patterns of lines that show no partition: logs, and records of a metadata log that are not about placement.
_NOISE = re.compile(
    r"warn|info|debug|error|exception|log4j|slf4j|deprecat|java|openjdk|option|picked|grep|\^\$|^[\W_]*$"
    r"|no_?op|feature|producer_?ids|access_?control|scram|quota|delegation|base_?offset|dumping|starting",
    re.I,
)
_ELEMENTS = re.compile(r"\bselect\(|\[-?[0-9]|\[:|\b(?:first|last|limit)\b")  # of jq: only some of a document
_EDGES = re.compile(r"^(?:\\s[*+]?|[\s^\"'\\])+|[\s\"'$\\]+$")  # of a pattern: anchors, blanks, quotes
_DELETES = re.compile(r"(?:[0-9$]|/)\s*+!?[dqQ]\b")  # of sed
_GREPS = frozenset(
    ["ack", "ag", "egrep", "fgrep", "find", "findstr", "ggrep", "grep", "rg", "select-string", "sls", "zgrep"]
)
# They pass on every line, or save it. Any other command behind a pipe may leave out some.
_PASS_ALL = frozenset(
    {
        *("bat", "cat", "clip", "column", "dos2unix", "expand", "fold", "for", "format-table", "ft", "gzip", "iconv"),
        *("json_pp", "less", "more", "nc", "nl", "oh", "out-file", "out-host", "out-string", "parallel", "pbcopy"),
        *("python", "python3", "set-clipboard", "set-content", "sort", "sort-object", "ssh", "tac", "tee"),
        *("tee-object", "tr", "ts", "unexpand", "uniq", "wc", "while", "xargs", "xclip", "xsel"),
    }
)
_OF_POWERSHELL = re.compile(r"-(?:tot|tai|hea|fir|las)[a-z]*+", re.I)  # options of Get-Content: -TotalCount 4
# They pass on lines as they are, or some of them.
_PASS_LINES = frozenset({"cat", "egrep", "fgrep", "grep", "head", "less", "more", "sort", "tail", "tee", "uniq"})
# They take a pattern or a program before a file.
_WITH_PATTERN = _GREPS | frozenset(["awk", "gawk", "jq", "mawk", "sed"])
# Files that list no partitions: logs of servers, settings.
_OTHER_FILES = re.compile(
    r"/(?:var/log|etc|proc)/|(?:server|controller|state-change|kafka\w*+|cleaner|authorizer|request|gc|zookeeper|connect)"
    r"[\w.-]{0,80}\.log\b|\.(?:properties|conf|cfg|ini|ya?ml|sh|env|service)$|(?:^|/)(?:hosts|syslog|messages)$",
    re.I,
)


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


NO_OTHERS = "no answer covers the others"


def describe_topics(topics: Mapping[str, str], subject: str = "the commands") -> str:
    """Return the warning of what shows one topic each, or those of a pattern. topics: name -> the option of each."""
    names = list(topics)
    if len(names) > 1:
        return f"{subject} show only the topics {join_names(names, 5)}: {NO_OTHERS}"
    is_pattern = not names[0].replace("-", "").replace(".", "").replace("_", "").isalnum()
    what = "shows only some topics" if is_pattern else "shows one topic"
    return f"{topics[names[0]]} {what}: {NO_OTHERS}"


def warn_of_topics(selected: Mapping[int, tuple[str, str]], subject: str) -> dict[int, str | None]:
    """Return the warning of each record that shows one topic, by its place: the first has that of all, the others none.

    selected: the topic, and what selects it.
    """
    warnings: dict[int, str | None] = dict.fromkeys(selected)
    return warnings | ({min(selected): describe_topics(dict(selected.values()), subject)} if selected else {})


def find_selection(command: Command) -> Selection | None:
    """Return why a command that lists partitions shows only some, or None if it shows all."""
    selection: Selection | None = None
    if command.tool in ("kcat", "kafkacat"):
        topic = next((value for name, value in read_kcat(command.words) if name == "t"), None)
        if topic is not None:
            selection = Selection(f"-t {topic}"[:_MAX_NAME], None, topic[:_MAX_NAME])
    elif command.tool == "rpk":
        selection = _find_rpk_selection(command.words)
    elif command.tool == "kafka-dump-log":
        if (value := dict(read_options(command.words)).get("max-bytes")) is not None:
            selection = Selection(f"--max-bytes {value}"[:_MAX_NAME])
    elif (file := find_viewed_file(command)) is not None:
        words = [command.tool, *_cut_redirects(command.words)]
        selection = Selection(" ".join(words)[:_MAX_NAME]) if _find_filter(words, file) else None
    else:
        selection = _find_option(command)
    return selection or next(filter(None, map(_find_filter, command.pipes)), None)


def lists_partitions(command: Command) -> bool:
    """Return whether a command lists partitions with their leaders."""
    if command.tool in ("kcat", "kafkacat"):
        return any(name == "L" for name, _ in read_kcat(command.words))
    if command.tool == "rpk":
        return read_rpk(command.words) is not None
    if command.tool == "kafka-list-topic":  # Kafka 0.8.0
        return True
    if command.tool == "kafka-dump-log":
        return any(name.startswith("cluster-m") for name, _ in read_options(command.words))
    if command.tool not in ("", "kafka-topics"):
        return False
    options = dict(read_options(command.words))
    if any(name.startswith("des") and "describe".startswith(name) for name in options):
        return True
    return not _OTHER_ACTIONS & options.keys() and any(
        pattern.fullmatch(name) for pattern, *_ in _FILTERS for name in options
    )


def lists_topics(command: Command) -> bool:
    """Return whether a command prints the names of topics, and nothing else."""
    passes_lines = all(words and words[0] in _PASS_LINES and "-c" not in words for words in command.pipes)
    return passes_lines and command.tool == "kafka-topics" and any(o == "list" for o, _ in read_options(command.words))


def find_viewed_file(command: Command) -> str | None:
    """Return the file that a command such as cat or grep shows; None for another command, or a file of other things."""
    if command.tool not in VIEWERS:
        return None
    arguments = _cut_redirects(command.words)
    words = [word for word in arguments if not word.startswith("-")]
    if "<" in words:
        words = words[words.index("<") + 1 :]
    else:
        has_pattern = command.tool.lower() in _WITH_PATTERN and not any(word.startswith("-e") for word in arguments)
        words = [word for word in words[has_pattern:] if not word.isdigit()]
    return words[-1] if words and not _OTHER_FILES.search(words[-1]) else None


def _cut_redirects(words: Sequence[str]) -> Sequence[str]:
    """Return the words of a command before those that say where its output goes, as in 2>/dev/null."""
    at = next((i for i, word in enumerate(words) if word.startswith(">")), len(words))
    return words[: at - 1 if at < len(words) and words[at - 1 : at] == ["2"] else at]


def find_saved_file(command: Command) -> str | None:
    """Return the file that the output of a command goes to instead of the terminal, or None."""
    words = ["", *(command.pipes[-1] if command.pipes else command.words)]
    files = (words[i + 1] for i, word in enumerate(words[:-1]) if word in (">", ">>") and words[i - 1] != "2")
    return next(files, None)


def _find_option(command: Command) -> Selection | None:
    options = list(read_options(command.words))
    for name, _ in options:
        for pattern, option, nothing in _FILTERS:
            if pattern.fullmatch(name):
                return Selection(f"--{option}", nothing)
        if len(name) > 3 and "exclude-internal".startswith(name):
            return Selection("--exclude-internal")
    for name, value in options:
        if len(name) < len("topic") and "topic".startswith(name):  # its line was cut
            return Selection("--topic")
        if name in ("topic", "topic-id") and value not in _ALL_TOPICS:
            if command.is_repeated and _VARIABLE.search(value):  # kafka-topics --topic $t, for all topics
                continue
            return Selection(f"--{name} {value}".rstrip()[:_MAX_NAME], None, value[:_MAX_NAME])
    return None


def read_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the long options of a command with their values; the value of a flag is empty."""
    for word, following in pairwise([*words, ""]):
        if match := _OPTION.fullmatch(word):
            value = match[2]
            if value is None:
                value = "" if following.startswith(("-", "–", "—")) else following
            yield match[1], value.rstrip(":")


def read_kcat(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of kcat with their values: letters, which may be joined as in -Lt orders."""
    for word, following in pairwise([*words, ""]):
        if not word.startswith("-") or word.startswith("--"):
            continue
        for i, letter in enumerate(word[1:], 2):
            if letter in _KCAT_VALUES:
                yield letter, word[i:] or following
                break
            yield letter, ""


class RpkListing(NamedTuple):
    """A command of rpk that lists partitions with their leaders."""

    name: str  # as in `rpk topic describe`
    topics: Sequence[str]  # that it names; without any it lists those of the whole cluster


def read_rpk(words: Sequence[str]) -> RpkListing | None:
    """Return what a command of rpk lists, or None if it lists no partitions. words: those behind `rpk`."""
    plain: list[str] = []  # without options and their values
    is_value = False
    for word in _cut_redirects(words):
        is_option = not is_value and word.startswith("-")
        if not is_option and not is_value:
            plain.append(word.rstrip(":"))
        is_value = is_option and (
            _RPK_VALUES.fullmatch(word) is not None
            or (word in _RPK_PARTITIONS and plain[:2] == ["cluster", "partitions"])
        )
    is_detailed = any(word == "--detailed" or _DETAILED.fullmatch(word) for word in words)
    match plain:
        case ["topic", "describe" | "info", *topics]:
            return RpkListing("rpk topic describe", topics)
        case ["cluster", "partitions", "list" | "ls" | "describe", *topics]:
            return RpkListing("rpk cluster partitions list", topics)
        case ["topic" | "cluster" as subject, "list" | "ls" | "info" | "status" | "metadata" as verb, *topics] if (
            is_detailed
        ):
            return RpkListing(f"rpk {subject} {verb}", topics)
    return None


def _find_rpk_selection(words: Sequence[str]) -> Selection | None:
    listing = read_rpk(words)
    if listing is None:
        return None
    options = (*_RPK_PARTITIONS, "--disabled-only") if listing.name.endswith("partitions list") else ()
    if option := next((word for word in words if word.partition("=")[0] in options), None):
        return Selection(option[:_MAX_NAME])
    if not listing.topics or not _ALL_TOPICS.isdisjoint(listing.topics):  # -r '.*'
        return None
    topics = ",".join(listing.topics)[:_MAX_NAME]
    return Selection(f"{listing.name} {topics}", None, topics)


def _find_filter(words: Sequence[str], file: str | None = None) -> Selection | None:
    """Return why a command that reads the output of another, or a file, passes on only a part of it."""
    if not words:
        return None
    name = words[0].rpartition("/")[2].lower()
    arguments = [word for word in words[1:] if word != file]
    patterns = [word for word in arguments if not word.startswith("-")]
    pattern = patterns[0] if patterns else ""
    flags = "".join(word for word in arguments if word.startswith("-") and not word.startswith("--"))
    if name in _GREPS:
        is_part = _leaves_out(patterns, is_inverted="v" in flags or "--invert-match" in arguments)
    elif name == "tail":
        is_part = not any(word.startswith("+") for word in arguments)
    elif name in ("awk", "gawk", "mawk"):
        is_part = not pattern.lstrip().startswith("{") or re.match(r"[\s{]*+if\b", pattern) is not None
    elif name == "sed":
        is_part = "n" in flags or _DELETES.search(pattern) is not None
    elif name == "jq":
        is_part = _ELEMENTS.search(pattern) is not None
    else:
        is_part = (name not in _PASS_ALL and (file is None or name == "head")) or any(
            map(_OF_POWERSHELL.fullmatch, arguments)
        )
    return Selection(f"| {' '.join(words)}"[:_MAX_NAME]) if is_part else None


def _leaves_out(patterns: Sequence[str], is_inverted: bool) -> bool:
    """Return whether grep leaves out lines that may show partitions."""
    parts = [_EDGES.sub("", part) for pattern in patterns for part in re.split(r"\\?\|", pattern)]
    if is_inverted:  # without noise, or without some partitions
        return not all(map(_NOISE.search, parts))
    return not all(map(_LABELS.fullmatch, parts))
