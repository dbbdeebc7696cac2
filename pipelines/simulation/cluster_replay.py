"""Replay what happens to a cluster over time: from a metadata log, from snapshots, or from a scenario."""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from pipelines.errors import SettingsError, SourceError
from pipelines.ingest.merge.shard_facts import KRAFT_LOG
from pipelines.ingest.snapshot_reader import build_snapshot, parse_facts, read_files
from pipelines.ingest.sources import SnapshotKey, compute_snapshot_id, find_source
from pipelines.simulation import source_snapshots
from pipelines.simulation.metadata_log_reader import read_log_events
from pipelines.simulation.scenario.scenario_cluster import parse_milliseconds
from pipelines.simulation.scenario.scenario_reader import is_scenario, read_scenario
from pipelines.simulation.snapshot_sequence import check_order, derive_events
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, TopicDefaults
from udfs.simulation import result_tables
from udfs.simulation.cluster_events import ClusterSettings, Event, InitialState, QuorumElections, build_event_log
from udfs.simulation.controller import list_controller_steps
from udfs.simulation.controller.step_writer import ControllerStep
from udfs.simulation.group_events import GroupEvent
from udfs.simulation.group_simulation import (
    GroupSimulation,
    list_group_requests,
    list_group_transitions,
    simulate_groups,
)
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.result_tables import Row
from udfs.simulation.simulator import Simulation, simulate_log
from udfs.wording import count_of, join_names, quote_value


@dataclass(frozen=True)
class ReplayEnd:
    """Where a replay ends: after an offset, or at a time, ms; since_start: of a scenario, from its start."""

    offset: int | None = None
    at_ms: int | None = None
    since_start: bool = False

    def includes(self, event: Event) -> bool:
        """Return whether an event still happens."""
        return event.offset <= self.offset if self.offset is not None else event.at_ms <= (self.at_ms or 0)


@dataclass(frozen=True)
class ReplayRequest:
    """What to replay."""

    sources: Sequence[str]  # A log, snapshots, a scenario
    fail: Sequence[int] = ()  # Brokers that fail, one after another
    # Last offset of a log (or number of a snapshot or sentence) that counts, or the time until which time goes on
    until: ReplayEnd | None = None
    defaults: TopicDefaults = KAFKA_DEFAULTS  # of what no source shows
    format_name: str | None = None  # Format of all files; None = detect it


@dataclass(frozen=True)
class Replay:
    """A finished replay."""

    initial_state: InitialState  # The cluster before the first event
    events: tuple[Event, ...]  # in their order
    log: pa.Table  # Their rows (schema EVENTS)
    simulation: Simulation
    groups: GroupSimulation
    has_clock_times: bool  # Whether at_ms is a clock's time, ms since 1970; else it counts from the start
    warnings: tuple[str, ...] = ()  # What of the sources was not replayed

    @property
    def snapshot_key(self) -> SnapshotKey:
        """The key of the replay's rows in every table."""
        return SnapshotKey(self.log["cluster_id"][0].as_py(), self.log["snapshot_id"][0].as_py())


@dataclass(frozen=True)
class ReplayAnswer(result_tables.FinalState):
    """What `replay --json` writes: the final state, and how it came about."""

    leadership_events: list[Row]
    state_transitions: list[Row]
    controller_steps: list[ControllerStep]
    replication_health: list[Row]
    requests: list[Row]
    group_requests: list[Row]
    group_transitions: list[Row]


def parse_until(text: str | None) -> ReplayEnd | None:
    """Parse `--until`: an offset, or a time; raise SettingsError if it is neither."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 19:
        return ReplayEnd(offset=int(text))
    if text.startswith("t=") and (since := parse_milliseconds(text[2:])) is not None:
        return ReplayEnd(at_ms=since, since_start=True)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        remedy = "Write an offset, as in 1500, a log's time, as in 2026-11-22T10:00:00Z, or a scenario's, as in t=90s"
        raise SettingsError(f"--until {quote_value(text)}: neither an offset nor a time. {remedy}") from None
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    return ReplayEnd(at_ms=round(when.timestamp() * 1000))


def run_replay(request: ReplayRequest) -> Replay:
    """Replay the sources of a request; raise SourceError or SettingsError if that is impossible."""
    scenarios = [path for path in request.sources if is_scenario(path)]
    if len(scenarios) > 1:
        raise SourceError(scenarios[1], "is a second scenario", "Give only one, with or without a source.")
    others = [path for path in request.sources if path not in scenarios]
    observed = _read_sources(request, others, bool(scenarios or request.fail))
    state, events, until = observed.initial_state, list(observed.events), observed.until
    group_events: Sequence[GroupEvent] = ()
    followed: list[Event] = []
    if scenarios:
        until_ms = until.at_ms if until and until.since_start else None
        scenario = read_scenario(scenarios[0], observed.final_state, until_ms)
        settings = scenario.settings
        if scenario.initial_state is not None:
            state = scenario.initial_state
            settings = {"completes_with_added": request.defaults.completes_with_added, **settings}
        assert state is not None
        state = replace(state, settings=replace(state.settings, **settings))
        followed, group_events = list(scenario.events), scenario.group_events
    assert state is not None
    followed += _fail_brokers(request, state, [*events, *followed])
    elections = QuorumElections(observed.final_state or state)
    events += elections.elect(followed)
    end_at = until.at_ms if until else None
    if until:
        events = [event for event in events if until.includes(event)]
        group_events = [event for event in group_events if end_at is None or event.at_ms <= end_at]
    warnings = (*observed.warnings, *_warn_of_unknown_stops(request, state, events), *elections.describe_unanswered())
    log = build_event_log(state, events, end_at, *_make_key(request))
    finished = simulate_log(log), simulate_groups(group_events, end_at=end_at)
    return Replay(state, tuple(events), log, *finished, observed.has_clock_times, warnings)


def build_answer(replay: Replay) -> ReplayAnswer:
    """Build what `replay --json` writes."""
    simulation, groups = replay.simulation, replay.groups
    return ReplayAnswer(
        **vars(result_tables.get_final_state(simulation)),
        leadership_events=result_tables.list_leaderships(simulation),
        state_transitions=result_tables.list_transitions(simulation),
        controller_steps=list_controller_steps(simulation),
        replication_health=result_tables.list_health(simulation),
        requests=result_tables.list_requests(simulation),
        group_requests=list_group_requests(groups),
        group_transitions=list_group_transitions(groups),
    )


def write_event_log(log: pa.Table, file: Path) -> None:
    """Write an event log (schema EVENTS) to a file, a JSON object per line; `-` prints it."""
    with nullcontext(sys.stdout) if str(file) == "-" else file.open("w", encoding="utf-8") as out:
        for row in log.to_pylist():
            out.write(json.dumps({name: value for name, value in row.items() if value is not None}) + "\n")


def _fail_brokers(request: ReplayRequest, state: InitialState, events: Sequence[Event]) -> list[Event]:
    """Return the failures of a request, after the other events."""
    twice = [broker for broker, count in Counter(request.fail).items() if count > 1]
    if twice:
        raise SettingsError(f"--fail names broker {twice[0]} twice. Name distinct brokers")
    known = {*state.brokers, *state.quorum.voters, *(event.broker for event in events)}
    at = events[-1].at_ms if events else 0
    for broker in request.fail:
        if broker not in known:
            ids = ", ".join(map(str, state.brokers))
            raise SourceError(request.sources[0], f"has no broker {broker}", f"Its brokers: {ids}.")
    return [Event(at, EventKind.BROKER_DOWN, broker, offset=number) for number, broker in enumerate(request.fail)]


def _warn_of_unknown_stops(request: ReplayRequest, state: InitialState, events: Sequence[Event]) -> Iterator[str]:
    """Yield a warning if it matters how brokers stopped that a source shows as down, and that return."""
    ups = {event.broker for event in events if event.kind == EventKind.BROKER_UP and not event.value}
    unknown = ups - state.live - state.shut_down
    leaderless = (one for one in state.partitions if one.leader is None and one.elr != one.last_known)
    partitions = [one for one in leaderless if not unknown.isdisjoint(one.elr)]
    if partitions and state.settings.elr:
        brokers = sorted({broker for one in partitions for broker in one.elr if broker in unknown})
        is_one, count = len(brokers) == 1, count_of(len(partitions), "partition")
        names = f"broker{'' if is_one else 's'} {join_names(brokers)}"
        effect = f"{'it counts' if is_one else 'they count'} as crashed, and may not lead {count} from the ELR"
        remedy = "If the stop was clean, write unfenced instead of up"
        yield f"{request.sources[0]}: does not show how {names} stopped: {effect}. {remedy}"


def _make_key(request: ReplayRequest) -> tuple[str, str]:
    """Return (cluster_id: name of the first source, snapshot_id: a hash of the request and its sources)."""
    sources = [find_source(path) for path in request.sources]
    end, defaults = request.until, request.defaults
    # The same replay keeps its snapshot_id: its text must not change.
    until = end and f"Until(offset={end.offset}, at_ms={end.at_ms}, since_begin={end.since_start})"
    configs = f"{defaults.min_insync_replicas!r}, {defaults.unclean_leader_election!r}"
    digest = hashlib.sha256(f"({request.fail!r}, {until}, {configs})".encode())
    if not defaults.completes_with_added:
        digest.update(b"completes with all")
    for source in sources:
        digest.update(compute_snapshot_id(source, request.format_name).encode())
    return sources[0].cluster_id, digest.hexdigest()[:16]


class _Observed(NamedTuple):
    """What logs and snapshots show."""

    initial_state: InitialState | None  # State before the events; None = there are no logs or snapshots
    events: Sequence[Event] = ()
    has_clock_times: bool = False
    until: ReplayEnd | None = None  # Where the events that follow end
    warnings: tuple[str, ...] = ()
    final_state: InitialState | None = None  # State after the events


def _read_sources(request: ReplayRequest, paths: Sequence[str], is_followed: bool) -> _Observed:
    """Read logs and snapshots. is_followed: whether a scenario or failures follow them."""
    until = request.until
    if not paths:
        if until and until.offset is None and not until.since_start:
            problem = "is a scenario: its times count from its start"
            raise SourceError(request.sources[0], problem, "Write --until with a time as in t=90s.")
        return _Observed(None, until=until)
    first, *others = [find_source(path) for path in paths]
    files = list(read_files(first, request.format_name))
    ends = source_snapshots.read_log_ends(files)
    if not others and not is_followed:
        if until and until.since_start:
            problem = "is not a scenario: it has times of its own"
            raise SourceError(paths[0], problem, "Write --until with an offset, or a time as in 2026-11-22T10:00:00Z.")
        parts = [part for file in files for part in file.parts]
        if ends and len(ends) == len(parts):
            epoch, events = read_log_events([part.records for part in parts], request.defaults.min_insync_replicas)
            settings = ClusterSettings(kraft=True, auto_leader_rebalance=False)
            snapshot = build_snapshot(first, files, parse_facts(files))
            warnings = source_snapshots.warn_of_gaps(first, ends)
            warnings += source_snapshots.warn_of_quarantined(first, snapshot)
            return _Observed(InitialState(settings=settings, controller_epoch=epoch), events, True, until, warnings)
        if not ends:
            problem = "is one snapshot, in which nothing happens"
            raise SourceError(paths[0], problem, "Add --fail IDS, a scenario, or a later snapshot.")
    if ends and until and not until.since_start:  # the log is cut, not what follows it
        ends = source_snapshots.read_log_ends(files, until.offset, until.at_ms)
        logs = {file.name: ends[file.name].records for file in files if file.name in ends}
        files = [file.replace_part(KRAFT_LOG, logs[file.name]) if file.name in logs else file for file in files]
        until = None
    snapshots: list[source_snapshots.SourceSnapshot] = []
    for path, source in zip(paths, (first, *others), strict=True):
        if source is not first:
            files = list(read_files(source, request.format_name))
            ends = source_snapshots.read_log_ends(files)
        snapshots.append(source_snapshots.read_source_snapshot(path, source, files, ends, request.defaults))
    warnings = (*check_order(snapshots), *(warning for one in snapshots for warning in one.warnings))
    states = [one.state for one in snapshots]
    brokers = tuple(sorted({broker for state in states for broker in state.brokers}))
    initial, final = (replace(state, brokers=brokers) for state in (states[0], states[-1]))
    return _Observed(initial, derive_events(states), False, until, warnings, final)
