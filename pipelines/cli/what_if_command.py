"""`what-if`: which brokers can fail now, and what happens if some fail."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.cluster_options import ClusterOptions
from pipelines.cli.hypothetical_options import HypotheticalOptions
from pipelines.cli.option_values import find_brokers, option, parse_place, take_groups
from pipelines.cli.source_arguments import SourceArgument
from pipelines.cli.text_format import print_message
from pipelines.what_if.prediction_check import check_prediction
from udfs.plurals import is_or_are

if TYPE_CHECKING:
    from pipelines.ingest.snapshot_reader import Snapshot
    from udfs.failures.topic_defaults import TopicDefaults


@app.command("what-if", rich_help_panel="Questions, without Spark", epilog=examples("what-if"))
@take_groups
def what_if(
    source: SourceArgument,
    *,
    fail: Annotated[
        str | None,
        option(
            "Ids or racks of the brokers that fail together, as in 2,5 or eu-1a.",
            "IDS",
            default="each broker by itself",
        ),
    ] = None,
    actual: Annotated[
        str | None,
        option(
            "With --fail: a source from after this failure; compare its leaders with the predicted ones.",
            "SOURCE",
            parser=parse_place,
        ),
    ] = None,
    other: HypotheticalOptions,
    cluster: ClusterOptions,
    json_file: common.JsonOption = None,
) -> None:
    """Show which brokers can fail now; with --fail, what goes offline and who takes over. Does not start Spark."""
    from pipelines.cli.what_if_rendering import format_check, format_cluster, format_failure
    from pipelines.setup.compile_on_demand import announce_compilation
    from pipelines.what_if import what_if_answers
    from pipelines.what_if.capacity_use import list_disk_uses, read_survivor_capacities

    settings = cluster.read_settings()
    measured = cluster.read(source, settings, actual)
    snapshot = cluster.apply(measured, settings.topics.defaults)
    if actual is not None and fail is None:
        raise typer.BadParameter("--actual needs --fail: which brokers failed between the two sources?")
    if actual is not None and other.is_given:
        raise typer.BadParameter("--actual compares with the cluster as it is: leave out --add, --remove and --grow")
    defaults, capacities = settings.topics.defaults, read_survivor_capacities(snapshot, settings.capacity)
    named = cluster.quote_with(source)
    with announce_compilation(print_message):
        snapshot, hypothesis = other.apply(snapshot, settings)
        if fail is None:
            answer = what_if_answers.evaluate_brokers(snapshot, defaults, capacities)
            verdict = answer.verdict.omit_steps() if hypothesis else answer.verdict
            verdict = verdict.name_start_order([start.broker for start in answer.outage.start_order])
            answer = replace(answer, verdict=verdict.name_source(named, answer.cluster), hypothesis=hypothesis)
            answer = replace(answer, disks=list_disk_uses(snapshot, measured, settings))
            lines = [*format_cluster(answer), *_format_return(snapshot, defaults, source, cluster, other.text)]
            common.write_answer(json_file, answer, lines)
        else:
            failed = find_brokers("--fail", fail, snapshot)
            failure = what_if_answers.evaluate_failure(snapshot, failed, defaults, capacities)
            failure = replace(failure.name_source(named), hypothesis=hypothesis)
            failure = failure.omit_steps() if hypothesis else failure
            command = f"kafka-placement what-if {named} --fail {shlex.quote(fail)}"
            lines = format_failure(failure, "" if hypothesis else command)
            if actual is not None:
                later = cluster.read_later(actual, settings, source)
                predicted = {(one.topic, one.partition): one.leader_after for one in failure.partitions}
                check = check_prediction(predicted, failed, snapshot, later)
                failure, lines = replace(failure, check=check), [*lines, *format_check(check)]
            common.write_answer(json_file, failure, lines)


def _format_return(
    snapshot: Snapshot, defaults: TopicDefaults, source: str, cluster: ClusterOptions, more: str
) -> Iterator[str]:
    """Yield what remains once all brokers are live, and all replicas in sync, if some are not now.

    more: the other options of the command that asks again.
    """
    from pipelines.cli.what_if_rendering import format_restart_order
    from pipelines.ingest.merge.live_brokers import get_down_brokers
    from pipelines.ingest.returned_brokers import find_missing_brokers, return_brokers
    from pipelines.verdict.naming import name_with_noun
    from pipelines.what_if import what_if_answers

    missing = find_missing_brokers(snapshot, defaults)
    returned = return_brokers(snapshot, missing, defaults)
    if returned.partitions.equals(snapshot.partitions):  # also where partitions stay offline though all are back
        return
    answer = what_if_answers.evaluate_brokers(returned, defaults)
    down = get_down_brokers(snapshot.brokers).tolist()
    back = f"{name_with_noun(down)} {is_or_are(len(down))} back, and " if down else ""
    ids = ",".join(dict.fromkeys([*(cluster.returned or "").split(","), *map(str, missing)])).strip(",")
    again = f"kafka-placement what-if {replace(cluster, returned=ids).quote_with(source)}{more}"
    yield f"Once {back}all replicas are in sync ({again}):"
    yield f"  {answer.verdict.headline}"
    yield from (f"  {line}" for line in format_restart_order(answer))
