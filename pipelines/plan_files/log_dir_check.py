"""Whether the log dirs that a plan chooses still exist and have room, and which of its moves between them are done."""

from collections.abc import Iterator, Mapping

import numpy as np

from pipelines.plan_files.kafka_json import Key
from pipelines.plan_files.plan_reader import PlannedChange, StoredPlan
from udfs.planning.broker_log_dirs import ANY
from udfs.planning.cluster_model import ClusterModel


def is_in_planned_log_dirs(change: PlannedChange, paths: Mapping[int, str]) -> bool:
    """Return whether the replicas of a partition are in the log dirs that a plan chooses. paths: now, by broker."""
    return all(paths.get(broker) == path for broker, path in change.log_dirs.items())


def find_log_dir_problems(plan: StoredPlan, model: ClusterModel, rows: Mapping[Key, int]) -> Iterator[str]:
    """Explain which log dirs of the rest of a plan do not exist, are offline, or have no room for what moves to them.

    rows: of the partitions whose replicas are not yet in their planned log dirs.
    """
    log_dirs = model.log_dirs
    if log_dirs is None:
        return
    index = {
        (int(model.broker_ids[broker]), path): i
        for i, (broker, path) in enumerate(zip(log_dirs.broker.tolist(), log_dirs.paths, strict=True))
    }
    brokers_with_dirs = set(model.broker_ids[np.unique(log_dirs.broker)].tolist())
    incoming = np.zeros(len(log_dirs.paths))
    absent: dict[tuple[int, str], int] = {}
    for key, row in rows.items():
        replicas = slice(*model.offsets[row : row + 2].tolist())
        here = dict(zip(model.ids(model.replicas[replicas]), range(replicas.start, replicas.stop), strict=True))
        for broker, path in plan.changes[key].log_dirs.items():
            at = index.get((broker, path), ANY)
            if at == ANY or not log_dirs.online[at]:
                absent[broker, path] = absent.get((broker, path), 0) + (broker in brokers_with_dirs)
            elif broker not in here or log_dirs.of_replica[here[broker]] != at:
                incoming[at] += log_dirs.size[here[broker]] if broker in here else model.size[row]
    for (broker, path), count in sorted(absent.items()):
        if count:
            state = "is offline" if (broker, path) in index else "does not exist"
            yield f"log dir {path} of broker {broker} {state}, and the plan needs it"
    for (broker, path), at in sorted(index.items()):
        if incoming[at] > log_dirs.compute_room(1.0)[at]:
            yield (
                f"log dir {path} of broker {broker} has {round(log_dirs.usable[at]):,} bytes left, too little for the "
                f"{round(incoming[at]):,} bytes that the plan moves to it"
            )
