"""Text about what a repair should do first."""

from collections.abc import Iterator

from pipelines.cli.plan_command_line import PlanCommandLine
from pipelines.cli.text_format import format_bytes, format_duration
from pipelines.plan_files.plan_creation import CreatedPlan
from udfs.plurals import count_of, join_names


def render_urgent_repair(plan: CreatedPlan, command: PlanCommandLine) -> Iterator[str]:
    """Render the command that repairs only the partitions below min.insync.replicas, if there are some now."""
    urgent = plan.facts.urgent_repair
    if urgent is None:
        return
    names = join_names(urgent.first_partitions, count=urgent.partitions)
    count = count_of(urgent.partitions, "partition")
    is_repaired = "is repaired" if urgent.partitions == 1 else "are repaired"
    if urgent.bytes_to_copy is not None:
        is_repaired += f" in about {format_duration(urgent.seconds)} ({format_bytes(urgent.bytes_to_copy)})"
    again = command.with_other_folder("-first").with_flag("--under-min-isr-partitions").change({})
    yield f"  first: {count} below min.insync.replicas ({names}) {is_repaired} by:"
    yield f"    {again}"
    yield "    then list the topics again, and plan the rest"
