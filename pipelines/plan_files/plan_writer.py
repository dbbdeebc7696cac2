"""The folder of a plan: plan.json, with proofs, waves and fingerprints for `check`, and files for Kafka's tools."""

import contextlib
import hashlib
import json
import math
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.errors import SettingsError
from pipelines.plan_files import kafka_json
from pipelines.plan_files.kafka_json import Key, Lists, dump_compact, dump_lines, find_irreversible, get_key
from udfs.arrow.ragged import position_of
from udfs.json_answers import to_json
from udfs.placement.kernels.topic_seeds import mix_bits
from udfs.planning.cluster_model import ClusterModel, Flags, Ints, ProposedAssignment
from udfs.planning.kernels.wave_steps import NOTHING_ADDED
from udfs.planning.later_lists import list_later
from udfs.planning.planned_waves import PlannedWaves, measure_wave_health
from udfs.planning.waves import WaveLimits, find_reassigned_partitions
from udfs.wording import quote_value, shorten_text

Hashes = npt.NDArray[np.uint32]

HEX_DIGITS = 8  # of a partition's hash

KIND = "kafka-placement plan"
VERSION = 1
NO_ROLLBACK = (
    "a replica was on a broker that is down, and Kafka's tool rejects files that name such a broker; or in a failed "
    "log dir, to which nothing comes back"
)
OUT_OF_SYNC = "the preferred leader is out of sync, so its election would fail"
_LISTED = 20  # partitions by name
_DIGITS = 12  # significant digits of a float
_UNLIMITED = (WaveLimits().bytes_in_flight, WaveLimits().moves_per_broker)
PLAN, REASSIGNMENT, ROLLBACK, ELECTION = "plan.json", "reassignment.json", "rollback.json", "election.json"
TOPICS_TO_MOVE, THROTTLES, THROTTLE_SCRIPT = "topics-to-move.json", "throttles.json", "throttles.sh"
OTHER_ELECTIONS = "other-elections.json"  # of partitions whose preferred leader the plan does not change
ROLLBACK_ELECTION = "rollback-election.json"  # of partitions that are led as before the plan again
TICKET = "ticket.md"
_FILES = (
    *(TICKET, REASSIGNMENT, ROLLBACK, ELECTION, OTHER_ELECTIONS, ROLLBACK_ELECTION, TOPICS_TO_MOVE, THROTTLES),
    *(THROTTLE_SCRIPT, PLAN),
)
_RANGES = re.compile(r"[0-9]{1,10}(?:-[0-9]{1,10})?(?:,[0-9]{1,10}(?:-[0-9]{1,10})?)*+")
_WAVE = re.compile(r"wave-[0-9]{2,}\.json")
_REMEDY = "Name a new or empty folder, or one that holds a plan, which is then replaced"


def hash_assignment(model: ClusterModel) -> str:
    """Return the sha256, in hex, of topics, partition ids and replica lists in the source's order."""
    whole = hashlib.sha256("\n".join(model.topic_names).encode())
    for values in (model.topic, model.partition, model.offsets, _list_ids(model)):
        whole.update(b"\0" + values.astype("<i8").tobytes())
    return whole.hexdigest()


def hash_partitions(model: ClusterModel) -> Hashes:
    """Hash each partition's replica list in the source's order: uint32 (p). Equal lists have equal hashes."""
    with np.errstate(over="ignore"):
        place = position_of(model.offsets).astype(np.uint64)
        parts = _mix(_mix(_list_ids(model).astype(np.uint64)) + place)
        total = np.zeros(len(parts) + 1, dtype=np.uint64)
        np.cumsum(parts, out=total[1:])
        return (_mix(total[model.offsets[1:]] - total[model.offsets[:-1]]) >> np.uint64(32)).astype(np.uint32)


def get_rack_names(model: ClusterModel) -> dict[int, str]:
    """Return the racks of brokers whose rack is known; none unless the rack of every live broker is known."""
    ids, racks = model.broker_ids.tolist(), model.rack.tolist()
    return {id_: model.rack_names[rack] for id_, rack in zip(ids, racks, strict=True) if rack < len(model.rack_names)}


def find_topic_ranges(model: ClusterModel) -> list[tuple[str, int, int]]:
    """Return each topic with its first partition's row, and the row after its last."""
    ends = np.searchsorted(model.topic, np.arange(len(model.topic_names) + 1)).tolist()
    return list(zip(model.topic_names, ends[:-1], ends[1:], strict=True))


def fingerprint_topics(model: ClusterModel) -> dict[str, dict[str, str]]:
    """Return {topic: {"partitions": ids as ranges, "hashes": HEX_DIGITS for each, in their order}}."""
    text = hash_partitions(model).astype(">u4").tobytes().hex()
    return {
        topic: {
            "partitions": format_ranges(model.partition[begin:end]),
            "hashes": text[HEX_DIGITS * begin : HEX_DIGITS * end],
        }
        for topic, begin, end in find_topic_ranges(model)
    }


def format_ranges(ids: npt.NDArray[np.integer]) -> str:
    """Format rising ids as ranges: 0-5,7."""
    breaks = np.flatnonzero(np.diff(ids) != 1)
    begins, ends = ids[np.append(0, breaks + 1)].tolist(), ids[np.append(breaks, len(ids) - 1)].tolist()
    return ",".join(f"{begin}-{end}" if end > begin else f"{begin}" for begin, end in zip(begins, ends, strict=True))


def parse_ranges(text: str, count: int) -> Ints:
    """Parse ranges of ids: int64 (count). Raise ValueError if there are more ids, or fewer."""
    if not _RANGES.fullmatch(text):
        raise ValueError(f"{quote_value(text)} are not ranges of ids, as in 0-5,7")
    parts = [part.partition("-") for part in text.split(",")]
    spans = [range(int(begin), int(end or begin) + 1) for begin, _, end in parts]
    if sum(map(len, spans)) != count:
        raise ValueError(f"{shorten_text(text)} is not {count} ids")
    return np.concatenate([np.arange(span.start, span.stop, dtype=np.int64) for span in spans])


def _list_ids(model: ClusterModel) -> Ints:
    return model.broker_ids[model.source_order].astype(np.int64)


def _mix(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply splitmix64's output function."""
    return mix_bits(value + np.uint64(0x9E3779B97F4A7C15))


@dataclass(frozen=True)
class OmittedPartitions:
    """Partitions that a file of the plan leaves out: how many, the first of them, and why."""

    partitions: int
    first_partitions: list[str]
    reason: str | None


def to_plain_json(value: Any) -> Any:
    """Convert an answer to JSON values, with floats rounded to 12 digits, and null for those that are not finite."""
    match to_json(value):
        case float() as number:
            return float(f"{number:.{_DIGITS}g}") if math.isfinite(number) else None
        case dict() as members:
            return {key: to_plain_json(part) for key, part in members.items()}
        case list() as parts:
            return [to_plain_json(part) for part in parts]
        case plain:
            return plain


def name_waves(waves: int) -> list[str]:
    """Return the numbers of waves as files have them: 01, 02, as wide as the last."""
    width = max(2, len(str(waves)))
    return [f"{number:0{width}d}" for number in range(1, waves + 1)]


def name_wave_file(name: str) -> str:
    """Return the file name of a wave."""
    return f"wave-{name}.json"


def _dump_plan(execution: PlannedWaves, facts: Mapping[str, Any], changes: Iterable[Any]) -> str:
    """Write plan.json. facts: the caller's members, such as certificate and metrics."""
    model, proposal, waves = execution.model, execution.proposal, execution.waves
    limits = {key: None if value in _UNLIMITED else value for key, value in asdict(waves.limits).items()}
    first = {"kind": dump_compact(KIND), "version": dump_compact(VERSION)}
    last = {
        "limits": dump_compact(to_plain_json(limits)),
        "oversized_partitions": dump_lines(model.name(row) for row in waves.oversized.tolist()),
        "waves": dump_lines(list_waves(execution)),
        "not_in_rollback": dump_compact(to_json(list_not_in_rollback(model, proposal))),
        "not_elected": dump_compact(to_json(list_not_elected(execution))),
        "assignment_before": _dump_assignment(model),
        "changes": dump_lines(changes),
    }
    if (later := list_later(model, proposal)) is not None:
        lists = zip(later.topics, later.partitions, later.before, later.after, strict=True)
        names = ("topic", "partition", "before", "after")
        last["later"] = dump_lines(dict(zip(names, one, strict=True)) for one in lists)
    if conflicts := sorted(set(facts) & {*first, *last}):
        raise ValueError(f"plan.json has {', '.join(conflicts)} of its own")
    texts = {str(key): json.dumps(to_plain_json(value), indent=1, allow_nan=False) for key, value in facts.items()}
    members = (first | texts | last).items()
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {text}" for key, text in members) + "\n}\n"


def list_waves(execution: PlannedWaves) -> list[dict[str, Any]]:
    """List the waves with their files and the state after them; bytes and seconds are None where no size is known."""
    out, model, health = [], execution.model, measure_wave_health(execution)
    for name, report in zip(name_waves(execution.waves.waves), execution.wave_reports, strict=True):
        members: dict[str, Any] = to_json(report)
        if not model.known[0]:
            members |= dict.fromkeys(("bytes_to_copy", "busiest_bytes", "seconds"))
        can_restart = model.live & (health.blocked_by_restart[report.wave] == 0)
        members |= {
            "under_replicated_partitions": int(health.under_replicated[report.wave]),
            "under_min_isr_partitions": int(health.under_min_isr[report.wave]),
            "at_min_isr_partitions": int(health.at_min_isr[report.wave]),
            "restartable_brokers": model.ids(np.flatnonzero(can_restart)),
        }
        out.append({"wave": members.pop("wave"), "file": name_wave_file(name), **to_plain_json(members)})
    return out


def list_not_in_rollback(model: ClusterModel, proposal: ProposedAssignment) -> OmittedPartitions:
    """List the partitions that rollback.json cannot restore."""
    return _omit(model, find_irreversible(model, proposal), NO_ROLLBACK)


def find_rollback_elections(model: ClusterModel, proposal: ProposedAssignment) -> Flags:
    """Find the partitions (bool, p) whose preferred leader leads now, and is another one in the plan."""
    first, planned = model.source_order[model.offsets[:-1]], proposal.replicas[proposal.offsets[:-1]]
    returning: Flags = find_reassigned_partitions(model, proposal) & (planned != first)
    returning &= model.current_leaders == first
    returning[find_irreversible(model, proposal)] = False
    return returning


def list_not_elected(execution: PlannedWaves) -> OmittedPartitions:
    """List the partitions that election.json leaves out, as their preferred leader is out of sync."""
    return _omit(execution.model, np.flatnonzero(execution.elections.out_of_sync), OUT_OF_SYNC)


def _omit(model: ClusterModel, rows: Ints, reason: str) -> OmittedPartitions:
    names = [model.name(row) for row in rows[:_LISTED].tolist()]
    return OmittedPartitions(len(rows), names, reason if len(rows) else None)


def _dump_assignment(model: ClusterModel) -> str:
    topics = ",\n".join(
        f"{json.dumps(topic)}:{dump_compact(short)}" for topic, short in fingerprint_topics(model).items()
    )
    racks: dict[str, list[int]] = {}
    for id_, rack in get_rack_names(model).items():
        racks.setdefault(rack, []).append(id_)
    members = {
        "sha256": hash_assignment(model),
        "cluster": model.cluster_id,
        "live_brokers": model.broker_ids[model.live].tolist(),
        "down_brokers": model.broker_ids[~model.live].tolist(),
        "draining_brokers": model.broker_ids[model.draining].tolist(),
        "racks": racks,
    }
    return f'{dump_compact(members)[:-1]},\n"topics":{{\n{topics}\n}}}}'


def _list_changes(
    execution: PlannedWaves, lists: kafka_json.PlannedLists, by_wave: list[Lists]
) -> Iterator[dict[str, Any]]:
    model, proposal, waves = execution.model, execution.proposal, execution.waves
    steps: dict[Key, list[dict[str, Any]]] = {key: [] for key in lists.after}
    for number, of_wave in enumerate(by_wave, 1):
        for key, replicas in of_wave.items():
            steps[key].append({"wave": number, "replicas": replicas})
    added = np.bincount(waves.row[waves.added != NOTHING_ADDED], minlength=model.partitions)
    copied = np.round(model.size * added).astype(np.int64).tolist()
    for row, key in zip(lists.rows, lists.after, strict=True):
        log_dirs = {"log_dirs_before": lists.log_dirs_before.get(key), "log_dirs": lists.log_dirs.get(key)}
        yield {
            "topic": key[0],
            "partition": key[1],
            "before": lists.before[key],
            "after": lists.after[key],
            "bytes_to_copy": copied[row] if model.known[0] else None,
            **(log_dirs if key in lists.log_dirs else {}),
            "steps": steps[key],
            "reason": proposal.reasons[proposal.reason[row]] if proposal.reason[row] >= 0 else "",
        }


def build_files(execution: PlannedWaves, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return a plan's files by name, the same for the same plan. facts: members of plan.json, such as metrics."""
    model, proposal, waves = execution.model, execution.proposal, execution.waves
    planned = kafka_json.get_planned_lists(model, proposal)
    before, after = planned.before, planned.after
    by_wave = [kafka_json.get_wave_lists(model, waves, wave) for wave in range(waves.waves)]
    names = name_waves(waves.waves)
    irreversible = {get_key(model, row) for row in find_irreversible(model, proposal).tolist()}
    down = set(model.broker_ids[~model.live].tolist())
    rate = max(1, int(waves.limits.throttle_bytes_per_s))
    elections, returning = execution.elections, find_rollback_elections(model, proposal)
    whole = kafka_json.compute_throttle(before, after, down)
    throttles, now = [], dict(before)
    for lists in by_wave:
        throttles.append(kafka_json.compute_throttle(now, lists, down))
        now |= lists
    dump, log_dirs = kafka_json.dump_reassignment, planned.log_dirs
    return {
        REASSIGNMENT: dump(after, log_dirs),
        **{name_wave_file(name): dump(lists, log_dirs) for name, lists in zip(names, by_wave, strict=True)},
        ROLLBACK: dump({key: ids for key, ids in before.items() if key not in irreversible}, planned.log_dirs_before),
        ELECTION: _dump_election(model, elections.elected),
        **({OTHER_ELECTIONS: _dump_election(model, elections.others)} if elections.others.any() else {}),
        **({ROLLBACK_ELECTION: _dump_election(model, returning)} if returning.any() else {}),
        TOPICS_TO_MOVE: kafka_json.dump_topics_to_move(topic for topic, _ in after),
        THROTTLES: kafka_json.dump_throttles(rate, whole, throttles),
        THROTTLE_SCRIPT: kafka_json.dump_throttle_script(rate, whole, list(zip(names, throttles, strict=True))),
        PLAN: _dump_plan(execution, facts, _list_changes(execution, planned, by_wave)),
    }


def _dump_election(model: ClusterModel, elected: Flags) -> str:
    return kafka_json.dump_election(get_key(model, row) for row in np.flatnonzero(elected).tolist())


def write_plan(directory: Path, execution: PlannedWaves, facts: Mapping[str, Any]) -> list[Path]:
    """Write a plan to a folder, new, empty or a plan's; return the files. Raise SettingsError if that is impossible."""
    folder = directory.resolve()
    check_plan_folder(folder)
    texts = build_files(execution, facts)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            new.mkdir()
            for name, text in texts.items():
                (new / name).write_text(text, encoding="utf-8", newline="\n")
            _replace(folder, new, old)
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise SettingsError(f"--out {directory}: {problem}. Name another folder") from error
    return [directory / name for name in texts]


def check_plan_folder(folder: Path) -> None:
    """Check that a folder is new, empty or a plan's; raise SettingsError if not."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SettingsError(f"{folder} is not a folder. {_REMEDY}")
    names = sorted(path.name for path in folder.iterdir())
    foreign = [name for name in names if name not in _FILES and not _WAVE.fullmatch(name)]
    if foreign:
        raise SettingsError(f"{folder} holds {foreign[0]}, which is not a file of a plan. {_REMEDY}")
    document = None
    with contextlib.suppress(OSError, ValueError, RecursionError):
        document = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    if names and not (isinstance(document, dict) and document.get("kind") == KIND):
        raise SettingsError(f"{folder} holds {names[0]}, but no {PLAN} of this program. {_REMEDY}")


def _replace(folder: Path, new: Path, old: Path) -> None:
    """Put `new` in the folder's place, or leave everything as it was."""
    with contextlib.suppress(FileNotFoundError):
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
