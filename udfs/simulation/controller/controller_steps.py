"""What the controller does at each step of a replay, in its order. See docs/replay-steps.md."""

from __future__ import annotations

from udfs.simulation.controller.kraft_steps import KRaft
from udfs.simulation.controller.step_writer import Row
from udfs.simulation.controller.zookeeper_steps import ZooKeeper
from udfs.simulation.kernels import simulation_state as st
from udfs.simulation.simulator import Folded


def controller_steps(of: Folded) -> list[Row]:
    """Rows {event, at_ms, step, controller_id, controller_epoch, action, path, data} of one cluster, in order.

    step: 0, 1, .. within an event.   path: a znode, or the metadata log; None for what is neither.   data: the znode's
    text, or JSON of what is sent or counted; None for nothing.   controller_id: None while there is none.
    """
    return (KRaft if of.packed.numbers[0, st.KRAFT] else ZooKeeper)(of).rows()
