"""The folder of a plan: its files are written beside it, and then replace it as a whole."""

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
    dump_election,
    dump_reassignment,
    dump_topics_to_move,
    find_elections,
    find_irreversible,
    get_key,
    get_proposed_lists,
    get_source_lists,
    get_wave_lists,
)
from pipelines.plan_files.plan_json import KIND, dump_plan, name_wave_file, name_waves
from pipelines.plan_files.throttles import (
    compute_throttle,
    compute_wave_throttles,
    dump_throttle_script,
    dump_throttles,
)
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.waves import Waves, find_reassigned_partitions

PLAN, REASSIGNMENT, ROLLBACK, ELECTION = "plan.json", "reassignment.json", "rollback.json", "election.json"
TOPICS_TO_MOVE, THROTTLES, THROTTLE_SCRIPT = "topics-to-move.json", "throttles.json", "throttles.sh"

_FILES = (REASSIGNMENT, ROLLBACK, ELECTION, TOPICS_TO_MOVE, THROTTLES, THROTTLE_SCRIPT, PLAN)
_WAVE = re.compile(r"wave-[0-9]{2,}\.json")
_REMEDY = "Name a new or empty folder, or one that holds a plan, which is then replaced"


def build_files(
    model: ClusterModel, proposal: ProposedAssignment, waves: Waves, facts: Mapping[str, Any]
) -> dict[str, str]:
    """Return the texts of a plan's files by name, the same for the same plan.

    facts: Members of plan.json, such as certificate and metrics.
    """
    rows = np.flatnonzero(find_reassigned_partitions(model, proposal)).tolist()
    before, after = get_source_lists(model, rows), get_proposed_lists(model, proposal, rows)
    by_wave = [get_wave_lists(model, waves, wave) for wave in range(waves.waves)]
    names = name_waves(waves.waves)
    irreversible = {get_key(model, row) for row in find_irreversible(model, proposal).tolist()}
    down = set(model.broker_ids[~model.live].tolist())
    rate = max(1, int(waves.limits.throttle_bytes_per_s))
    whole, throttles = compute_throttle(before, after, down), compute_wave_throttles(before, by_wave, down)
    return {
        REASSIGNMENT: dump_reassignment(after),
        **{name_wave_file(name): dump_reassignment(lists) for name, lists in zip(names, by_wave, strict=True)},
        ROLLBACK: dump_reassignment({key: ids for key, ids in before.items() if key not in irreversible}),
        ELECTION: dump_election(find_elections(model, proposal)),
        TOPICS_TO_MOVE: dump_topics_to_move(get_key(model, row)[0] for row in rows),
        THROTTLES: dump_throttles(rate, whole, throttles),
        THROTTLE_SCRIPT: dump_throttle_script(rate, whole, list(zip(names, throttles, strict=True))),
        PLAN: dump_plan(model, proposal, waves, facts, by_wave),
    }


def write_plan(
    directory: Path, model: ClusterModel, proposal: ProposedAssignment, waves: Waves, facts: Mapping[str, Any]
) -> list[Path]:
    """Write a plan's files to a folder, which is created, or replaced if it holds a plan.

    Args:
        directory: The folder.
        model: The cluster.
        proposal: The plan.
        waves: Its waves.
        facts: Members of plan.json, such as certificate and metrics.

    Returns:
        The files.

    Raises:
        SettingsError: The folder holds something else, or cannot be written.
    """
    folder = directory.resolve()
    check_plan_folder(folder)
    texts = build_files(model, proposal, waves, facts)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            new.mkdir()
            for name, text in texts.items():
                (new / name).write_text(text, encoding="utf-8", newline="\n")
            _replace(folder, new, old)
    except OSError as error:
        raise SettingsError(f"{directory} cannot be written: {error}. Name another folder") from error
    return [directory / name for name in texts]


def check_plan_folder(folder: Path) -> None:
    """Check that a plan may be written to a folder.

    Raises:
        SettingsError: It holds something else than a plan.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SettingsError(f"{folder} is not a folder. {_REMEDY}")
    names = sorted(path.name for path in folder.iterdir())
    foreign = [name for name in names if name not in _FILES and not _WAVE.fullmatch(name)]
    if foreign:
        raise SettingsError(f"{folder} holds {foreign[0]}, which is no file of a plan. {_REMEDY}")
    if names and not _is_plan(folder / PLAN):
        raise SettingsError(f"{folder} holds {names[0]}, but no {PLAN} of this program. {_REMEDY}")


def _is_plan(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        document = json.loads(path.read_text(encoding="utf-8"))
        return isinstance(document, dict) and document.get("kind") == KIND
    return False


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
