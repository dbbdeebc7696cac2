"""What a verdict says of the controller quorum."""

from collections.abc import Collection, Iterator

from pipelines.verdict import statements
from pipelines.verdict.cluster_evidence import ClusterFindings
from pipelines.verdict.verdict_points import VerdictPoint
from udfs.failures.controller_quorum import UNKNOWN_VOTER, QuorumVoters
from udfs.plurals import count_of, join_names


def explain_lost_majority(quorum: QuorumVoters, failed: Collection[int]) -> tuple[VerdictPoint, ...]:
    """Say that no majority of voters is left once nodes failed, or was left before."""
    if quorum.spare < 0:
        return (_describe_lost_quorum(quorum),)
    voters = count_of(len(quorum.voters), "voter")
    lost, others = (sorted({*ids}) for ids in ({*quorum.voters} & {*failed}, {*quorum.lagging} - {*failed}))
    lagging = f" (down or lagging already: {join_names(others)})" if others else ""
    return (statements.MAJORITY_FAILS.fill(len(lost), voters=voters, lagging=lagging),)


def _describe_lost_quorum(quorum: QuorumVoters) -> VerdictPoint:
    nodes = "no source shows which" if UNKNOWN_VOTER in quorum.voters else join_names(quorum.lagging)
    return statements.QUORUM_LOST.fill(len(quorum.lagging), nodes=nodes)


def describe_lagging_voters(quorum: QuorumVoters, more: str) -> VerdictPoint:
    """Say which voters are down or lag, and what that leaves."""
    voters = count_of(len(quorum.voters), "voter")
    names = join_names(quorum.lagging)
    return statements.VOTERS_LAG.fill(len(quorum.lagging), nodes=names, voters=voters, more=more)


def judge_quorum(findings: ClusterFindings) -> Iterator[VerdictPoint]:
    """Say whether the quorum has a majority, and what would take it away."""
    quorum = findings.quorum
    if not quorum.voters:
        return
    voters = count_of(len(quorum.voters), "voter")
    if quorum.spare < 0:
        yield _describe_lost_quorum(quorum)
    elif quorum.lagging:
        more = f"only {count_of(quorum.spare, 'other voter')} may fail" if quorum.spare else "no other voter may fail"
        yield describe_lagging_voters(quorum, more)
    elif quorum.spare == 0:
        yield statements.NO_SPARE_VOTER.fill(len(quorum.voters))
    if findings.voter_rack is not None and quorum.spare > 0:
        yield statements.VOTERS_IN_ONE_RACK.fill(rack=findings.voter_rack, voters=voters)
    if len(quorum.voters) % 2 == 0:
        yield statements.EVEN_VOTERS.fill(len(quorum.voters))
