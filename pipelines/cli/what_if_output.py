"""`what-if`: what fails with some brokers, and who takes over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SourceError
from pipelines.ingest.formats.unrecognised import FORMAT as UNRECOGNISED
from pipelines.ingest.merge.inferred_state import down_brokers, live_brokers
from pipelines.ingest.snapshot import Snapshot
from udfs.arrow.columns import Lists, flags, numbers, valid, whole
from udfs.arrow.ragged import contained, count_true
from udfs.failures.kernels.election import CAUSES, FROM_ELR, KEPT, NO_LEADER, OFFLINE, UNCLEAN, PartitionArrays, elect


@dataclass(frozen=True)
class TopicDefaults:
    """What holds for a topic whose source shows no such config: Kafka's own defaults, unless conf/ says otherwise."""

    min_insync_replicas: int = 1
    unclean_leader_election: bool = False


def partition_arrays(partitions: pa.Table, unclean: np.ndarray) -> PartitionArrays:
    """Partitions (schema SETTLED, all with replicas) as the arrays of the election kernel. unclean: bool (p)."""
    replicas = Lists.of(partitions["replicas"])
    isr, elr = Lists.of(partitions["isr"]), Lists.of(partitions["elr"])
    return PartitionArrays(
        replicas.offsets,
        replicas.flat,
        contained(replicas.flat, replicas.offsets, isr.flat, isr.offsets),
        contained(replicas.flat, replicas.offsets, elr.flat, elr.offsets),
        numbers(partitions["leader"], NO_LEADER).astype(np.int32),
        unclean,
    )


def _of_topic(snapshot: Snapshot, partitions: pa.Table, column: str, default: Any) -> np.ndarray:
    topics = snapshot.topics
    at = pc.index_in(partitions["topic"], value_set=whole(topics["topic"]))
    values = whole(topics[column]).take(whole(at))
    return np.asarray(pc.fill_null(values, pa.scalar(default, values.type)))


@dataclass(frozen=True)
class Before:
    """A snapshot before anything fails. partitions: those with known replicas, p.   minimum: min.insync.replicas
    (p)."""

    snapshot: Snapshot
    partitions: pa.Table
    state: PartitionArrays
    minimum: np.ndarray

    @property
    def rejecting(self) -> int:
        """Led partitions that reject acks=all now."""
        kept = np.full(len(self.state.leader), KEPT)
        rejecting: int = summary(self, self.state.leader, kept, ())["under_min_isr_after"]
        return rejecting

    def after(self, failed: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """(leader (p), cause of its election (p)) after these brokers have failed."""
        state = self.state
        leader, cause = elect(state, ~np.isin(state.replicas, _down_after(self.snapshot, failed)))
        # Who led nothing before stays leaderless: a failure brings no replica back.
        orphan = state.leader == NO_LEADER
        leader[orphan], cause[orphan] = NO_LEADER, OFFLINE
        return leader, cause


def before(snapshot: Snapshot, defaults: TopicDefaults) -> Before:
    """What failures are asked of; SourceError where no replicas are known."""
    partitions = snapshot.partitions.filter(pc.is_valid(snapshot.partitions["replicas"])).combine_chunks()
    if not partitions.num_rows and (snapshot.partitions.num_rows or snapshot.stray_logs.num_rows):
        remedy = "Add a kafka-topics --describe of the cluster, or use `run` to see Kafka's own schemes."
        raise SourceError(snapshot.cluster_id, "its sources show no replicas", remedy)
    unclean = _of_topic(snapshot, partitions, "unclean_leader_election", defaults.unclean_leader_election)
    minimum = _of_topic(snapshot, partitions, "min_insync_replicas", defaults.min_insync_replicas)
    return Before(snapshot, partitions, partition_arrays(partitions, unclean), minimum)


def what_if(snapshot: Snapshot, failed: Sequence[int], defaults: TopicDefaults) -> dict[str, Any]:
    """The object that `what-if --fail --json` writes. failed: broker ids; who is down already changes nothing."""
    known = set(snapshot.brokers["broker_id"].to_pylist())
    for broker in failed:
        if broker not in known:
            ids = ", ".join(str(b) for b in sorted(known)) or "none"
            raise SourceError(snapshot.cluster_id, f"has no broker {broker}", f"Its brokers: {ids}.")
    now = before(snapshot, defaults)
    leader, cause = now.after(failed)
    return {
        "cluster": snapshot.cluster_id,
        "failed": list(failed),
        "partitions": _changes(now.partitions, now.state.leader, leader, cause),
        "summary": {
            **summary(now, leader, cause, failed),
            "size_bytes_offline": _bytes_offline(now.partitions, leader != NO_LEADER),
            **left_out(snapshot, failed),
        },
    }


def _down_after(snapshot: Snapshot, failed: Sequence[int]) -> np.ndarray:
    return np.union1d(down_brokers(snapshot.brokers), np.asarray(failed, dtype=np.int32))


def _changes(partitions: pa.Table, before: np.ndarray, after: np.ndarray, cause: np.ndarray) -> list[dict[str, Any]]:
    def nullable(leaders: np.ndarray) -> list[int | None]:
        return [None if value == NO_LEADER else value for value in leaders.tolist()]

    columns = (
        partitions["topic"].to_pylist(),
        partitions["partition"].to_pylist(),
        nullable(before),
        nullable(after),
        [CAUSES[c] for c in cause.tolist()],
    )
    names = ("topic", "partition", "leader_before", "leader_after", "elected_from")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def summary(now: Before, leader: np.ndarray, cause: np.ndarray, failed: Sequence[int]) -> dict[str, Any]:
    """The failures of these brokers in numbers; leader, cause: after them."""
    state = now.state
    down = _down_after(now.snapshot, failed)
    survivors = np.setdiff1d(live_brokers(now.snapshot.brokers), down)
    live_isr = count_true(state.in_isr & ~np.isin(state.replicas, down), state.offsets)
    live_isr[(cause == UNCLEAN) | (cause == FROM_ELR)] = 1  # the new leader begins as the whole ISR
    led = leader != NO_LEADER
    moved = led & (state.leader != leader)
    takers, gained = np.unique(leader[moved], return_counts=True)
    after = leaders_of(leader, survivors)
    mean = float(after.mean()) if len(after) else None
    return {
        "partitions": len(leader),
        "survivors": len(survivors),
        "leaders_moved": int(moved.sum()),
        "offline_before": int((state.leader == NO_LEADER).sum()),
        "offline_after": int((~led).sum()),
        "under_min_isr_after": int((led & (live_isr < now.minimum)).sum()),
        "at_one_replica_after": int((led & (live_isr == 1)).sum()),
        "unclean_elections": int((cause == UNCLEAN).sum()),
        "takeovers": {str(b): n for b, n in zip(takers.tolist(), gained.tolist(), strict=True)},
        "leaders_after": {str(b): n for b, n in zip(survivors.tolist(), after.tolist(), strict=True)},
        "worst_survivor": int(survivors[after.argmax()]) if len(after) else None,
        "worst_survivor_max_over_mean": round(float(after.max()) / mean, 4) if mean else None,
    }


def leaders_of(leader: np.ndarray, brokers: np.ndarray) -> np.ndarray:
    """int64: how many partitions each of these brokers (ascending) leads."""
    place = np.searchsorted(brokers, leader)
    held = np.isin(leader, brokers)
    return np.bincount(place[held], minlength=len(brokers))


def left_out(snapshot: Snapshot, failed: Sequence[int]) -> dict[str, Any]:
    """What the answer does not rest on, or only by assumption."""
    every = snapshot.partitions
    unplaced = ~valid(every["replicas"])
    fails = np.isin(numbers(every["leader"], NO_LEADER), np.asarray(failed, dtype=np.int32))
    already = set(failed) & set(down_brokers(snapshot.brokers).tolist())
    return {
        "failed_already_down": sorted(already),
        "unplaced_partitions": int(unplaced.sum()),
        "unplaced_partitions_losing_leader": int((unplaced & fails).sum()),
        "state_inferred_partitions": int(flags(every["state_inferred"]).sum()),
        "quarantined_records": len(snapshot.quarantined),
        "conflicts": snapshot.conflicts.num_rows,
        "unrecognised_files": sum(name == UNRECOGNISED.name for name in snapshot.formats.values()),
        "skipped_entries": len(snapshot.skipped),
    }


def _bytes_offline(partitions: pa.Table, led: np.ndarray) -> int | None:
    sizes = whole(partitions["size_bytes"])
    if sizes.null_count == len(sizes):
        return None
    return int(pc.sum(sizes.filter(pa.array(~led))).as_py() or 0)


def lines(answer: dict[str, Any]) -> list[str]:
    """The answer as a person reads it (answer: of `what_if`)."""
    total = answer["summary"]
    failed = ",".join(map(str, answer["failed"]))
    fail = f"broker {failed} fails" if len(answer["failed"]) == 1 else f"brokers {failed} fail"
    out = [f"cluster {answer['cluster']}, {total['partitions']} partitions: {fail}"]
    out += [f"  broker {broker} is down already" for broker in total["failed_already_down"]]
    new = total["offline_after"] - total["offline_before"]
    out.append(f"  leaders that move: {total['leaders_moved']}, of them unclean: {total['unclean_elections']}")
    out.append(f"  partitions offline: {total['offline_after']} ({new} of them new)")
    out.append(f"  partitions under min.insync.replicas (acks=all rejected): {total['under_min_isr_after']}")
    out.append(f"  partitions at their last replica: {total['at_one_replica_after']}")
    out += notes(total)
    takers = sorted(total["takeovers"].items(), key=lambda item: -item[1])
    out += [f"  broker {b} takes over {n}, leads {total['leaders_after'][b]} then" for b, n in takers]
    if total["worst_survivor"] is not None and total["worst_survivor_max_over_mean"] is not None:
        ratio = total["worst_survivor_max_over_mean"]
        out.append(f"  worst survivor: broker {total['worst_survivor']}, {ratio} times the mean")
    return out


def notes(total: Mapping[str, Any]) -> list[str]:
    """A line for each thing that is left out, or inferred (total: as of `left_out`)."""
    said = {
        "unplaced_partitions": "{} partitions without known replicas are left out",
        "unplaced_partitions_losing_leader": "of these, {} lose their leader: who takes over is not known",
        "quarantined_records": "{} records are quarantined, see inspect",
        "conflicts": "the sources conflict each other {} times, see inspect",
        "state_inferred_partitions": "{} partitions without leader and ISR in the sources are taken as healthy",
        "unrecognised_files": "{} files are empty or in no known format, see inspect",
        "skipped_entries": "{} sub-folders or links of the folder are not read, see inspect",
    }
    return [f"  note: {text.format(total[name])}" for name, text in said.items() if total[name]]
