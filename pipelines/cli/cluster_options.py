"""The options of commands that answer for one cluster: how its source is read, and in which state it is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pipelines.cli import common_options as common
from pipelines.cli.option_values import find_brokers, find_known_brokers
from pipelines.cli.source_arguments import CommandConfigOption, MetricsOption, MetricsRequest, WindowOption, open_source
from pipelines.cli.text_format import print_message
from pipelines.config.setting_sections import Settings, print_window
from pipelines.ingest.sources import is_live
from pipelines.metrics.metrics_origin import hide_secrets
from udfs.wording import count_of, is_or_are

if TYPE_CHECKING:
    from pipelines.ingest.snapshot_reader import Snapshot
    from udfs.failures.topic_defaults import TopicDefaults


@dataclass(frozen=True)
class ClusterOptions:
    """The options as they were written."""

    down: common.DownOption = None
    returned: common.ReturnOption = None
    after: common.AfterOption = None
    format_name: common.FormatOption = None
    command_config: CommandConfigOption = None
    metrics: MetricsOption = None
    window: WindowOption = None
    conf: common.ConfOption = None
    settings: common.SetOption = None
    ignored: common.IgnoreTopicsOption = None

    def read_settings(self) -> Settings:
        """Load the settings that the options ask for."""
        return common.read_settings(self.conf, self.settings, ignored=self.ignored)

    def read(self, source: str, settings: Settings, later: str | None = None) -> Snapshot:
        """Read a source as it is, and print warnings.

        later: another source that the command reads with `read_later`, for which --command-config or --format may be.
        """
        loads = MetricsRequest.of_options(self.metrics, self.window, settings)
        opened = open_source(source, self.command_config, loads, self.format_name, later)
        snapshot = common.read_snapshot(opened, None if is_live(source) else self.format_name, settings)
        common.warn_of_unmatched_patterns(self.ignored, snapshot.topics)
        return snapshot

    def read_later(self, source: str, settings: Settings, first: str) -> Snapshot:
        """Read a source of the same cluster at a later time, without loads. first: the other source."""
        opened = open_source(source, self.command_config, None, self.format_name, first)
        return common.read_snapshot(opened, None if is_live(source) else self.format_name, settings)

    def apply(self, snapshot: Snapshot, defaults: TopicDefaults) -> Snapshot:
        """Return the snapshot with brokers down, then others back, and then after the plans, and say so."""
        snapshot = _fail_brokers(snapshot, self.down, defaults)
        return _apply_plans(_return_brokers(snapshot, self.returned, defaults), self.after)

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The options that were written, each with its values."""
        values = {
            "--down": [self.down] if self.down else [],
            "--return": [self.returned] if self.returned else [],
            "--after": self.after or (),
            "--ignore-topics": self.ignored or (),
            "--conf": [self.conf] if self.conf else [],
            "--set": self.settings or (),
            "--format": [self.format_name] if self.format_name else [],
            "--command-config": [self.command_config] if self.command_config else [],
            "--metrics": [hide_secrets(text) for text in self.metrics or ()],
            "--window": [print_window(self.window)] if self.window else [],
        }
        return {option: tuple(map(str, texts)) for option, texts in values.items() if texts}

    def quote_with(self, source: str) -> str:
        """Return a source with these options, as the commands of next steps name it, quoted for a shell."""
        return shlex.join(
            [source, *(word for option, texts in self.values.items() for text in texts for word in (option, text))]
        )


def _apply_plans(snapshot: Snapshot, folders: Sequence[Path] | None) -> Snapshot:
    """Return the snapshot after the plans of folders, one after the other, and say so; without a folder, as it is."""
    if not folders:
        return snapshot
    from pipelines.execution.journal import Journal
    from pipelines.plan_files.consecutive_plans import find_follower
    from pipelines.plan_files.fault_sentences import describe_changed
    from pipelines.plan_files.plan_reader import read_plan
    from pipelines.plan_files.planned_cluster import find_target, select_reassigned
    from pipelines.plan_files.state_after_plan import assume_applied, find_lists

    plans, lists = [(folder, read_plan(folder)) for folder in folders], find_lists(snapshot.partitions)
    running = select_reassigned(snapshot.partitions).to_pylist()
    for number, (folder, plan) in enumerate(plans):
        if follower := find_follower(plan, plans[number + 1 :], lists):
            print_message(f"the plan in {folder} is done, and the plan in {follower} followed it")
            continue
        moving = ((plan.changes.get((row["topic"], row["partition"])), find_target(row) or ()) for row in running)
        if any(change is not None and change.find(target) is not None for change, target in moving):
            print_message(f"the plan in {folder} is being executed: wait for it before you execute another plan")
        at = Journal.open(folder).applied_at
        now = {} if at is None else find_lists(snapshot.partitions)
        moved_on = [key for key, change in plan.changes.items() if key in now and change.find(now[key]) is None]
        if moved_on:
            text = f"the plan in {folder} was carried out until {at}; since then, {describe_changed(moved_on)}"
            print_message(f"{text}: what was changed stays as it is")
            changes = {key: change for key, change in plan.changes.items() if key not in moved_on}
            plan = replace(plan, changes=changes, election=tuple(key for key in plan.election if key in changes))
        snapshot = assume_applied(snapshot, plan, folder)
        changed = count_of(len(plan.changes), "partition")
        print_message(f"after the plan in {folder}: {changed} changed, all copies in sync, preferred leaders elected")
    return snapshot


def _fail_brokers(snapshot: Snapshot, brokers: str | None, defaults: TopicDefaults) -> Snapshot:
    """Return the snapshot with brokers (ids or racks) down, and say so; without any, as it is.

    Raises: typer.BadParameter for a broker that the cluster does not have.
    """
    if brokers is None:
        return snapshot
    from pipelines.verdict.cluster_evidence import name_with_noun
    from pipelines.what_if.failed_brokers import fail_brokers

    ids = find_known_brokers("--down", brokers, snapshot)
    were = "was" if len(ids) == 1 else "were"
    print_message(f"as if {name_with_noun(ids)} {were} down, and Kafka had elected leaders")
    return fail_brokers(snapshot, ids, defaults)


def _return_brokers(snapshot: Snapshot, brokers: str | None, defaults: TopicDefaults) -> Snapshot:
    """Return the snapshot with brokers (ids or racks) back and in sync, and say so; without any, as it is.

    Raises: typer.BadParameter for a broker that is not down, and whose replicas are all in sync.
    """
    if brokers is None:
        return snapshot
    from pipelines.cli.broker_order_rendering import describe_stays
    from pipelines.ingest.merge.live_brokers import get_down_brokers
    from pipelines.ingest.returned_brokers import find_missing_brokers, find_offline, return_brokers
    from pipelines.verdict.cluster_evidence import name_with_noun
    from udfs.failures.topic_defaults import KAFKA_DEFAULTS

    down = get_down_brokers(snapshot.brokers).tolist()
    missing = sorted({*down, *find_missing_brokers(snapshot, KAFKA_DEFAULTS)})
    ids = find_brokers("--return", brokers, snapshot)
    if others := [broker for broker in ids if broker not in missing]:
        these = f"brokers that are down or have replicas out of sync: {', '.join(map(str, missing))}"
        problem = f"{name_with_noun(others)} {is_or_are(len(others))} live with all replicas in sync"
        raise typer.BadParameter(f"--return: {problem}; {these if missing else 'so are all others'}")
    state = "was live, with all its replicas in sync" if len(ids) == 1 else "were live, with all their replicas in sync"
    returned = return_brokers(snapshot, ids, defaults)
    print_message(f"as if {name_with_noun(ids)} {state}{describe_stays(find_offline(returned, defaults), ids)}")
    return returned
