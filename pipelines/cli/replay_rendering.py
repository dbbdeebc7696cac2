"""What `replay` prints: a line per event, and the state of the cluster at the end."""

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby

import numpy as np

from pipelines.simulation.cluster_replay import Replay
from pipelines.simulation.scenario.sentences import SKIPPED_IF_REJECTED
from udfs.failures.partition_health import is_under_replicated
from udfs.simulation import result_tables
from udfs.simulation.cluster_events import Event
from udfs.simulation.group_simulation import list_group_transitions
from udfs.simulation.kernels.codes import ChangeCause, EventKind
from udfs.simulation.result_tables import FinalState, Row
from udfs.wording import count_of

_MAX_NAMES = 8
_MAY_CHANGE_NOTHING = (EventKind.ALTER_ISR, EventKind.ELECT_PREFERRED_LEADER)
# What snapshots of a cluster with ZooKeeper show: znodes that disappear, appear or change.
_ZOOKEEPER_NAMES: dict[int, str] = {
    EventKind.BROKER_FENCED: "broker gone",
    EventKind.BROKER_UNFENCED: "broker registered",
    EventKind.PARTITION_RECORD: "state",
}


def render_replay(replay: Replay) -> Iterator[str]:
    """Yield the lines that `replay` prints."""
    yield from _render_events(replay)
    yield from _render_produces(result_tables.list_requests(replay.simulation))
    for row in list_group_transitions(replay.groups):
        leader = f", leader {row['leader']}" if row["leader"] else ""
        change = f"{row['from_state']} -> {row['to_state']}, generation {row['generation']}{leader}"
        yield f"{_format_time(row['at_ms'], replay)}  group {row['group']}: {change} ({row['cause']})"
    yield ""
    yield from _render_final_state(result_tables.get_final_state(replay.simulation))


def _render_events(replay: Replay) -> Iterator[str]:
    by_event, by_time = _group_leaderships(replay)
    illegal = Counter(row["event"] for row in result_tables.list_transitions(replay.simulation) if not row["legal"])
    names = list(EventKind.labels())
    if not replay.initial_state.settings.kraft:
        for kind, name in _ZOOKEEPER_NAMES.items():
            names[kind] = name
    due = deque(sorted(by_time))

    def render_timers(until: float) -> Iterator[str]:
        while due and due[0] <= until:
            at = due.popleft()
            yield f"{_format_time(at, replay)}  automatically{_describe_changes(by_time[at])}"

    events = replay.events
    implied = (EventKind.FETCH, SKIPPED_IF_REJECTED)
    visible = [i for i, event in enumerate(events) if (event.kind, event.value) != implied or i in by_event]
    for (at, text), group in groupby(visible, key=lambda i: (events[i].at_ms, _describe_event(events[i], names))):
        yield from render_timers(at)
        numbers = list(group)
        rows = [row for number in numbers for row in by_event.get(number, ())]
        is_void = not rows and all(replay.events[number].kind in _MAY_CHANGE_NOTHING for number in numbers)
        times = f" (x {len(numbers)})" if len(numbers) > 1 else ""
        result = ": no change" if is_void else _describe_changes(rows)
        yield f"{_format_time(at, replay)}  {text}{times}{result}"
        if count := sum(illegal[number] for number in numbers):
            yield f"      {count_of(count, 'illegal transition')}, see state_transitions of --json"
    yield from render_timers(math.inf)


def _group_leaderships(replay: Replay) -> tuple[dict[int, list[Row]], dict[int, list[Row]]]:
    """Return (leaderships that events caused, by event; those that timers caused, by time)."""
    by_event: dict[int, list[Row]] = {}
    by_time: dict[int, list[Row]] = {}
    for row in result_tables.list_leaderships(replay.simulation):
        event = row["event"]
        is_caused = 0 <= event < len(replay.events) and row["at_ms"] == replay.events[event].at_ms
        if is_caused and row["cause"] != ChangeCause.AUTO_REBALANCE.label:
            by_event.setdefault(event, []).append(row)
        else:
            by_time.setdefault(row["at_ms"], []).append(row)
    return by_event, by_time


def _render_produces(rows: Sequence[Row]) -> Iterator[str]:
    """Count messages of produce requests, and the requests by answer, for each acks."""
    for acks in sorted({row["acks"] for row in rows if row["acks"] is not None}):
        chosen = [row for row in rows if row["acks"] == acks]
        answers = Counter(f"{row['part_error']} ({row['answered_by']})" for row in chosen)
        answered = [row for row in chosen if row["part_error"] == "NONE" and row["answered_at_ms"] is not None]
        written, lost = sum(row["messages"] for row in chosen), sum(row["lost_messages"] for row in chosen)
        lost_acknowledged = sum(row["lost_messages"] for row in answered) if acks else 0
        text = f"acks={'all' if acks == -1 else acks}: {count_of(written, 'message')} written"
        acknowledged = f"{lost_acknowledged:,}" if lost_acknowledged else "none"
        text += f", {lost:,} lost ({acknowledged} of them acknowledged)" if lost else ", none lost"
        yield f"{text}; requests: {', '.join(f'{count} {answer}' for answer, count in answers.most_common())}"


def _render_final_state(state: FinalState) -> Iterator[str]:
    leaderless = [row for row in state.partitions if row["leader"] is None]
    in_sync, replicas = (np.array([len(row[name]) for row in state.partitions]) for name in ("isr", "replicas"))
    under_replicated = int(is_under_replicated(in_sync, replicas).sum())
    live = sum(broker.is_live for broker in state.brokers)
    parts = [count_of(len(state.partitions), "partition")]
    parts += [f"{under_replicated:,} under-replicated"] if under_replicated else []
    parts += [f"{len(leaderless):,} without leader"] if leaderless else []
    brokers = f"{live} of {count_of(len(state.brokers), 'broker')} live"
    yield f"at the end: {brokers}, controller epoch {state.controller_epoch}; {', '.join(parts)}"
    if leaderless:
        names = ", ".join(f"{row['topic']}-{row['partition']}" for row in leaderless[:_MAX_NAMES])
        yield f"without leader: {names}{' ...' if len(leaderless) > _MAX_NAMES else ''}"


def _describe_event(event: Event, names: Sequence[str]) -> str:
    broker = "" if event.broker is None or event.kind == EventKind.PARTITION_RECORD else f" {event.broker}"
    topic = "" if event.partition is None else f" of {event.partition[0]}"
    return names[event.kind] + broker + topic


def _describe_changes(rows: Sequence[Mapping[str, object]]) -> str:
    """Describe leaderships: how many of each cause, and which brokers lead now."""
    if not rows:
        return ""
    led = {(row["topic"], row["partition"]) for row in rows if row["leader"] is not None}
    # A new controller first writes "no leader", then elects one: only the latter counts.
    causes = Counter(
        row["cause"] for row in rows if row["leader"] is not None or (row["topic"], row["partition"]) not in led
    )
    moved = Counter(row["leader"] for row in rows if row["leader"] not in (row["leader_before"], None))
    text = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
    leaders = ", ".join(f"{broker}: {count}" for broker, count in moved.most_common(_MAX_NAMES))
    return f": {text}" + (f"; leaders to {leaders}" if moved else "")


def _format_time(at_ms: int, replay: Replay) -> str:
    if replay.has_clock_times:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
    return f"t={at_ms / 1000:g}s"
