"""What a shell session shows beside data: commands of Kafka's tools, and the errors of commands that failed.

They say what the data below them lacks: a filter shows only some of the partitions, a failed command perhaps broke off.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from pipelines.ingest.formats import bootstrap_servers
from pipelines.ingest.formats import partition_filters as filters
from pipelines.ingest.formats.command_failures import find_failure, find_leaderless_topics
from pipelines.ingest.formats.shell_words import Command, begins_command, is_continued, is_rest, parse_commands
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, decide_ignored, ignore
from pipelines.ingest.text import PROMPT, PROSE, classify_noise, split_lines
from udfs.plurals import join_names

ERROR = "error of a command"
# A line of kafka-topics --list.
_TOPIC_NAME = re.compile(r"([a-zA-Z0-9._-]{1,249})( - marked for deletion)?\s*+")


class ShownCommand(NamedTuple):
    """A command that a file shows, perhaps on several lines."""

    line_number: int
    last_line: int
    parts: Sequence[Command]  # of its pipeline, and of what it runs before and after


def _is_line(line: str) -> bool:
    if begins_command(line) or is_rest(line):
        return True
    return find_failure(line) is not None or find_leaderless_topics(line) is not None


def find_commands(lines: Sequence[str]) -> Iterator[ShownCommand]:
    """Yield the commands of tools in the lines of a file."""
    at = 0
    while at < len(lines):
        begin, at = at, at + 1
        if not lines[begin] or not (begins_command(lines[begin]) or is_rest(lines[begin])):
            continue
        while at < len(lines) and lines[at].strip() and (is_continued(lines[at - 1]) or is_rest(lines[at])):
            at += 1
        text = " ".join(line.rstrip().removesuffix("\\") for line in lines[begin:at])
        yield ShownCommand(begin + 1, at, list(parse_commands(text)))


def _read_rows(text: str, _path: str) -> Iterator[Row]:
    lines = split_lines(text)
    commands = list(find_commands(lines))
    decided = _describe_commands(lines, commands) | _describe_errors(lines)
    contexts = _find_topic_names(lines, commands) | {n: decide_ignored(**values) for n, values in decided.items()}
    for number, line in enumerate(lines, 1):
        if line:  # else it is of another format
            yield number, contexts.get(number), line


def _find_topic_names(lines: Sequence[str], commands: Sequence[ShownCommand]) -> dict[int, str]:
    """Return by line number which topics the commands name that list their names."""
    contexts: dict[int, str] = {}
    for command in commands:
        number = command.last_line
        if any(map(filters.lists_topics, command.parts)):
            while number < len(lines) and not _is_line(lines[number]):
                if not (match := _TOPIC_NAME.fullmatch(lines[number])):
                    break
                number += 1
                contexts[number] = json.dumps({"topic": match[1], "marked_for_deletion": True if match[2] else None})
    return contexts


def _describe_commands(lines: Sequence[str], commands: Sequence[ShownCommand]) -> dict[int, dict[str, Any]]:
    """Return by line number what each command shows of the completeness of its output."""
    contexts: dict[int, dict[str, Any]] = {}
    topics: dict[str, str] = {}  # topics that commands show alone -> the option of the first
    first_with_topic = 0
    clusters: list[tuple[bootstrap_servers.Servers, int]] = []  # servers of each, and the line that asks them first
    viewed = {filters.find_viewed_file(part) for command in commands for part in command.parts} - {None}
    saved: dict[str, filters.Selection | None] = {}  # files with the output of a command that lists partitions
    for command in commands:
        number = command.line_number
        for line in range(number, command.last_line + 1):
            contexts[line] = {"reason": PROMPT}
        warnings = list(filter(None, (_compare_servers(part, number, clusters) for part in command.parts)))
        # The next command or error directly below it: it printed nothing.
        is_empty = command.last_line < len(lines) and _is_line(lines[command.last_line])
        selections = list(_find_selections(command.parts, viewed, saved))
        if is_empty:
            selections = []
        if selections:
            contexts[number]["is_selection"] = None not in selections
        if selections and (selection := selections[0]) is not None and None not in selections:
            if selection.topic is None:
                warnings.append(_describe_filter(selection))
                contexts[number]["selection"] = selection.isr_option if len(selections) == 1 else None
            else:
                first_with_topic = first_with_topic or number
                topics.setdefault(selection.topic, selection.option)
        if warnings:
            contexts[number]["warning"] = "; ".join(warnings)
        if servers := next(filter(None, map(bootstrap_servers.find_servers, command.parts)), None):
            contexts[number]["host"] = servers.text if servers.kind == bootstrap_servers.BROKER else None
    if topics:
        below = contexts[first_with_topic]
        below["warning"] = "; ".join(filter(None, (below.get("warning"), filters.describe_topics(topics))))
    return contexts


def _find_selections(
    parts: Sequence[Command], viewed: Collection[str | None], saved: dict[str, filters.Selection | None]
) -> Iterator[filters.Selection | None]:
    """Yield why each listing that a command prints shows only some partitions, or None if it shows all.

    viewed: files that commands show; saved: files that have listings, added to.
    """
    for part in parts:
        selection, own = filters.find_selection(part), filters.find_viewed_file(part)
        is_of_file = own is not None and (own in saved or selection is not None)
        if not is_of_file and not filters.lists_partitions(part):
            continue
        selection = selection or saved.get(own or "")
        file = filters.find_saved_file(part)
        if file is not None and file in viewed:  # it is shown below
            saved[file] = selection
        else:
            yield selection


def _compare_servers(
    command: Command, line_number: int, clusters: list[tuple[bootstrap_servers.Servers, int]]
) -> str | None:
    """Return the warning that a command asks another cluster than one above. clusters: added to."""
    servers = bootstrap_servers.find_servers(command)
    if servers is None or not bootstrap_servers.names_a_cluster(servers):
        return None
    others = [(other, line) for other, line in clusters if bootstrap_servers.are_of_two_clusters(other, servers)]
    if any(other.kind == servers.kind and (other, line) not in others for other, line in clusters):
        return None
    clusters.append((servers, line_number))
    return describe_two_clusters(servers.text, f"line {others[0][1]}", others[0][0].text) if others else None


def describe_two_clusters(servers: str, place: str, other: str) -> str:
    """Return the warning that a command asks other servers than the one at `place`, as in `line 1`."""
    return f"asks {servers}, but {place} asks {other}: these may be two clusters; give each its own folder"


def _describe_filter(selection: filters.Selection) -> str:
    if selection.option.startswith("|"):
        return f"{selection.option} may pass on only some lines: run the command without it"
    if not selection.option.startswith("-"):
        return f"{selection.option} shows only some lines of the file: show all of it"
    if selection.option == "--topics-with-overrides":
        return f"{selection.option} shows no partitions: run it without"
    return f"{selection.option} shows only {selection.selected}: run it without"


def _describe_errors(lines: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Return by line number what each error says; only the first line of each error warns, and each reason once."""
    contexts: dict[int, dict[str, Any]] = {}
    reasons: set[str] = set()
    leaderless: set[str] = set()  # topics that a warning names
    last = -1  # line of the last error
    for number, line in enumerate(lines, 1):
        if not line or begins_command(line) or is_rest(line):
            continue
        if (topics := find_leaderless_topics(line)) is not None:
            contexts[number] = {"reason": "error of a client"}
            new = [topic for topic in topics if topic not in leaderless]
            if new or not (topics or leaderless):
                leaderless.update(new or [""])
                contexts[number]["warning"] = _describe_leaderless(new)
            last = number
            continue
        failure = find_failure(line)
        if failure is None:
            continue
        contexts[number] = {"reason": ERROR if last == number - 1 or failure else _name_rest(line)}
        if failure and last != number - 1 and failure not in reasons:
            reasons.add(failure)
            contexts[number]["warning"] = f"the command failed ({failure}): the listing may be cut"
        if failure or last == number - 1:
            last = number
    return contexts


def _describe_leaderless(topics: Sequence[str]) -> str:
    """Return the warning of a client's error; topics: those that it names."""
    of_topics = f" of {'topic' if len(topics) == 1 else 'topics'} {join_names(topics, 5)}" if topics else ""
    return (
        f"a client found a partition{of_topics} without a leader, offline or just created: "
        "check that the listing is of the same time"
    )


def _name_rest(line: str) -> str:
    reason = classify_noise(line)
    return ERROR if reason == PROSE else reason


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    return ignore(classify_noise(raw)) if context is None else [(FactKind.TOPIC, json.loads(context))]


FORMAT = Format(
    "shell",
    "commands of Kafka's tools and their errors",
    Signature(
        line=_is_line,
        is_aside=True,
        table=lambda line: begins_command(line) and any(map(filters.lists_topics, parse_commands(line))),
        table_line=lambda line: bool(_TOPIC_NAME.fullmatch(line)),
    ),
    *(_parse_record, _read_rows),
)
