"""plan.json: what a plan promises, in which waves it goes, and what it takes to see later whether it still fits."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from pipelines.plan_files.fingerprints import digest, of_topics, rack_names
from pipelines.plan_files.kafka_json import Lists, array, compact, key_of, lists_after, lists_before, not_given_back
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.kernels.wave_steps import NOTHING_ADDED
from udfs.planning.waves import Waves, reports, to_change

KIND = "kafka-placement plan"
VERSION = 1
OURS = (
    *("kind", "version", "limits", "oversized_partitions", "waves"),
    *("not_in_rollback", "assignment_before", "changes"),
)
NOT_GIVEN_BACK = "a replica was on a broker that is down, and Kafka's tool rejects a file that names one"

_NAMED = 20  # partitions that rollback.json lacks, by name
_DIGITS = 12  # significant ones that are kept of a float


def plain(value: Any) -> Any:
    """The value as JSON has it: floats rounded and finite or null, tuples and arrays as lists, sets in order."""
    match value:
        case None | bool() | str() | int():
            return value
        case float() | np.floating():
            return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
        case np.bool_() | np.integer():
            return value.item()
        case Mapping():
            return {str(key): plain(part) for key, part in value.items()}
        case set() | frozenset():
            return sorted(map(plain, value))
        case np.ndarray():
            return [plain(part) for part in value.tolist()]
        case list() | tuple():
            return [plain(part) for part in value]
    raise TypeError(f"{value!r} is a {type(value).__name__}, which JSON does not have")


def wave_names(waves: int) -> list[str]:
    """The numbers of waves as files have them: 01, 02, as wide as the last."""
    width = max(2, len(str(waves)))
    return [f"{number:0{width}d}" for number in range(1, waves + 1)]


def wave_file(name: str) -> str:
    """The file of a wave."""
    return f"wave-{name}.json"


def plan_file(
    model: ClusterModel, proposal: ProposedAssignment, waves: Waves, facts: Mapping[str, Any], by_wave: Sequence[Lists]
) -> str:
    """The text of plan.json: facts (certificate and metrics, of the caller), then what OURS names.

    by_wave: the lists that each wave sets.
    """
    taken = sorted(set(facts) & set(OURS))
    if taken:
        raise ValueError(f"plan.json has {', '.join(taken)} of its own")
    members: dict[str, str] = {"kind": compact(KIND), "version": compact(VERSION)}
    members |= {str(key): json.dumps(plain(value), indent=1, allow_nan=False) for key, value in facts.items()}
    limits = asdict(waves.limits)
    unlimited = {"bytes_in_flight": np.inf, "moves_per_broker": np.iinfo(np.int64).max}
    members["limits"] = compact({k: None if v == unlimited.get(k) else plain(v) for k, v in limits.items()})
    members["oversized_partitions"] = array(model.name(row) for row in waves.oversized.tolist())
    members["waves"] = array(waves_told(model, waves))
    members["not_in_rollback"] = compact(not_in_rollback(model, proposal))
    members["assignment_before"] = _before(model)
    members["changes"] = array(_changes(model, proposal, waves, by_wave))
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {text}" for key, text in members.items()) + "\n}\n"


def waves_told(model: ClusterModel, waves: Waves) -> list[dict[str, Any]]:
    """Each wave with its file; bytes and seconds are None where no size is known."""
    out = []
    for name, report in zip(wave_names(waves.waves), reports(model, waves), strict=True):
        found = asdict(report)
        if not model.known[0]:
            found |= dict.fromkeys(("bytes_to_copy", "busiest_bytes", "seconds"))
        out.append({"wave": found.pop("wave"), "file": wave_file(name), **plain(found)})
    return out


def not_in_rollback(model: ClusterModel, proposal: ProposedAssignment) -> dict[str, Any]:
    """How many of the partitions that the plan sets rollback.json lacks, the first of them, and why."""
    rows = not_given_back(model, proposal).tolist()
    said = {"partitions": len(rows), "first": [model.name(row) for row in rows[:_NAMED]]}
    return {**said, "why": NOT_GIVEN_BACK if rows else None}


def _before(model: ClusterModel) -> str:
    topics = ",\n".join(f"{json.dumps(topic)}:{compact(short)}" for topic, short in of_topics(model).items())
    live, down = (model.broker_ids[lives].tolist() for lives in (model.live, ~model.live))
    racks: dict[str, list[int]] = {}
    for id_, rack in rack_names(model).items():
        racks.setdefault(rack, []).append(id_)
    brokers = {
        "live_brokers": live,
        "down_brokers": down,
        "draining_brokers": model.broker_ids[model.draining].tolist(),
        "racks": racks,
    }
    known = {"sha256": digest(model), "cluster": model.cluster_id, **brokers}
    return f'{compact(known)[:-1]},\n"topics":{{\n{topics}\n}}}}'


def _changes(
    model: ClusterModel, proposal: ProposedAssignment, waves: Waves, by_wave: Sequence[Lists]
) -> list[dict[str, Any]]:
    rows = np.flatnonzero(to_change(model, proposal)).tolist()
    before, after = lists_before(model, rows), lists_after(model, proposal, rows)
    steps: dict[Any, list[dict[str, Any]]] = {key: [] for key in after}
    for number, lists in enumerate(by_wave, 1):
        for key, replicas in lists.items():
            steps[key].append({"wave": number, "replicas": replicas})
    copies = waves.row[waves.added != NOTHING_ADDED]
    added = np.bincount(copies, minlength=model.partitions)
    out = []
    for row in rows:
        key = key_of(model, row)
        reason = proposal.reasons[proposal.reason[row]] if proposal.reason[row] >= 0 else ""
        bytes_ = round(float(model.size[row]) * int(added[row])) if model.known[0] else None
        out.append(
            {
                "topic": key[0],
                "partition": key[1],
                "before": before[key],
                "after": after[key],
                "bytes_to_copy": bytes_,
                "steps": steps[key],
                "reason": reason,
            }
        )
    return out
