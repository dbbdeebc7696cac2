"""Five nights on a real cluster: plans are proposed, approved by merges, carried out in windows, and rolled back."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipelines.execution.cluster_view import view_cluster
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.operation.proposals import ProposalFolder, ProposalRecord, ProposalState
from tests.commands import call, call_run
from tests.live.kafka_cluster import KafkaCluster, wait_until
from tests.unit.operation.test_approvals import run_git

pytestmark = [pytest.mark.slow, pytest.mark.live]

_TOPICS = {
    "hot": ({p: [1, 2, 3] for p in range(12)}, {"min.insync.replicas": "2"}),
    "data": ({p: [p % 6 + 1, (p + 1) % 6 + 1, (p + 3) % 6 + 1] for p in range(12)}, {"min.insync.replicas": "2"}),
}
_POLICY = """
[[operation.policies]]
cluster = "prod"
goal = "{goal}"
cool_down_days = 0
stop_after_failures = 1
if_failed = "roll-back"
{more}
[[operation.policies.windows]]
begins = "{begins:%H:%M:%S}"
ends = "{ends:%H:%M:%S}"
"""


class Nights:
    """The cluster, its tables, and the repository in which merges approve proposals."""

    def __init__(self, folder: Path, cluster: KafkaCluster) -> None:
        self.folder, self.cluster = folder, cluster
        self.proposals = ProposalFolder(folder / "proposals")
        self.repository = folder / "repository"
        self.repository.mkdir()
        run_git(self.repository, "init", "--quiet", "-b", "main")
        run_git(self.repository, "commit", "--quiet", "--allow-empty", "-m", "Begin")
        self.first = datetime.now(UTC) - timedelta(days=6)
        self.open_window(-3600, -1800)

    def open_window(self, begins_s: float, ends_s: float) -> None:
        """Let windows begin and end so many seconds from now."""
        now = datetime.now(UTC)
        times = {"begins": now + timedelta(seconds=begins_s), "ends": now + timedelta(seconds=ends_s)}
        text = f'[operation]\nproposals = "{self.proposals.root}"\ngit_repository = "{self.repository}"\n'
        text += _POLICY.format(goal="failover", more="", **times)
        text += _POLICY.format(goal="repair", more='repair_after_hours = 20\nfindings = ["down"]', **times)
        (self.folder / "conf.toml").write_text(
            text + "[plans]\nthrottle_bytes_per_s = 200000\nwave_moves_per_broker = 1\n"
        )

    def run(self, night: int) -> str:
        """Run as the scheduler does each night."""
        source = f"prod=kafka://{self.cluster.bootstrap}"
        at = f"{self.first + timedelta(days=night):%Y-%m-%dT%H:%M:%S}"
        arguments = (source, "--warehouse", str(self.folder / "tables"), "--conf", str(self.folder / "conf.toml"))
        return call_run(*arguments, "--as-of", at, "--no-report", "--set", "failures.seeds=2").stdout

    def operate(self, code: int = 0) -> str:
        conf = ("--conf", str(self.folder / "conf.toml"))
        return call("operate", "prod", "--bootstrap-server", self.cluster.bootstrap, *conf, code=code).stdout

    def approve(self) -> ProposalRecord:
        """Merge the branch of the only open proposal."""
        (record,) = self.proposals.list_open("prod")
        run_git(self.repository, "merge", "--no-ff", "-m", "Approve", f"proposal/{record.proposal.id}")
        return record

    def get_state(self, record: ProposalRecord) -> ProposalState:
        return self.proposals.find(record.proposal.id).state


def test_five_nights(tmp_path: Path) -> None:
    running = KafkaCluster(tmp_path / "cluster", "kafka_4_1", brokers=6)
    try:
        running.start()
        running.create_topics(_TOPICS)
        running.wait_until_settled(24)
        running.produce({("data", p): 200 for p in range(12)})
        play_nights(Nights(tmp_path, running), running)
    finally:
        running.stop()


def play_nights(nights: Nights, running: KafkaCluster) -> None:
    assert "waits until 2 runs in a row have the finding" in nights.run(1)
    assert not nights.proposals.list_open()

    # The second night proposes; it is carried out only once it is merged, and only in a window.
    assert "merge branch proposal/prod-failover-" in nights.run(2)
    assert "waits for approval" in nights.operate()
    leaders = nights.approve()
    assert "approved, waits for its next window" in nights.operate()
    nights.open_window(-60, 600)
    assert f"{leaders.proposal.id}: executed" in nights.operate()
    assert nights.proposals.find(leaders.proposal.id).approver == "Ada"
    with KafkaAdmin(running.bootstrap, ClientProperties()) as admin:
        led = [one.leader for one in view_cluster(admin).partitions.values()]
    assert max(map(led.count, range(1, 7))) <= 6  # of 24

    # A broker is lost. It may come back, so that only the second of its nights proposes a repair.
    running.nodes[6].kill()
    with KafkaAdmin(running.bootstrap, ClientProperties()) as admin:
        wait_until(lambda: 6 not in view_cluster(admin).live_brokers, "the controller does not fence broker 6")
    nights.run(3)
    assert not nights.proposals.list_open()
    output = nights.run(4)
    assert "merge branch proposal/prod-repair-" in output, output
    repair = nights.approve()
    assert repair.proposal.goal == "repair"

    # In the first window a broker is lost and does not come back: what has begun fails, and is rolled back in the next.
    nights.open_window(-60, 45)
    lost = threading.Timer(6, running.nodes[5].kill)
    lost.start()
    output = nights.operate(code=6)
    lost.join()
    assert "is rolled back in the next window" in output
    assert nights.get_state(repair) is ProposalState.EXECUTING
    assert "executing, waits for its next window" in nights.operate()
    for broker in (5, 6):
        running.restart(broker)
    running.wait_until_settled(24)
    nights.open_window(-60, 600)
    assert "rolled back" in nights.operate()
    assert nights.get_state(repair) is ProposalState.ROLLED_BACK
    with KafkaAdmin(running.bootstrap, ClientProperties()) as admin:
        lists = {key: list(one.replicas) for key, one in view_cluster(admin).partitions.items()}
    assert sum(6 in replicas for replicas in lists.values()) == 6
    assert "nothing to propose" in nights.run(5)
    rows = call(
        "query",
        "SELECT goal, state, approved_by, failures FROM gold.proposals ORDER BY proposed_at",
        "--warehouse",
        str(nights.folder / "tables"),
        "--json",
        "-",
    ).stdout
    assert '"executed"' in rows
    assert '"rolled back"' in rows
