"""What the controller does at each step of a replay, in its order. See docs/replay-steps.md."""

from __future__ import annotations

from udfs.kernels import replay_state as st
from udfs.replay.fold import Folded
from udfs.replay.steps_kraft import KRaft
from udfs.replay.steps_zookeeper import ZooKeeper
from udfs.replay.teller import Row


def controller_steps(of: Folded) -> list[Row]:
    """Rows {event, at_ms, step, controller_id, controller_epoch, action, path, data} of one cluster, in order.

    step: 0, 1, .. within an event.   path: a znode, or the metadata log; None for what is neither.   data: the znode's
    text, or JSON of what is sent or counted; None for nothing.   controller_id: None while there is none.
    """
    return (KRaft if of.packed.numbers[0, st.KRAFT] else ZooKeeper)(of).rows()
