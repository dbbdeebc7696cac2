"""Replica lists in which a new broker has the position of the broker that it replaces."""

from dataclasses import replace

import numpy as np

from udfs.arrow.ragged import find_in_segment, position_of, row_of
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.constraints import Rules


def take_positions(model: ClusterModel, rules: Rules, proposal: ProposedAssignment) -> ProposedAssignment:
    """Order the lists that a plan changes as the source has them, with each replacement where the old broker stands.

    A new broker may be the preferred leader before it is in sync: Kafka elects preferred leaders from the ISR only. A
    broker that replaces none keeps its position in the list. Down brokers stay behind live ones.
    """
    row, listed, new = row_of(proposal.offsets), position_of(proposal.offsets), proposal.replicas
    source, changed = model.source_order, model.find_changed(proposal)[row]
    replaced = np.where(rules.replacement[source] >= 0, rules.replacement[source], source)
    own_place, old_place = (
        find_in_segment(new, proposal.offsets, lists, model.offsets) for lists in (source, replaced)
    )
    # A replacement that holds the partition already keeps its own position.
    position = np.select([~changed, own_place >= 0, old_place >= 0], [listed, own_place, old_place], listed)
    order = np.lexsort((listed, position, changed & ~model.live[new], row))
    return replace(proposal, replicas=new[order])
