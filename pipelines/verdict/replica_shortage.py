"""What helps partitions that have fewer replicas than min.insync.replicas: neither time nor a restart."""

from pipelines.verdict import statements
from pipelines.verdict.cluster_evidence import AffectedPartitions
from pipelines.verdict.verdict_points import NextPlan, NextStep
from udfs.plurals import count_of


def add_missing_replicas(blocked: AffectedPartitions, live_count: int) -> NextStep:
    """Return the step that gives these partitions replicas, or lowers min.insync.replicas where brokers are too few."""
    few, names = blocked.few_replicas, blocked.few_replica_topic_names
    factor, step = min(blocked.few_min_isr + 1, live_count), statements.ADD_FOR_MIN_ISR
    if factor < blocked.few_min_isr:
        factor, step = blocked.few_factor, statements.LOWER_FOR_MIN_ISR
    more = blocked.few_replica_topics - len(names)
    others = f"; then do the same for {count_of(more, 'more topic')}" if more else ""
    plan = NextPlan("rf", factor=factor, topics=tuple(names))
    filled = step.fill(plan=plan, factor=factor, first=names[0], others=others)
    where = f"where replicas are fewer than min.insync.replicas ({count_of(few, 'partition')}), "
    return filled if few == blocked.partitions else filled._replace(text=f"{where}{filled.text}")
