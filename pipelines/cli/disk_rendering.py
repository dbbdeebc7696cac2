"""Text about the brokers whose disks must have room for a plan."""

from collections.abc import Iterator

from pipelines.cli.text_format import format_bytes
from pipelines.plan_files.plan_creation import CreatedPlan
from udfs.plurals import join_names


def render_disk_growth(plan: CreatedPlan) -> Iterator[str]:
    """Render the brokers whose disk grows most, while old and new replicas exist at the same time."""
    growth, capacity = plan.facts.disk_growth, plan.facts.request.broker_bytes
    if not growth:
        return
    brokers = ", ".join(
        f"broker {one.broker} {format_bytes(one.before_bytes)} -> {format_bytes(one.peak_bytes)}" for one in growth
    )
    if capacity is None:
        remedy = f"check that {'it has' if len(growth) == 1 else 'they have'} room"
    elif full := [one.broker for one in growth if one.peak_bytes > capacity]:
        remedy = f"more than plans.broker_bytes, {format_bytes(capacity)}, on broker {join_names(full)}"
    else:
        remedy = f"within plans.broker_bytes, {format_bytes(capacity)}"
    yield f"  disk, most while copying: {brokers}: {remedy}"
