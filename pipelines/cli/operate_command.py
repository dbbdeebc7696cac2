"""`operate` and `approve`: plans that runs have proposed are approved, and carried out in their windows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.option_values import flag, option, parse_server
from pipelines.cli.source_arguments import CommandConfigOption
from pipelines.cli.text_format import print_line
from pipelines.errors import EXIT_PARTLY_APPLIED
from udfs.wording import format_bytes

if TYPE_CHECKING:
    from pipelines.operation.proposals import ProposalRecord

_ClusterArgument = Annotated[str, typer.Argument(help="The cluster, as runs name it.", metavar="CLUSTER")]


@app.command(rich_help_panel="Running clusters", epilog=examples("operate"))
def operate(
    cluster: _ClusterArgument,
    server: Annotated[
        str | None,
        option(
            "Brokers to connect to.",
            "HOST:PORT,...",
            "--bootstrap-server",
            parser=parse_server,
            default="none: only list the proposals",
        ),
    ] = None,
    command_config: CommandConfigOption = None,
    conf: common.ConfOption = None,
    changes: common.SetOption = None,
) -> None:
    """Carry out the approved proposals of a cluster that are in their window; one step, for a scheduler to repeat."""
    from pipelines.operation.proposals import ProposalFolder, ProposalState

    settings = common.read_settings(conf, changes)
    proposals = ProposalFolder(Path(settings.operation.proposals))
    if server is None:
        if not (records := proposals.list_open(cluster)):
            print_line(f"{proposals.root} has no open proposal for cluster {cluster}")
        for record in records:
            _print_proposal(record)
        return
    from pipelines.live.kafka_changes import KafkaAdmin
    from pipelines.live.live_sources import select_properties
    from pipelines.operation.kafka_executor import KafkaExecutor
    from pipelines.operation.nightly_proposals import open_repository
    from pipelines.operation.operating import Operation

    properties = select_properties(None, [command_config] if command_config else [])
    config = Path(command_config) if command_config else None
    with KafkaAdmin(server, properties) as connection:
        connection.describe_cluster()  # a cluster that does not answer is an error, and not a proposal that waits

        others = [one.plan_folder for one in proposals.list_all(cluster)]

        def make_executor(record: ProposalRecord) -> KafkaExecutor:
            return KafkaExecutor(record.plan_folder, connection, settings, print_line, config, others)

        policies = settings.operation.policies
        operation = Operation(proposals, policies, make_executor, lambda: datetime.now(UTC), open_repository(settings))
        failures = {record.proposal.id: record.failures for record in proposals.list_open(cluster)}
        failed = False
        for record, sentence in operation.step(cluster):
            print_line(f"{record.proposal.id}: {sentence}")
            failed |= record.state is ProposalState.FAILED or record.failures > failures.get(record.proposal.id, 0)
            failed |= record.explain_changed_plan() is not None  # somebody should know
    if failed:
        raise typer.Exit(EXIT_PARTLY_APPLIED)


def _print_proposal(record: ProposalRecord) -> None:
    proposal = record.proposal
    size = "an unknown size" if proposal.bytes_to_copy is None else format_bytes(proposal.bytes_to_copy)
    print_line(f"{proposal.id}: {record.state}, {proposal.level}, copies {size}")
    print_line(f"  for: {proposal.reason}")
    if (changed := record.explain_changed_plan()) is not None:
        print_line(f"  {changed} since it was proposed: the next step ends it")
    print_line(f"  plan: {record.plan_folder}; to begin before {proposal.expires_at:%Y-%m-%d %H:%M} UTC")


@app.command(rich_help_panel="Running clusters", epilog=examples("approve"))
def approve(
    proposal_id: Annotated[str, typer.Argument(help="The proposal, as `operate` lists it.", metavar="ID")],
    by: Annotated[str, option("Who approves it.", "NAME", "--by")],
    reject: Annotated[bool, flag("reject", "Reject it instead.")] = False,
    conf: common.ConfOption = None,
    changes: common.SetOption = None,
) -> None:
    """Approve a plan that a run has proposed: `operate` carries out exactly its files, in the next window."""
    from pipelines.operation.proposals import ProposalFolder, ProposalState, write_approval

    settings = common.read_settings(conf, changes)
    proposals, now = ProposalFolder(Path(settings.operation.proposals)), datetime.now(UTC)
    with proposals.lock():
        record = proposals.find(proposal_id)
        if reject:
            proposals.change(record, ProposalState.REJECTED, now, by=by)
        else:
            write_approval(record, by, now)
    print_line(f"{proposal_id} is {'rejected' if reject else 'approved'} by {by}: digest {record.proposal.digest[:12]}")
