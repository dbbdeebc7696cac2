"""What kafka-reassign-partitions and kafka-leader-election read and print: assignments, other input, status lines."""

import re
from collections.abc import Collection, Iterator

from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.formats import json_documents as documents
from pipelines.ingest.formats.checked_values import as_partition, as_topic, quote, split_ids, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, decide_ignored, ignore
from pipelines.ingest.text import (
    CHANGE,
    MAX_LOOK,
    STATE_MESSAGE,
    TOOL_MESSAGE,
    classify_noise,
    find_marked,
    split_lines,
)
from udfs.wording import count_of

_CURRENT, _PROPOSED = "current", "proposed"
_ANY = "any"  # a log dir that the tool does not show: before Kafka 4.2, or of a broker that does not answer
_ELEMENT = re.compile(r'"partitions"\s*:\s*\[\s*(?:\{[^{}]*"(?:topic|partition)"\s*:|\])')
# A partition of an assignment, or an array of them, without the object around them.
_BARE = re.compile(
    r'\s*+\[?\s*+\{(?=[^{}]*"topic"\s*+:)(?=[^{}]*"partition"\s*+:)[^{}]*"replicas"\s*+:\s*+\[[0-9,\s]*+\]'
)
_TITLES = (
    (re.compile(r"\s*Current partition replica assignment", re.I), _CURRENT),
    (re.compile(r"\s*Proposed partition reassignment", re.I), _PROPOSED),
    # Kafka 0.8.1 prints the target behind or below this message.
    (re.compile(r"\s*Successfully started (?:partition )?reassignments? (?:of|for) partitions?", re.I), _PROPOSED),
)
_BROKERS = re.compile(r'"brokers"\s*+:\s*+[\[{]')  # of a cluster model, or of a client's answer
# Array of a tool's input -> the keys of its elements, and what such an element is.
_INPUT_ARRAYS = {
    "topics": ({"topic"}, documents.TOPIC_TO_MOVE),
    "partitions": ({"topic", "partition"}, "partition to elect a leader of"),
}
_INPUT = re.compile(r'"(?:topics|partitions)"\s*:\s*\[\s*\{')
_MESSAGE = re.compile(
    r"\s*(?:Status of partition reassignment|Reassignment of (?:partition|replica) |Clearing (?:broker|topic)-level"
    r"|(?:Successfully (?:completed|started)|Failed to (?:complete|elect)|Error completing) "
    r"|Valid replica already elected"
    r"|Throttle was removed|The inter-broker throttle|Warning: You must run --verify"
    r"|\d+ replica\(s\) could not be elected|Created topic |Updating (?:default )?configs? |Completed updating config"
    r"|Save this to use as the --reassignment-json-file"
    r"|Successfully (?:cancelled|reassigned))",
    re.I,
)

# A file that a command of the session executes or verifies is a plan, where the session shows it or writes it.
_PLAN_FILE = re.compile(r"--reassignment-json-file[ =]++[\"']?([^\s\"']++)")
_COMMAND = re.compile(
    r"^\s*+(?:[^\n]{0,200}?[$#%>❯➜]\s)?\s*+(?:sudo )?(?:cat|tee|bat|less|more|head|jq|echo|type|kafka-|\./|bin/)"
)
_VIEWER = re.compile(r"\b(?:cat|bat|less|more|head|jq|type)\s")
_HERE_DOCUMENT = re.compile(r"\b(?:cat|tee)\b[^\n]{0,200}<<")
# Of Kafka before 2.6, whose describe does not show which replicas a reassignment adds and removes.
_STARTED = re.compile(r"^[ \t]*+Successfully started reassignment of partitions", re.M)
_COMPLETED = re.compile(r"^[ \t]*+Reassignment of partition \S++ (?:is completed|completed successfully)", re.M)

_FAILED_ELECTION = re.compile(
    r"^[\s>|#`]*+Error completing [a-z ]{0,40}?election (?:\([A-Z]++\) )?for partition:? (?P<partition>[^\s:]++): "
    r"(?P<error>[\w.]++)",
    re.M,
)
_LINE = re.compile("|".join(p.pattern for p in (_MESSAGE, *(title for title, _ in _TITLES))), re.I)
_CHECK = "check that the listing is of the same time"


def _is_assignment(text: str) -> bool:
    if '"logDirs"' in text or _BROKERS.search(text):
        return False
    return _ELEMENT.search(text) is not None or _BARE.match(text) is not None


def _describe_messages(text: str) -> dict[int, str | None]:
    """Return {line number: warning} of what the tools' messages say of the cluster; None: an earlier line counts it."""
    warnings = describe_failed_elections(text)
    starts = [match.start() for match in _STARTED.finditer(text)] if "started reassignment of" in text else []
    if starts and not _COMPLETED.search(text, starts[-1]):
        line = text.count("\n", 0, starts[-1]) + 1
        warnings[line] = "a reassignment of partitions was started: their replicas change until it completes"
    return warnings


def describe_failed_elections(text: str) -> dict[int, str | None]:
    """Return {line number: warning} of each failed election: one warning per exception, None for its other lines.

    Source: LeaderElectionCommand of Kafka 4.1, PreferredReplicaLeaderElectionCommand of Kafka 2.3.
    """
    warnings: dict[int, str | None] = {}
    first_lines: dict[str, int] = {}
    partitions: dict[str, list[str]] = {}
    line = 1
    at = 0
    for match in _FAILED_ELECTION.finditer(text) if "Error completing" in text else ():
        line += text.count("\n", at, at := match.start("partition"))
        error = match["error"].rpartition(".")[2]
        first_lines.setdefault(error, line)
        partitions.setdefault(error, []).append(match["partition"])
        warnings[line] = None
    return warnings | {first_lines[error]: _describe_election(error, names) for error, names in partitions.items()}


def _describe_election(error: str, partitions: list[str]) -> str:
    is_one = len(partitions) == 1
    of_partitions = (
        f"partition {partitions[0]}" if is_one else f"{len(partitions)} partitions, such as {partitions[0]},"
    )
    if error == "EligibleLeadersNotAvailableException":
        return (
            f"{of_partitions} had no live replica that could lead, and {'was' if is_one else 'were'} offline: {_CHECK}"
        )
    if error == "PreferredLeaderNotAvailableException":
        replicas = "the preferred replica of" if is_one else "the preferred replicas of"
        return f"{replicas} {of_partitions} {'was' if is_one else 'were'} down or out of the ISR: {_CHECK}"
    return f"the leader election of {of_partitions.removesuffix(',')} failed ({error}): {_CHECK}"


def _find_assignment(line: str, before: str, plan_files: Collection[str]) -> str:
    """Return which assignment the document below a line is, if a title or a command says so; else the one before."""
    if titled := next((name for title, name in _TITLES if title.match(line)), None):
        return titled
    if not _COMMAND.search(line):
        return before
    files = {word.rpartition("/")[2] for word in line.split()}
    writes = _HERE_DOCUMENT.search(line) is not None
    return _PROPOSED if writes or (_VIEWER.search(line) and not files.isdisjoint(plan_files)) else _CURRENT


def _read_reassignment(text: str, _path: str) -> Iterator[Row]:
    warnings = _describe_messages(text)
    plan_files = {path.rpartition("/")[2] for path in _PLAN_FILE.findall(text)}
    assignment = _CURRENT
    for event in documents.walk_documents(text, [("partitions",), ()]):
        if event.kind == documents.JsonEventKind.LINE:
            assignment = _find_assignment(event.raw, assignment, plan_files)
        if event.kind == documents.JsonEventKind.LINE and event.line in warnings:
            yield event.line, decide_ignored(STATE_MESSAGE, warning=warnings[event.line]), event.raw
        elif event.kind == documents.JsonEventKind.FOREIGN and _BARE.match(event.raw):
            yield event.line, assignment, event.raw  # a partition alone, as jq prints them
        elif (row := documents.to_row(event, "partitions")) is not None:
            yield row
        elif event.kind == documents.JsonEventKind.ELEMENT:
            yield event.line, assignment, event.raw


def _parse_partition(assignment: str, raw: str) -> list[Fact]:
    if assignment == _PROPOSED:
        return ignore("proposed assignment")
    partition = check.parse_object(raw, "the partition", "the partition")
    key = {
        "topic": partition.read("topic", check.as_text),
        "partition": partition.read("partition", check.as_partition),
    }
    replicas = partition.read("replicas", check.as_broker_ids)
    paths = check.as_list(partition.get("log_dirs") or [_ANY] * len(replicas), "log_dirs")
    if len(paths) != len(replicas):
        lengths = f"{count_of(len(paths), 'path')}, replicas has {count_of(len(replicas), 'broker')}"
        raise check.unparsable(f"log_dirs has {lengths}")
    logs = zip(replicas, (check.as_text(path, "log_dirs") for path in paths), strict=True)
    dirs = [(FactKind.REPLICA, key | {"broker_id": broker, "log_dir": path}) for broker, path in logs if path != _ANY]
    return [(FactKind.PARTITION, key | {"replicas": replicas}), *dirs]


def _is_input(text: str) -> bool:
    if not _INPUT.search(text):
        return False
    keys = documents.find_keys(text) - {"version"}
    return any(keys == {array, *element} for array, (element, _) in _INPUT_ARRAYS.items())


def _read_input(text: str, _path: str) -> Iterator[Row]:
    return documents.read_elements(text, [("topics",), ("partitions",)], "topics or partitions", documents.get_array)


def _parse_input(array: str, raw: str) -> list[Fact]:
    keys, reason = _INPUT_ARRAYS[array]
    entry = check.parse_object(raw, "the entry")
    if entry.keys() != keys:
        raise check.unparsable(f"the entry has {check.quote(sorted(entry))}, expected {check.quote(sorted(keys))}")
    return ignore(reason)


REASSIGNMENT = Format(
    "reassignment",
    "reassignment JSON, and what kafka-reassign-partitions and kafka-leader-election print",
    *(
        Signature(line=_LINE.match, document=_is_assignment),
        documents.parse_elements(_parse_partition, _LINE.match),
        _read_reassignment,
    ),
)
TOOL_INPUT = Format(
    "tool-input",
    "input of Kafka's tools: topics to move, or partitions to elect leaders of",
    *(Signature(document=_is_input), documents.parse_elements(_parse_input), _read_input),
)


# What kafka-reassign-partitions prints of the cluster as it is now: `--list`, and lines of `--verify` and `--execute`.
# `--verify` names replicas that are not those of the reassignment, running reassignments and replicas without a live
# log. Source: ReassignPartitionsCommand of Kafka 0.8 to 4.1.
_START = r"[\s>|#`]*+"
_LISTED = re.compile(
    _START + r"([a-zA-Z0-9._-]++):\s++replicas: ([0-9,]*+)\."
    r"(?: adding: ([0-9,]*+)\.)?(?: removing: ([0-9,]*+)\.)?[\s`]*+"
)
_NEARLY_LISTED = re.compile(_START + r"[a-zA-Z0-9._-]++:\s++replicas: ?[0-9]")
_LIST_MESSAGE = re.compile(_START + r"(?:No partition reassignments found|Current partition reassignments:)", re.I)
_PARTITION = r"(?:[a-zA-Z0-9._-]++|\[[a-zA-Z0-9._-]++, ?[0-9]++\])"  # topic-0, or [topic,0] of old versions
# Of `--verify`: the partition's replicas are not those of the reassignment. The second is of Kafka before 2.6.
_VERIFIED = (
    re.compile(
        _START + r"There is no active reassignment of partition (?P<partition>[a-zA-Z0-9._-]++), "
        r"but replica set is (?P<replicas>[0-9,]++) rather than [0-9,]++\.[\s`]*+"
    ),
    re.compile(
        _START + r"ERROR: Assigned replicas \((?P<replicas>[0-9,]++)\) don't match the list of replicas for "
        rf"reassignment \([0-9,]++\) for partition (?P<partition>{_PARTITION})[\s`]*+"
    ),
)
_NEARLY_VERIFIED = re.compile(
    _START + r"(?:There is no active reassignment of partition [^\s,]++, but|ERROR: Assigned replicas)"
)
_RUNNING = re.compile(_START + rf"Reassignment of partition (?P<partition>{_PARTITION}) is still in progress\.?[\s`]*+")
_EXISTING = re.compile(
    _START + r"(?:There is an existing assignment running"
    r"|(?:Partitions reassignment failed due to |[a-z.]++AdminCommandFailedException: )?"
    r"Partition reassignment currently in progress for )"
)
_WITHOUT_LIVE_LOG = re.compile(
    _START + rf"Partition (?P<partition>{_PARTITION}) (?:is not|cannot be) found in any live log dir(?:ectory)? "
    r"on broker (?P<broker>[0-9]++)\b"
)
_STATUS_MARKS = "(?i:replicas: ?[0-9]|reassignment|existing assignment|error: assigned|live log dir)"
_WARNED = (_RUNNING, _EXISTING, _WITHOUT_LIVE_LOG)


def _is_status_line(line: str) -> bool:
    line = line[:MAX_LOOK]
    patterns = (_NEARLY_LISTED, _LIST_MESSAGE, _NEARLY_VERIFIED, *_WARNED)
    return any(pattern.match(line) is not None for pattern in patterns)


def _read_rows(text: str, _path: str) -> Iterator[Row]:
    """Yield each line; the first of several that show the same has the warning of all as its context."""
    lines = split_lines(text)
    listed = {i: match for i, line in enumerate(lines) if (match := _LISTED.fullmatch(line)) is not None}
    running, existing, without_log = (
        {i: match for i, line in enumerate(lines) if (match := pattern.match(line[:MAX_LOOK]))} for pattern in _WARNED
    )
    warnings = {}
    if listed:
        warnings[min(listed)] = _describe_running([match[1] for match in listed.values()])
    if running:
        warnings[min(running)] = _describe_running([match["partition"] for match in running.values()])
    elif existing:
        warnings[min(existing)] = "a reassignment of partitions is running: their replicas change"
    if without_log:
        warnings[min(without_log)] = _describe_without_log(list(without_log.values()))
    for i, line in enumerate(lines):
        yield i + 1, warnings.get(i), line


def _parse_status(context: str | None, raw: str) -> list[Fact]:
    if listed := _LISTED.fullmatch(raw):
        adding, removing = (split_ids(listed[group] or "", "replicas") for group in (3, 4))
        moves = {"adding_replicas": adding, "removing_replicas": removing}
        kind, values = _build_partition(listed[1], split_ids(listed[2], "replicas"), moves)
        return [(kind, values | {"warning": context})]
    if verified := next(filter(None, (pattern.fullmatch(raw) for pattern in _VERIFIED)), None):
        kind, values = _build_partition(verified["partition"], split_ids(verified["replicas"], "replicas"), {})
        return [(kind, values | {"warning": CHANGE, "until_listing": True})]
    if any(pattern.match(raw[:MAX_LOOK]) for pattern in _WARNED):
        return ignore(TOOL_MESSAGE, context)
    if _NEARLY_LISTED.match(raw) or _NEARLY_VERIFIED.match(raw):
        raise unparsable(f"{quote(raw.strip())} is no whole line of kafka-reassign-partitions (cut off?)")
    return ignore(TOOL_MESSAGE if _LIST_MESSAGE.match(raw) else classify_noise(raw))


def _describe_running(partitions: list[str]) -> str:
    first = _join_name(partitions[0])
    if len(partitions) == 1:
        return f"a reassignment of partition {first} is running: its replicas change"
    count = count_of(len(partitions), "partition")
    return f"reassignments of {count} are running, as of {first}: their replicas change"


def _describe_without_log(matches: list[re.Match[str]]) -> str:
    place = f"partition {_join_name(matches[0]['partition'])} on broker {matches[0]['broker']}"
    if len(matches) == 1:
        return f"the replica of {place} is in no live log directory: it may be offline"
    return f"{len(matches)} replicas, as of {place}, are in no live log directory: they may be offline"


def _join_name(partition: str) -> str:
    """Return the name of a partition as Kafka prints it now: [topic,0] becomes topic-0."""
    return "-".join(re.split(", ?", partition.strip("[]")))


def _build_partition(name: str, replicas: list[int] | None, moves: dict[str, list[int] | None]) -> Fact:
    topic, dash, partition = _join_name(name).rpartition("-")
    if not dash:
        raise unparsable(f"{quote(name)} is not TOPIC-PARTITION")
    if not replicas:
        raise unparsable("replicas is empty")
    number = as_partition(partition, f"the number in {quote(name)}")
    return FactKind.PARTITION, {"topic": as_topic(topic, "topic"), "partition": number, "replicas": replicas, **moves}


REASSIGNMENT_STATUS = Format(
    "reassignment-list",
    "kafka-reassign-partitions --list and --verify: what the cluster shows of reassignments",
    *(Signature(line=find_marked(_STATUS_MARKS, _is_status_line)), _parse_status, _read_rows),
)
