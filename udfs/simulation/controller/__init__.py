"""What the controller does at each step of a simulation, in order. See docs/replay-steps.md."""

from udfs.simulation.controller.step_writer import ControllerStep, KRaftStepWriter
from udfs.simulation.controller.zookeeper_steps import ZooKeeperStepWriter
from udfs.simulation.kernels.simulation_arrays import ClusterSetup
from udfs.simulation.simulator import Simulation


def list_controller_steps(simulation: Simulation) -> list[ControllerStep]:
    """List what the controller does, in order; raise ValueError if the simulation has several clusters."""
    writer = KRaftStepWriter if simulation.log.numbers[0, ClusterSetup.KRAFT] else ZooKeeperStepWriter
    return writer(simulation).write()
