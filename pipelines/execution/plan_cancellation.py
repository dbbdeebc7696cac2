"""Cancels the reassignments of a plan that are under way."""

from __future__ import annotations

from collections.abc import Iterable

from pipelines.execution import journal as log
from pipelines.execution.cluster_execution import FIRST_PAUSE_S, ClusterExecution, describe_rejections, explain_passing
from pipelines.execution.cluster_view import ClusterView, name_partitions
from pipelines.execution.journal import list_keys, list_origins
from pipelines.live.kafka_changes import NOT_IN_PROGRESS, UNKNOWN_PARTITION, is_error
from pipelines.live.kafka_connection import KafkaFault, Key, ReplicaLogDirs
from pipelines.live.pauses import growing_pauses
from udfs.wording import count_of


class PlanCancellation(ClusterExecution):
    """Cancels what is under way of one plan on one cluster."""

    next_step = "Repeat the command once nothing stands in its way."

    def cancel(self) -> None:
        """Cancel the reassignments that are under way, and restore the order of the replicas that they began with."""
        with self._explain_faults():
            view = self._look()
            self._adopt_throttles(view)
            self._uncordon(view)
            moving = {
                key: self._find_origin(key, view)
                for key, move in view.reassignments.items()
                if key in self.steps.partitions and self.steps.partitions[key].find(move.target) is not None
            }
            if moving_dirs := self.steps.list_moving_dirs(view.logs):
                self.say(f"cancelling {count_of(len(moving_dirs), 'move')} between log dirs")
                self._cancel_dir_moves(moving_dirs)
            else:
                self.say(
                    f"cancelling {count_of(len(moving), 'reassignment')}" if moving else "no reassignment is under way"
                )
            lost: dict[Key, str] = {}
            if moving:
                self.journal.write(log.CANCEL, partitions=list_keys(moving), origins=list_origins(moving))
                lost = self._cancel_until_none(moving, view)
            self._restore_order()
            if lost:
                self._stop(
                    f"Kafka cannot cancel {count_of(len(lost), 'reassignment')}: {describe_rejections(lost)}. Start "
                    "the original brokers again, or let it finish"
                )
            self._throttle.restore(self._look().live_brokers)
        self._finish("cancelled")

    def _cancel_dir_moves(self, moving: ReplicaLogDirs) -> None:
        """Have brokers leave replicas in the log dirs where they are, until none moves to one of the plan."""
        timer = self._make_timer()
        for pause_s in growing_pauses(FIRST_PAUSE_S, self.options.interval_s):
            try:
                rejected = self.connection.choose_log_dirs(moving)
                reason = describe_rejections(rejected) or f"{count_of(len(moving), 'replica')} still moved"
            except KafkaFault as error:
                reason = explain_passing(error)
            self.pause(pause_s)
            moving = self.steps.list_moving_dirs(self._look().logs)
            if not moving:
                return
            if timer.is_too_long(reason):
                self._stop(f"{reason}, for {timer.limit_s:.0f} s")

    def _cancel_until_none(self, keys: Iterable[Key], view: ClusterView) -> dict[Key, str]:
        """Cancel reassignments, and wait until they are over. Returns: Kafka's error by partition.

        A cancellation without an answer is repeated where the cluster shows that it had no effect.
        """
        timer = self._make_timer()
        accepted: set[Key] = set()
        lost: dict[Key, str] = {}
        for pause_s in growing_pauses(FIRST_PAUSE_S, self.options.interval_s):
            rest = (set(keys) & view.reassignments.keys()) - lost.keys()
            if not rest:
                break
            reason = f"{name_partitions(rest)}: still being reassigned after the cancellation"
            if rest - accepted:
                try:
                    rejected = self.connection.alter_reassignments(dict.fromkeys(rest - accepted))
                except KafkaFault as error:
                    reason = explain_passing(error)
                else:
                    accepted |= rest
                    harmless = (NOT_IN_PROGRESS, UNKNOWN_PARTITION)
                    lost |= {k: text for k, text in rejected.items() if not any(is_error(text, e) for e in harmless)}
            if timer.is_too_long(reason):
                self._stop(f"{reason}, for {timer.limit_s:.0f} s")
            self.pause(pause_s)
            view = self._look()
        return lost

    def _find_origin(self, key: Key, view: ClusterView) -> tuple[int, ...]:
        """Return the list of a partition from before its reassignment: if possible, a neighbour of its target."""
        move, steps = view.reassignments[key], self.steps.partitions[key]
        origin = set(move.replicas) - set(move.adding)
        index = steps.find_origin(origin, move.target)
        return tuple(r for r in move.replicas if r in origin) if index is None else steps.lists[index]
