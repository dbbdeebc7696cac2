"""plan.json: what a plan proves, its waves, and the fingerprints by which a check finds whether it still fits."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from pipelines.plan_files.fingerprints import fingerprint_topics, get_rack_names, hash_assignment
from pipelines.plan_files.kafka_json import (
    Key,
    Lists,
    dump_compact,
    dump_lines,
    find_irreversible,
    get_key,
    get_proposed_lists,
    get_source_lists,
)
from udfs.json_output import json_key, json_object, to_json
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.kernels.wave_steps import NOTHING_ADDED
from udfs.planning.waves import WaveLimits, Waves, find_reassigned_partitions, report_waves

KIND = "kafka-placement plan"
VERSION = 1
RESERVED_KEYS = (
    *("kind", "version", "limits", "oversized_partitions", "waves"),
    *("not_in_rollback", "assignment_before", "changes"),
)
NO_ROLLBACK = "a replica was on a broker that is down, and Kafka's tool rejects files that name such a broker"

_LISTED = 20  # partitions by name
_DIGITS = 12  # significant digits of a float
_UNLIMITED = (WaveLimits().bytes_in_flight, WaveLimits().moves_per_broker)


@json_object
class NotInRollback:
    """Partitions that the plan sets and rollback.json cannot restore: how many, the first of them, and why."""

    partitions: int
    first_partitions: list[str] = json_key("first")
    reason: str | None = json_key("why")


def to_plain_json(value: Any) -> Any:
    """Convert an answer to JSON values, with floats rounded to 12 digits, and null for those that are not finite."""
    return _round_floats(to_json(value))


def _round_floats(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
        case dict():
            return {key: _round_floats(part) for key, part in value.items()}
        case list():
            return [_round_floats(part) for part in value]
    return value


def name_waves(waves: int) -> list[str]:
    """Return the numbers of waves as files have them: 01, 02, as wide as the last."""
    width = max(2, len(str(waves)))
    return [f"{number:0{width}d}" for number in range(1, waves + 1)]


def name_wave_file(name: str) -> str:
    """Return the file name of a wave."""
    return f"wave-{name}.json"


def dump_plan(
    model: ClusterModel, proposal: ProposedAssignment, waves: Waves, facts: Mapping[str, Any], by_wave: Sequence[Lists]
) -> str:
    """Write plan.json.

    Args:
        model: The cluster.
        proposal: The plan.
        waves: Its waves.
        facts: The caller's members, such as certificate and metrics. RESERVED_KEYS follow them.
        by_wave: The lists that each wave sets.
    """
    conflicts = sorted(set(facts) & set(RESERVED_KEYS))
    if conflicts:
        raise ValueError(f"plan.json has {', '.join(conflicts)} of its own")
    members = {"kind": dump_compact(KIND), "version": dump_compact(VERSION)}
    members |= {str(key): json.dumps(to_plain_json(value), indent=1, allow_nan=False) for key, value in facts.items()}
    limits = {key: None if value in _UNLIMITED else value for key, value in asdict(waves.limits).items()}
    members["limits"] = dump_compact(to_plain_json(limits))
    members["oversized_partitions"] = dump_lines(model.name(row) for row in waves.oversized.tolist())
    members["waves"] = dump_lines(list_waves(model, waves))
    members["not_in_rollback"] = dump_compact(to_json(list_not_in_rollback(model, proposal)))
    members["assignment_before"] = _dump_assignment(model)
    members["changes"] = dump_lines(_list_changes(model, proposal, waves, by_wave))
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {text}" for key, text in members.items()) + "\n}\n"


def list_waves(model: ClusterModel, waves: Waves) -> list[dict[str, Any]]:
    """List the waves with their files; bytes and seconds are None where no size is known."""
    out = []
    for name, report in zip(name_waves(waves.waves), report_waves(model, waves), strict=True):
        members = asdict(report)
        if not model.known[0]:
            members |= dict.fromkeys(("bytes_to_copy", "busiest_bytes", "seconds"))
        out.append({"wave": members.pop("wave"), "file": name_wave_file(name), **to_plain_json(members)})
    return out


def list_not_in_rollback(model: ClusterModel, proposal: ProposedAssignment) -> NotInRollback:
    """List the partitions that rollback.json cannot restore."""
    rows = find_irreversible(model, proposal).tolist()
    return NotInRollback(len(rows), [model.name(row) for row in rows[:_LISTED]], NO_ROLLBACK if rows else None)


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
        "living_brokers": model.broker_ids[model.live].tolist(),
        "dead_brokers": model.broker_ids[~model.live].tolist(),
        "draining_brokers": model.broker_ids[model.draining].tolist(),
        "racks": racks,
    }
    return f'{dump_compact(members)[:-1]},\n"topics":{{\n{topics}\n}}}}'


def _list_changes(
    model: ClusterModel, proposal: ProposedAssignment, waves: Waves, by_wave: Sequence[Lists]
) -> list[dict[str, Any]]:
    rows = np.flatnonzero(find_reassigned_partitions(model, proposal)).tolist()
    before, after = get_source_lists(model, rows), get_proposed_lists(model, proposal, rows)
    steps: dict[Key, list[dict[str, Any]]] = {key: [] for key in after}
    for number, lists in enumerate(by_wave, 1):
        for key, replicas in lists.items():
            steps[key].append({"wave": number, "replicas": replicas})
    added = np.bincount(waves.row[waves.added != NOTHING_ADDED], minlength=model.partitions)
    copied = np.round(model.size * added).astype(np.int64).tolist()
    return [
        {
            "topic": key[0],
            "partition": key[1],
            "before": before[key],
            "after": after[key],
            "bytes_to_copy": copied[row] if model.known[0] else None,
            "steps": steps[key],
            "reason": proposal.reasons[proposal.reason[row]] if proposal.reason[row] >= 0 else "",
        }
        for row, key in ((row, get_key(model, row)) for row in rows)
    ]
