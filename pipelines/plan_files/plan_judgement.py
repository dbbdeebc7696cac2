"""Judge the waves of a plan on a cluster, and say in sentences what is wrong with them, with scenarios to replay."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files.fault_sentences import AT_ONCE, describe_assumption, describe_fault
from pipelines.plan_files.kafka_json import Key, find_irreversible
from pipelines.plan_files.plan_writer import ROLLBACK, name_wave_file, name_waves
from pipelines.plan_files.reassignment_reader import PlannedList, PlanWave
from udfs.arrow.ragged import offsets_of, take_segments
from udfs.failures.disk_limits import compute_excess, compute_room, list_broker_disks
from udfs.failures.replica_logs import sum_logs
from udfs.planning.broker_log_dirs import ANY, ANY_LOG_DIR
from udfs.planning.cluster_model import ClusterModel, Floats, Int32s, Ints
from udfs.planning.constraints import find_rejected_brokers
from udfs.planning.elections import find_in_sync_replicas
from udfs.planning.plan_judge import Judgement, JudgeOptions, judge_steps
from udfs.planning.plan_states import NO_BROKER, RESTORED, FaultRows, PlanFault, PlanLevel, StepLists, find_worst
from udfs.planning.planned_waves import PlannedWaves
from udfs.planning.waves import find_reassigned_partitions
from udfs.wording import format_bytes, join_names

_LISTED = 5  # partitions by name


@dataclass(frozen=True)
class PlanFinding:
    """A fault of a plan, wherever it is."""

    level: PlanLevel
    fault: PlanFault
    text: str
    partitions: int  # that have it; 0 = it is about brokers
    first_partitions: tuple[str, ...]
    wave: int  # the first in which it is, from 1; 0 = all together
    brokers: tuple[int, ...]  # that it is about
    scenario: tuple[str, ...]  # lines of a scenario for `replay SOURCE SCENARIO` that shows it; empty = none does


@dataclass(frozen=True)
class JudgedWave:
    """What a wave does, and the cluster after it."""

    wave: int  # from 1
    file: str
    partitions: int
    replicas_added: int
    bytes_to_copy: int | None  # None = no size is known
    slowest_broker: int | None
    slowest_broker_bytes: int | None
    seconds: float | None  # of its slowest broker, at the throttle
    under_replicated_partitions: int
    under_min_isr_partitions: int
    one_in_sync_partitions: int
    blocked_if_a_broker_fails: (
        int  # partitions offline or below min.insync.replicas after the worst failure of a broker
    )
    max_leaders_ratio: float | None  # leaders of the broker that leads most over the mean
    fullest_disk_bytes: int | None  # that a broker holds at most, while replicas are copied
    rollback_replicas: int  # to copy if the plan is rolled back after this wave
    rollback_bytes: int | None

    @property
    def rollback(self) -> str:
        """What is to be copied if the plan is rolled back after this wave."""
        size = "" if self.rollback_bytes is None else f", {format_bytes(self.rollback_bytes)}"
        return f"{self.rollback_replicas:,}{size}"


@dataclass(frozen=True)
class PlanJudgement:
    """The verdict on a plan."""

    level: PlanLevel
    findings: tuple[PlanFinding, ...]  # the worst first
    waves: tuple[JudgedWave, ...]
    now: Mapping[str, int]  # counts of partitions before the plan, by their name in JudgedWave
    throttle_bytes_per_s: float  # of times
    baseline: str = "now"  # when the cluster is as the one that the states are compared with
    notes: tuple[str, ...] = ()  # what the verdict assumes, and what the plan waits for

    @property
    def moment(self) -> str:
        """The moment of the baseline in a word, as in headings of columns."""
        return "now" if self.baseline == "now" else "before"


@dataclass(frozen=True)
class _Steps:
    """The steps that a cluster model can carry out, as udfs.planning.plan_states takes them."""

    wave: Int32s
    row: Ints
    offsets: Ints
    replicas: Int32s
    waves: int
    log_dirs: Int32s | None = None


class ReadSteps(NamedTuple):
    """The steps of files, and what is wrong with the others."""

    steps: StepLists
    findings: list[PlanFinding]


def judge_waves(
    waves: Sequence[PlanWave], model: ClusterModel, options: JudgeOptions, incomplete: Iterable[str] = ()
) -> PlanJudgement:
    """Judge the waves of a plan. incomplete: topics of which sources may not show every partition."""
    read = read_steps(waves, model, incomplete)
    return _describe_judgement(model, read.steps, options, [wave.name for wave in waves], read.findings)


def read_steps(waves: Sequence[PlanWave], model: ClusterModel, incomplete: Iterable[str] = ()) -> ReadSteps:
    """Return the lists of waves as steps of a model, but for those that Kafka rejects in any state of the cluster."""
    reader = _StepReader(model, frozenset(incomplete))
    return ReadSteps(reader.read(waves), list(reader.findings))


def judge_planned_waves(execution: PlannedWaves, options: JudgeOptions) -> PlanJudgement:
    """Judge the waves of a plan that was made here."""
    names = map(name_wave_file, name_waves(execution.waves.waves))
    return _describe_judgement(execution.model, execution.waves, options, list(names), [])


def judge_rollback(execution: PlannedWaves, options: JudgeOptions) -> PlanJudgement:
    """Judge the rollback of a whole plan that was made here, once it is complete, as one wave.

    It restores what was before, so that only the way there counts: copies, and what Kafka waits for.
    """
    model, proposal = execution.model, execution.proposal
    after = model.with_lists(proposal.offsets, proposal.replicas)
    after = replace(after, in_sync=find_in_sync_replicas(model, proposal))
    rows = np.setdiff1d(np.flatnonzero(find_reassigned_partitions(model, proposal)), find_irreversible(model, proposal))
    replicas, offsets = take_segments(model.source_order, model.offsets, rows)
    steps = _Steps(np.zeros(len(rows), dtype=np.int32), rows, offsets, replicas, int(len(rows) > 0))
    judged = _describe_judgement(
        after, steps, replace(options, disk_room=None, disk_free=None), [ROLLBACK] * steps.waves, []
    )
    findings = tuple(one for one in judged.findings if one.fault not in RESTORED)
    return replace(judged, level=find_worst(one.level for one in findings), findings=findings)


def _describe_judgement(
    model: ClusterModel, steps: StepLists, options: JudgeOptions, names: Sequence[str], findings: list[PlanFinding]
) -> PlanJudgement:
    """Judge steps, and describe what is wrong with them. findings: those that Kafka rejects whatever the state is."""
    judged = judge_steps(model, steps, options)
    findings += [_describe_rows(model, steps, rows, options) for rows in judged.faults]
    findings.sort(key=lambda one: one.fault.rank)
    level = find_worst(one.level for one in findings)
    counts = ("under_replicated", "under_min_isr", "one_in_sync")
    now = {f"{name}_partitions": int(getattr(judged.waves, name)[0]) for name in counts}
    now["blocked_if_a_broker_fails"] = int(judged.waves.blocked_by_broker[0])
    listed = tuple(_list_waves(names, model, judged, options))
    notes = tuple(describe_assumption(model.assumed_release))
    return PlanJudgement(level, tuple(findings), listed, now, options.throttle_bytes_per_s, notes=notes)


def describe_baseline(preceding_plans: Sequence[Path]) -> str:
    """Describe when the cluster is as plans (folders) leave it."""
    plans = "plan" if len(preceding_plans) == 1 else "plans"
    return f"after the {plans} in {join_names(preceding_plans)}" if preceding_plans else "now"


def join_judgements(judged: Sequence[tuple[str, PlanJudgement]]) -> PlanJudgement:
    """Join the verdicts on plans, by name, each compared with the cluster as those before it leave it."""
    first = judged[0][1]
    if len(judged) == 1:
        return first
    findings, waves = list[PlanFinding](), list[JudgedWave]()
    for name, one in judged:
        begin = len(waves)
        waves += (replace(wave, wave=begin + wave.wave) for wave in one.waves)
        own = ((finding, begin + finding.wave if finding.wave else 0) for finding in one.findings)
        findings += (replace(finding, wave=wave, text=f"{name}: {finding.text}") for finding, wave in own)
    findings.sort(key=lambda one: one.fault.rank)
    level, notes = find_worst(one.level for one in findings), (note for _, one in judged for note in one.notes)
    joined = PlanJudgement(level, tuple(findings), tuple(waves), first.now, first.throttle_bytes_per_s)
    return replace(joined, baseline="before its plan", notes=tuple(dict.fromkeys(notes)))


def measure_disk_room(
    snapshot: Snapshot, model: ClusterModel, max_disk_ratio: float, broker_bytes: float
) -> tuple[Floats, Floats, Floats]:
    """Measure by how many bytes the logs of each broker may grow, and until its disks are full: float64 (n).

    The third are the bytes that all its disks together hold above max_disk_ratio of them. NaN = unknown.
    snapshot: with the disks that a file has, as add_disk_capacities returns it.
    """
    sums = sum_logs(snapshot.partitions, snapshot.stray_logs, snapshot.brokers)
    ids = model.broker_ids.tolist()
    disks = list_broker_disks(sums, snapshot.log_dirs, ids, snapshot.disk_capacities, broker_bytes)
    room, free, excess = np.full((3, len(ids)), np.nan)
    for broker, id_ in enumerate(ids):
        if disks[id_] and all(one.is_known for one in disks[id_]):
            total, left = np.array([(one.total_bytes, one.free_bytes) for one in disks[id_]], dtype=np.float64).T
            room[broker], free[broker] = (compute_room(total, left, ratio).sum() for ratio in (max_disk_ratio, 1.0))
            excess[broker] = compute_excess(total.sum(), left.sum(), max_disk_ratio)
    return room, free, excess


class _StepReader:
    """Turns the lists of files into steps of a cluster model, and finds those that Kafka rejects as they are."""

    def __init__(self, model: ClusterModel, incomplete: frozenset[str]) -> None:
        self._model, self._incomplete = model, incomplete
        names = zip(model.topic.tolist(), model.partition.tolist(), strict=True)
        self._rows = {(model.topic_names[topic], partition): row for row, (topic, partition) in enumerate(names)}
        self._brokers = {id_: index for index, id_ in enumerate(model.broker_ids.tolist())}
        self._lost = set(zip(model.row[model.in_failed_dir], model.replicas[model.in_failed_dir], strict=True))
        self._log_dirs: dict[tuple[int, str], int] = {}  # those that are online, by broker and path
        if (dirs := model.log_dirs) is not None:
            places = zip(dirs.broker.tolist(), dirs.paths, strict=True)
            self._log_dirs = {place: i for i, place in enumerate(places) if dirs.online[i]}
        self._with_log_dirs = {broker for broker, _ in self._log_dirs}
        self._faults: dict[PlanFault, list[tuple[PlannedList, int, int | None]]] = {}

    def read(self, waves: Sequence[PlanWave]) -> _Steps:
        """Return the steps whose lists Kafka would accept, if their brokers were live."""
        steps: list[tuple[int, int, list[int]]] = []
        log_dirs: list[int] = []
        for number, wave in enumerate(waves):
            seen: set[Key] = set()
            for planned in wave.lists:
                key = (planned.topic, planned.partition)
                fault, broker = self._find_fault(planned, seen)
                seen.add(key)
                if fault is None:
                    brokers = [self._brokers[id_] for id_ in planned.replicas]
                    steps.append((number, self._rows[key], brokers))
                    places = zip(brokers, planned.log_dirs or [ANY_LOG_DIR] * len(brokers), strict=True)
                    log_dirs += [self._log_dirs.get(place, ANY) for place in places]
                else:
                    self._faults.setdefault(fault, []).append((planned, number + 1, broker))
        return _Steps(
            np.array([step[0] for step in steps], dtype=np.int32),
            np.array([step[1] for step in steps], dtype=np.int64),
            offsets_of(np.array([len(step[2]) for step in steps], dtype=np.int64)),
            np.array([broker for step in steps for broker in step[2]], dtype=np.int32),
            len(waves),
            np.array(log_dirs, dtype=np.int32),
        )

    def _find_fault(self, planned: PlannedList, seen: set[Key]) -> tuple[PlanFault | None, int | None]:
        key, replicas = (planned.topic, planned.partition), planned.replicas
        if key in seen:
            return PlanFault.REPEATED_PARTITION, None
        if key not in self._rows:
            is_unshown = planned.topic in self._incomplete
            return PlanFault.UNSHOWN_PARTITION if is_unshown else PlanFault.UNKNOWN_PARTITION, None
        if not replicas:
            return PlanFault.EMPTY_LIST, None
        if len(set(replicas)) < len(replicas):
            return PlanFault.REPEATED_REPLICA, next(id_ for id_ in replicas if replicas.count(id_) > 1)
        if planned.log_dirs is not None and len(planned.log_dirs) != len(replicas):
            return PlanFault.LOG_DIRS_LENGTH, None
        unknown = next((id_ for id_ in replicas if id_ not in self._brokers), None)
        if unknown is not None:
            return PlanFault.UNKNOWN_BROKER, unknown
        places = zip(replicas, planned.log_dirs or (), strict=False)
        faults = ((self._find_dir_fault(key, id_, path), id_) for id_, path in places if path != ANY_LOG_DIR)
        return next((one for one in faults if one[0] is not None), (None, None))

    def _find_dir_fault(self, key: Key, id_: int, path: str) -> PlanFault | None:
        """Find why Kafka puts no replica of a partition into a log dir; None = it does, or the log dir is unknown.

        It takes no cordoned one, not even for a replica that is there already (ReplicaManager.alterReplicaLogDirs).
        """
        broker, dirs = self._brokers[id_], self._model.log_dirs
        log_dir = self._log_dirs.get((broker, path))
        if (broker in self._with_log_dirs and log_dir is None) or (self._rows[key], broker) in self._lost:
            return PlanFault.UNUSABLE_LOG_DIR
        if dirs is None or log_dir is None or dirs.receives[log_dir] or find_rejected_brokers(self._model)[broker]:
            return None
        return PlanFault.CORDONED_LOG_DIR

    @property
    def findings(self) -> Iterator[PlanFinding]:
        """What Kafka rejects, whatever state the cluster is in."""
        for fault, places in self._faults.items():
            names = [f"{planned.topic}-{planned.partition}" for planned, _, _ in places]
            brokers = sorted({broker for _, _, broker in places if broker is not None})
            wave = min(number for _, number, _ in places)
            text = describe_fault(fault, names, wave, brokers)
            yield PlanFinding(fault.level, fault, text, len(names), tuple(names[:_LISTED]), wave, tuple(brokers), ())


def _describe_rows(model: ClusterModel, steps: StepLists, rows: FaultRows, options: JudgeOptions) -> PlanFinding:
    """Describe where a fault is; its scenario is of the first partition."""
    first = int(np.argmin(rows.wave))
    before, after = np.nan_to_num([rows.before[first], rows.after[first]]).tolist()
    values: dict[str, Any] = {"before": before, "after": after}
    values["throttle"] = options.throttle_bytes_per_s
    brokers = model.ids(np.unique(rows.broker[rows.broker != NO_BROKER]))
    if rows.row[first] < 0:
        brokers = model.ids(rows.broker)
        names = []
        if rows.log_dir is not None and model.log_dirs is not None:
            paths = (model.log_dirs.paths[i] for i in rows.log_dir.tolist())
            names = [f"{path} of broker {id_}" for path, id_ in zip(paths, brokers, strict=True)]
        text = describe_fault(rows.fault, names, int(rows.wave[0]), brokers, **values)
        return PlanFinding(rows.fault.level, rows.fault, text, 0, (), int(rows.wave[0]), tuple(brokers), ())
    order = np.argsort(rows.wave, kind="stable")
    names = [model.name(row) for row in rows.row[order[:_LISTED]].tolist()]
    text = describe_fault(rows.fault, names, int(rows.wave[first]), brokers, count=len(rows.row), **values)
    if rows.fault is PlanFault.DROPS_IN_SYNC:
        step = np.flatnonzero((steps.row == rows.row[first]) & (steps.wave == rows.wave[first] - 1))[0]
        text += AT_ONCE if after < np.diff(steps.offsets)[step] else ""
    scenario = tuple(_write_scenario(model, steps, rows, first))
    count = len(rows.row)
    return PlanFinding(
        rows.fault.level, rows.fault, text, count, tuple(names), int(rows.wave[first]), tuple(brokers), scenario
    )


def _write_scenario(model: ClusterModel, steps: StepLists, rows: FaultRows, at: int) -> Iterator[str]:
    """Write a scenario in which the fault of one partition can be seen: its steps until then, and a failure."""
    if rows.fault.level is PlanLevel.REJECTED:
        return
    row, wave = int(rows.row[at]), int(rows.wave[at])
    own_steps = np.flatnonzero((steps.row == row) & (steps.wave < wave))
    own = slice(*model.offsets[row : row + 2].tolist())
    before = model.replicas[own].tolist()
    isr = [b for b, synced in zip(before, model.is_in_sync[own].tolist(), strict=True) if synced]
    dropped: list[int] = []
    name, seconds = model.name(row), 0
    yield "events:"
    for step in own_steps[np.argsort(steps.wave[own_steps])].tolist():
        after = steps.replicas[steps.offsets[step] : steps.offsets[step + 1]].tolist()
        copied = [b for b in after if b not in before and model.live[b] and isr]
        dropped = [b for b in isr if b not in after]
        seconds += 10
        yield f"  - t={seconds} reassign {name} to {_join(model, after)}"
        if rows.fault is PlanFault.BLOCKED_WHILE_COPYING and steps.wave[step] == wave - 1:
            yield f"  - t={seconds + 1} produce 1 to {name} acks=all timeout=5s"
        isr = [*isr, *copied]
        if copied:
            yield f"  - t={seconds + 8} isr {name} {_join(model, isr)}"
        before, isr = after, [b for b in isr if b in after]
    failed = _choose_failure(model, rows, at, isr, dropped)
    if failed:
        yield f"  - t={seconds + 10} brokers {_join(model, failed)} down"
    yield f"  - t={seconds + 20} produce 1 to {name} acks=all timeout=5s"
    yield f"  - t={seconds + 30} followers fetch {name}"


def _choose_failure(model: ClusterModel, rows: FaultRows, at: int, isr: list[int], dropped: list[int]) -> list[int]:
    """Choose the brokers (indices) whose failure shows the fault of a partition; none if it shows without."""
    if rows.fault in (PlanFault.LAST_COPY, PlanFault.DROPS_IN_SYNC):
        return dropped[:1]
    of_racks = (PlanFault.RACK_TAKES_OFFLINE, PlanFault.RACK_BLOCKS, PlanFault.FEWER_RACKS, PlanFault.LAGGING_RACK)
    if rows.fault in of_racks:
        racks = model.rack[np.array(isr, dtype=np.int64)]
        return np.flatnonzero(model.live & (model.rack == np.bincount(racks).argmax())).tolist() if isr else []
    if rows.fault in (PlanFault.BROKER_TAKES_OFFLINE, PlanFault.BROKER_BLOCKS):
        return [int(rows.broker[at])]
    return []


def _join(model: ClusterModel, brokers: Sequence[int]) -> str:
    return ",".join(map(str, model.ids(brokers)))


def _list_waves(
    names: Sequence[str], model: ClusterModel, judged: Judgement, options: JudgeOptions
) -> Iterator[JudgedWave]:
    facts, has_sizes = judged.waves, model.known[0]
    stays = max(int(options.find_staying(model).sum()), 1)
    for i, name in enumerate(names):
        slowest, leaders = int(facts.slowest_broker[i]), facts.leaders[i + 1]
        copied = has_sizes and facts.slowest_bytes[i] > 0
        seconds = round(float(facts.slowest_bytes[i]) / options.throttle_bytes_per_s, 1)
        yield JudgedWave(
            i + 1,
            name,
            int(facts.partitions[i]),
            int(facts.copies[i]),
            round(float(facts.received[i].sum())) if has_sizes else None,
            int(model.broker_ids[slowest]) if copied else None,
            round(float(facts.slowest_bytes[i])) if has_sizes else None,
            seconds if has_sizes else None,
            int(facts.under_replicated[i + 1]),
            int(facts.under_min_isr[i + 1]),
            int(facts.one_in_sync[i + 1]),
            int(facts.blocked_by_broker[i + 1]),
            round(float(leaders.max(initial=0) * stays / leaders.sum()), 3) if leaders.sum() else None,
            round(float(facts.peak_bytes[i].max(initial=0))) if has_sizes else None,
            int(facts.rollback_copies[i + 1]),
            round(float(facts.rollback_bytes[i + 1])) if has_sizes else None,
        )
