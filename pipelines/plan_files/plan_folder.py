"""The files of a plan: written beside, then put in their place as a whole."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.errors import SettingsError
from pipelines.plan_files.kafka_json import (
    election,
    key_of,
    lists_after,
    lists_before,
    lists_of_wave,
    not_given_back,
    reassignment,
    to_elect,
    topics_to_move,
)
from pipelines.plan_files.plan_json import KIND, plan_file, wave_file, wave_names
from pipelines.plan_files.throttles import as_json, as_script, throttle_of, throttles_by_wave
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.waves import Waves, to_change

PLAN, REASSIGNMENT, ROLLBACK, ELECTION = "plan.json", "reassignment.json", "rollback.json", "election.json"
TOPICS_TO_MOVE, THROTTLES, THROTTLE_SCRIPT = "topics-to-move.json", "throttles.json", "throttles.sh"

_FIXED = (REASSIGNMENT, ROLLBACK, ELECTION, TOPICS_TO_MOVE, THROTTLES, THROTTLE_SCRIPT, PLAN)
_WAVE = re.compile(r"wave-[0-9]{2,}\.json")
_REMEDY = "Name a folder that is not there yet, is empty, or holds a plan, which is then replaced"


def plan_texts(
    model: ClusterModel, proposal: ProposedAssignment, waves: Waves, facts: Mapping[str, Any]
) -> dict[str, str]:
    """{file name: text} of a plan, the same for the same plan. facts: certificate and metrics, for plan.json."""
    rows = np.flatnonzero(to_change(model, proposal)).tolist()
    before, after = lists_before(model, rows), lists_after(model, proposal, rows)
    by_wave = [lists_of_wave(model, waves, wave) for wave in range(waves.waves)]
    names = wave_names(waves.waves)
    lost = {key_of(model, row) for row in not_given_back(model, proposal).tolist()}
    down = set(model.broker_ids[~model.live].tolist())
    rate = max(1, int(waves.limits.throttle_bytes_per_s))
    whole, throttles = throttle_of(before, after, down), throttles_by_wave(before, by_wave, down)
    texts = {REASSIGNMENT: reassignment(after)}
    texts |= {wave_file(name): reassignment(lists) for name, lists in zip(names, by_wave, strict=True)}
    texts |= {
        ROLLBACK: reassignment({key: one for key, one in before.items() if key not in lost}),
        ELECTION: election(to_elect(model, proposal)),
        TOPICS_TO_MOVE: topics_to_move(key_of(model, row)[0] for row in rows),
        THROTTLES: as_json(rate, whole, throttles),
        THROTTLE_SCRIPT: as_script(rate, whole, list(zip(names, throttles, strict=True))),
        PLAN: plan_file(model, proposal, waves, facts, by_wave),
    }
    return texts


def write_plan(
    directory: Path, model: ClusterModel, proposal: ProposedAssignment, waves: Waves, facts: Mapping[str, Any]
) -> list[Path]:
    """The files written, in `directory`, which is made, or replaced if it holds a plan; else a SettingsError.

    facts: certificate and metrics, as they shall stand in plan.json.
    """
    folder = directory.resolve()
    reject_other(folder)
    texts = plan_texts(model, proposal, waves, facts)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            made, outdated = Path(scratch, "made"), Path(scratch, "outdated")
            made.mkdir()
            for name, text in texts.items():
                (made / name).write_text(text, encoding="utf-8", newline="\n")
            _replace(folder, made, outdated)
    except OSError as model_:
        raise SettingsError(f"{directory} cannot be written: {model_}. Name another folder") from model_
    return [directory / name for name in texts]


def reject_other(folder: Path) -> None:
    """Nothing; a SettingsError if the folder is there and holds something else than a plan."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SettingsError(f"{folder} is not a folder. {_REMEDY}")
    names = sorted(path.name for path in folder.iterdir())
    foreign = [name for name in names if name not in _FIXED and not _WAVE.fullmatch(name)]
    if foreign:
        raise SettingsError(f"{folder} holds {foreign[0]}, which is no file of a plan. {_REMEDY}")
    if names and not _is_plan(folder / PLAN):
        raise SettingsError(f"{folder} holds {names[0]}, but no {PLAN} of this program. {_REMEDY}")


def _is_plan(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return isinstance(found, dict) and found.get("kind") == KIND
    return False


def _replace(folder: Path, made: Path, outdated: Path) -> None:
    """Nothing; puts `made` in the folder's place, or leaves all as it was."""
    with contextlib.suppress(FileNotFoundError):
        folder.rename(outdated)
    try:
        made.rename(folder)
    except OSError:
        if outdated.exists():
            outdated.rename(folder)
        raise
