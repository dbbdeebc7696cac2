"""`what-if`: which brokers can fail now, and what happens if some fail."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.cluster_options import ClusterOptions
from pipelines.cli.option_values import (
    decimal_number,
    find_brokers,
    find_known_brokers,
    flag,
    option,
    parse_place,
    take_groups,
    whole_number,
)
from pipelines.cli.source_arguments import SourceArgument
from pipelines.cli.text_format import print_message
from pipelines.what_if.prediction_check import check_prediction
from udfs.wording import count_of, join_names

if TYPE_CHECKING:
    from pipelines.cli.text_format import Limits
    from pipelines.config.owner_map import TopicOwner
    from pipelines.config.setting_sections import Settings
    from pipelines.ingest.snapshot_reader import Snapshot
    from pipelines.plan_files.hypothetical_cluster import Hypothesis
    from pipelines.what_if.failure_effects import AffectedTopic
    from pipelines.what_if.outage import WaitOrMove
    from pipelines.what_if.wait_or_move import ReturnedAnswer
    from pipelines.what_if.what_if_answers import ClusterAnswer


_MAX_BROKERS, _MAX_FACTOR = 1000, 1000


@dataclass(frozen=True)
class HypotheticalOptions:
    """The options as they were written."""

    add: Annotated[
        int | None,
        option(
            "Answer as if so many new brokers were added, and filled as plan --goal expand does.",
            "N",
            parser=whole_number(1, _MAX_BROKERS),
            default="none",
        ),
    ] = None
    remove: Annotated[
        str | None,
        option(
            "Ids or racks of brokers: answer as if plan --goal drain had emptied them, and they were gone.",
            "IDS",
            default="none",
        ),
    ] = None
    grow: Annotated[
        float | None,
        option(
            "Answer as if all sizes and rates were so many times as large, as in 1.3.",
            "FACTOR",
            parser=decimal_number(0.001, _MAX_FACTOR, "1.3"),
            default="1",
        ),
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether an answer is about another cluster than that of the sources."""
        return any(value is not None for value in vars(self).values())

    @property
    def text(self) -> str:
        """The options as a command repeats them, with a space in front; empty without any."""
        values = {f"--{name}": value for name, value in vars(self).items() if value is not None}
        return "".join(f" {option} {shlex.quote(f'{value}')}" for option, value in values.items())

    def apply(self, snapshot: Snapshot, settings: Settings) -> tuple[Snapshot, Hypothesis | None]:
        """Return the snapshot of the other cluster, and how it differs; say so.

        Loads grow first, then new brokers are filled, then others are emptied.

        Raises: Infeasible, SourceError, or typer.BadParameter for brokers that the cluster does not have.
        """
        if not self.is_given:
            return snapshot, None
        from pipelines.config.plan_parameters import build_metric_options, build_request, build_wave_limits
        from pipelines.plan_files import hypothetical_cluster as other
        from pipelines.plan_files.planned_cluster import add_new_brokers
        from pipelines.verdict.cluster_evidence import name_with_noun

        hypothesis, defaults = other.Hypothesis(), settings.topics.defaults
        options = other.PlanningOptions(build_wave_limits(settings), build_metric_options(settings), defaults)
        if self.grow is not None:
            snapshot, hypothesis = other.grow_loads(snapshot, self.grow), replace(hypothesis, load_factor=self.grow)
            print_message(f"as if all sizes and rates were {self.grow:g} times as large")
        if self.add is not None:
            brokers = other.name_new_brokers(snapshot, self.add)
            request = build_request(settings, "expand", brokers=tuple(broker.broker_id for broker in brokers))
            snapshot, copied = other.assume_planned(add_new_brokers(snapshot, brokers), request, options)
            moves = f"filled as plan --goal expand does ({count_of(copied, 'replica')} copied)"
            were = "broker {} was" if len(brokers) == 1 else "brokers {} were"
            print_message(f"as if {were.format(join_names(brokers))} added, and {moves}")
            hypothesis = replace(hypothesis, added_brokers=tuple(brokers), copied_replicas=copied)
        if self.remove is not None:
            ids = find_known_brokers("--remove", self.remove, snapshot)
            emptied, copied = other.assume_planned(
                snapshot, build_request(settings, "drain", brokers=tuple(ids)), options
            )
            snapshot, lost = other.remove_brokers(emptied, ids)
            moves = f"emptied as plan --goal drain does ({count_of(copied, 'replica')} copied)"
            print_message(f"as if {name_with_noun(ids)} {'was' if len(ids) == 1 else 'were'} {moves}, and removed")
            if lost:
                remedy = "create their topics again, or start an empty broker with this id"
                print_message(f"{count_of(lost, 'partition')} had all replicas there, on a down broker: lost; {remedy}")
            copied += hypothesis.copied_replicas
            hypothesis = replace(hypothesis, removed_brokers=tuple(ids), copied_replicas=copied)
        return snapshot, hypothesis


@dataclass(frozen=True)
class _Selection:
    """The part of an answer that is printed."""

    topics: Annotated[bool, flag("topics", "Print the affected topics: now, or after the failure of --fail.")] = False
    owner_map: Annotated[
        str | None,
        option(
            "CSV with the columns topic (a pattern) and team, the first that matches wins: the affected teams.",
            "FILE",
            "--owner-map",
            parser=parse_place,
        ),
    ] = None
    show_all: Annotated[bool, flag("all", "Print everything, not only what fits on a screen of 80 x 40.")] = False

    def read_owners(self) -> list[TopicOwner]:
        """Read the file of --owner-map; none without one. Raises: SettingsError if it is wrong."""
        from pipelines.config.owner_map import read_owner_map

        return [] if self.owner_map is None else read_owner_map(self.owner_map)

    def lay_out(
        self, render: Callable[[Limits], list[str]], topics: list[AffectedTopic], headlines: int
    ) -> Iterable[str]:
        """Lay out an answer, or with --topics or --owner-map its topics, below so many of its first lines."""
        from pipelines.cli.text_format import lay_out_screen
        from pipelines.cli.topic_rendering import format_topics

        by_team = self.owner_map is not None
        if not self.topics and not by_team:
            return lay_out_screen(render, self.show_all)
        return lay_out_screen(
            lambda limits: [*render(limits)[:headlines], *format_topics(topics, limits, by_team)], self.show_all
        )


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
    selection: _Selection,
    other: HypotheticalOptions,
    cluster: ClusterOptions,
    json_file: common.JsonOption = None,
) -> None:
    """Show which brokers can fail now; with --fail, what goes offline and who takes over. Does not start Spark."""
    from pipelines.cli.what_if_rendering import format_check, format_cluster, format_failure, format_return
    from pipelines.setup.compile_on_demand import announce_compilation
    from pipelines.what_if import what_if_answers
    from pipelines.what_if.failure_effects import name_owners, read_survivor_capacities
    from pipelines.what_if.wait_or_move import evaluate_return

    settings, owners = cluster.read_settings(), selection.read_owners()
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
            answer = what_if_answers.evaluate_cluster(snapshot, settings, measured, capacities)
            verdict = answer.verdict.omit_steps() if hypothesis else answer.verdict
            verdict = verdict.name_moment(len(cluster.after or ()))
            answer = replace(answer, verdict=verdict.name_source(named, answer.cluster), hypothesis=hypothesis)
            answer = replace(answer, topics=name_owners(answer.topics, owners))
            then = ""
            if (returned := evaluate_return(snapshot, defaults)) is not None:
                answer = replace(answer, wait_or_move=_compare_choices(snapshot, answer, returned, settings))
                ids = ",".join(dict.fromkeys([*(cluster.returned or "").split(","), *map(str, returned.brokers)]))
                then = f"{replace(cluster, returned=ids.strip(',')).quote_with(source)}{other.text}"

            def render(limits: Limits) -> list[str]:
                rest = [] if returned is None else format_return(answer, returned, then, limits)
                return [*format_cluster(answer, limits), *rest]

            common.write_answer(json_file, answer, selection.lay_out(render, answer.topics, headlines=2))
        else:
            failed = find_brokers("--fail", fail, snapshot)
            failure = what_if_answers.evaluate_failure(snapshot, failed, defaults, capacities)
            failure = replace(failure.name_source(named), hypothesis=hypothesis)
            failure = failure.omit_steps() if hypothesis else failure
            again = "" if hypothesis else f"kafka-placement what-if {named} --fail {shlex.quote(fail)}"
            more = []
            if actual is not None:
                later = cluster.read_later(actual, settings, source)
                predicted = {(one.topic, one.partition): one.leader_after for one in failure.partitions}
                check = check_prediction(predicted, failed, snapshot, later)
                failure, more = replace(failure, check=check), [*format_check(check)]
            failure = replace(failure, topics=name_owners(failure.topics, owners))
            lines = selection.lay_out(
                lambda limits: [*format_failure(failure, again, limits), *more], failure.topics, headlines=1
            )
            common.write_answer(json_file, failure, lines)


def _compare_choices(
    snapshot: Snapshot, answer: ClusterAnswer, returned: ReturnedAnswer, settings: Settings
) -> WaitOrMove | None:
    """Compare waiting with the plan that `plan --goal repair` makes."""
    from pipelines.config.capacity_file import add_disk_capacities
    from pipelines.config.plan_parameters import build_request, build_wave_limits
    from pipelines.what_if.wait_or_move import RepairPlanning, compare_choices

    planning = RepairPlanning(build_request(settings, "repair"), build_wave_limits(settings), settings.topics.defaults)
    return compare_choices(add_disk_capacities(snapshot, settings.capacity.file), answer, returned, planning)
