"""`hotspots`: the hottest broker now and by chance, for a captured cluster and for edge cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines import cli
from pipelines.cli.hotspots_command import find_snapshot_hotspots, format_hotspots, parse_schemes
from pipelines.errors import SettingsError
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.verdict.judgement import describe_election
from pipelines.verdict.snapshot_findings import find_findings
from tests.commands import call
from udfs.hotspots.hotspot_distribution import TrialOptions
from udfs.hotspots.hotspots_by_scheme import ClusterHotspots

OPTIONS = TrialOptions(("kafka", "kraft", "naive"), 0, 50, 10**8, (1.1, 1.25))


def find(folder: Path) -> ClusterHotspots:
    return find_snapshot_hotspots(load_snapshot(find_source(str(folder))), OPTIONS)


def format_lines(folder: Path) -> list[str]:
    snapshot = load_snapshot(find_source(str(folder)))
    return list(format_hotspots(find(folder), find_findings(snapshot), 1.25))


def write_describe(folder: Path, *partitions: str) -> Path:
    (folder / "describe.txt").write_text("\n".join(partitions) + "\n")
    return folder


def describe_line(topic: str, number: int, leader: int | str, replicas: str, isr: str) -> str:
    return f"Topic: {topic}\tPartition: {number}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {isr}"


def test_a_captured_cluster(samples: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    source = str(samples / "kafka-4.1.1-kraft")
    assert cli.main(["hotspots", source, "--seeds", "20", "--threshold", "1.05", "--json", str(answer)]) == 0
    printed = capsys.readouterr().out
    for text in ("now: broker 0 leads 130 of 743 partitions", "kafka", "kraft", "naive", "seeds above", "1.05"):
        assert text in printed
    # The path of the source may have any length.
    assert max(map(len, printed.replace(source, "SOURCE").splitlines())) <= 120
    hotspots = json.loads(answer.read_text())
    assert hotspots["observed"]["max_over_mean_ratio"] == pytest.approx(1.0498, abs=1e-4)
    naive = hotspots["schemes"]["naive"]
    # All single-partition topics and all partitions beyond whole rounds are on the first broker.
    assert (naive["seeds"], round(naive["leaders_max_over_mean_p50_ratio"] * naive["leaders_mean"])) == (1, 179)
    assert naive["leaders_max_over_mean_p50_ratio"] == pytest.approx(1.4455, abs=1e-4)
    kafka = hotspots["schemes"]["kafka"]
    assert kafka["seeds"] == 20
    assert [entry["above_ratio"] for entry in kafka["exceedance_probabilities"]] == [1.05, 1.1, 1.25, 1.5, 2.0]
    p5, p50, highest = (kafka[f"leaders_max_over_mean_{name}_ratio"] for name in ("p5", "p50", "highest"))
    assert p5 <= p50 <= highest
    assert kafka["single_partition_topics"] == 35


def test_only_live_brokers_count(tmp_path: Path) -> None:
    lines = [describe_line("a", i, 1, "1,2", "1") for i in range(3)]  # broker 2 is in no ISR
    header = "Topic: a\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: "  # without it, the listing may be filtered
    folder = write_describe(tmp_path, header, *lines, describe_line("b", 0, 1, "1", "1"))
    answer = find(folder)
    assert answer.live_brokers == 1
    for hotspots in answer.schemes.values():
        facts = hotspots.facts
        assert (facts.unplaceable_topics, facts.partitions) == (1, 1)  # two replicas need two brokers
        assert hotspots.leaders is not None
        assert hotspots.leaders.percentile(100) / hotspots.leaders.mean == 1.0
        assert [hotspots.leaders.exceedance_probability(ratio) for ratio in (1.1, 1.25)] == [0.0, 0.0]
    assert "  note: kafka cannot place 1 topic on these brokers; not counted" in format_lines(folder)


def test_no_live_brokers(tmp_path: Path) -> None:
    folder = write_describe(tmp_path, describe_line("a", 0, "none", "1,2", ""))
    answer = find(folder)
    assert answer.live_brokers == 0
    assert answer.observed.leaders_max is None
    assert {(found.seeds, found.facts.unplaceable_topics) for found in answer.schemes.values()} == {(0, 1)}
    assert format_lines(folder)[1] == "  now: no live broker leads a partition"


def test_the_question_is_answered_first(tmp_path: Path) -> None:
    header = "Topic: a\tPartitionCount: 40\tReplicationFactor: 1\tConfigs: "
    leaders = {"uneven": [1] * 30 + [1, 2, 3, 4] * 2 + [3, 4], "even": [1, 2, 3, 4] * 10}
    first = {}
    for name, ids in leaders.items():
        lines = (describe_line("a", i, broker, str(broker), str(broker)) for i, broker in enumerate(ids))
        first[name] = format_lines(write_describe(tmp_path, header, *lines))[0]
    own = "times the mean; Kafka's own placement"
    seeds = "has more in 0 % of seeds (median 1.00, p95 1.00)"
    assert first == {
        "uneven": f"Not chance: broker 1 leads 3.20 {own} {seeds}.",
        "even": f"No hotspot: broker 1 leads 1.00 {own} {seeds}.",
    }


@pytest.mark.parametrize(
    ("preferred", "leaders", "sentence", "has_step"),
    [
        ([1, 2, 1, 2], [1, 2, 1, 2], "An election changes nothing: each preferred leader that is in sync leads", False),
        ([1, 2, 2, 1], [1, 1, 1, 1], "2 partitions are not led by their preferred leader; after their election", True),
        ([1, 1, 1, 2], [1, 2, 1, 2], "1 partition is not led by its preferred leader; after their election", False),
    ],
)
def test_what_an_election_would_change(
    tmp_path: Path, preferred: list[int], leaders: list[int], sentence: str, has_step: bool
) -> None:
    """The sentence is the verdict's; the step is there only if it helps."""
    header = "Topic: a\tPartitionCount: 4\tReplicationFactor: 2\tConfigs: "
    replicas = {1: "1,2", 2: "2,1"}
    lines = [describe_line("a", i, leaders[i], replicas[broker], "1,2") for i, broker in enumerate(preferred)]
    folder = write_describe(tmp_path, header, *lines)
    found = format_lines(folder)[1:3]
    assert found[0].startswith(sentence)
    assert found[1].startswith("next: elect the preferred leaders") is has_step
    points = describe_election(find_findings(load_snapshot(find_source(str(folder)))), None)
    assert [point.text for point in points] == [line for line in found[:1] if preferred != leaders]


def test_small_racks_explain_the_leaders_of_kraft(tmp_path: Path) -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    lines = [describe_line("a", i, i % 3 + 1, str(i % 3 + 1), str(i % 3 + 1)) for i in range(60)]
    header = "Topic: a\tPartitionCount: 60\tReplicationFactor: 1\tConfigs: "
    write_describe(tmp_path, header, *lines)
    text = (
        "  note: kraft (KRaft's placement) gives racks about as many leaders: with racks of 2 and 1 broker, one in a "
        "small rack leads 1.35 x the mean\n"
    )
    assert text not in call("hotspots", ".", folder=tmp_path).stdout
    rows = (f"{broker},{rack}" for broker, rack in racks.items())
    (tmp_path / "brokers.csv").write_text("\n".join(["broker_id,rack", *rows]) + "\n")
    assert text in call("hotspots", ".", folder=tmp_path).stdout


def test_krafts_scheme_leaves_out_cordoned_brokers(tmp_path: Path) -> None:
    lines = [describe_line("a", i, i % 3 + 1, str(i % 3 + 1), str(i % 3 + 1)) for i in range(60)]
    write_describe(tmp_path, "Topic: a\tPartitionCount: 60\tReplicationFactor: 1\tConfigs: ", *lines)
    configs = "Dynamic configs for broker 2 are:\n  cordoned.log.dirs=* sensitive=false synonyms={}\n"
    (tmp_path / "configs.txt").write_text(configs)
    hottest = {name: one.leaders.percentile(50) for name, one in find(tmp_path).schemes.items() if one.leaders}
    assert hottest == {"kraft": 30, "kafka": 20, "naive": 20}
    assert "  note: kraft places nothing on broker 2, which is cordoned" in format_lines(tmp_path)


def test_only_schemes_that_compute_placements() -> None:
    assert parse_schemes("naive, kafka,naive") == ("naive", "kafka")
    for name in ("observed", "nonsense", ""):
        with pytest.raises(SettingsError, match="Choose from kafka"):
            parse_schemes(name)


def test_commands_name_a_live_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = "Topic: a\tPartitionCount: 4\tReplicationFactor: 2\tConfigs: "
    lines = [describe_line("a", i, 1, f"{i % 2 + 1},{2 - i % 2}", "1,2") for i in range(4)]
    folder = write_describe(tmp_path, header, *lines)
    (folder / "brokers.csv").write_text("id,rack,host,port\n1,a,b1.example,9094\n2,b,b2.example,9094\n")
    assert cli.main(["hotspots", str(folder), "--seeds", "2"]) == 0
    assert "kafka-leader-election --bootstrap-server b1.example:9094" in capsys.readouterr().out
