"""`compare`: figures of synthetic clusters, compared with an election in plain Python."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pipelines.cli import main
from udfs.failures.scheme_distribution import SyntheticCluster, measure_scheme, place_cluster

CLUSTERS = (
    SyntheticCluster(7, 0, 5, 3, 9),
    SyntheticCluster(8, 3, 1, 2, 30),
    SyntheticCluster(1, 1, 4, 1, 2),
    SyntheticCluster(4, 2, 6, 1, 3),
)


@pytest.mark.parametrize("scheme", ["kafka", "kraft", "naive"])
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_figures_equal_an_election_in_plain_python(cluster: SyntheticCluster, scheme: str) -> None:
    figures = measure_scheme(cluster, scheme, 5, 3)
    ratios, fewest = figures["worst_survivor_ratio"], figures["fewest_takeover_brokers"]
    assert len(ratios) == (1 if scheme == "naive" else 3)
    for i in range(len(ratios)):
        placements = place_cluster(cluster, scheme, 5 + i)
        rows = [part.tolist() for part in np.split(placements.broker, placements.replica_offsets[1:-1])]
        assert len(rows) == cluster.topics * cluster.partitions_per_topic
        leaders = Counter(row[0] for row in rows)
        worst, takeover_brokers = [], []
        for failed in range(cluster.brokers):
            after = {b: 0 for b in range(cluster.brokers) if b != failed}
            successors = set()
            for row in rows:
                survivors = [b for b in row if b != failed]
                if survivors:
                    after[survivors[0]] += 1
                    if row[0] == failed:
                        successors.add(survivors[0])
            if sum(after.values()):
                worst.append(max(after.values()) * len(after) / sum(after.values()))
            if leaders[failed]:
                takeover_brokers.append(len(successors))
        assert ratios[i] == pytest.approx(max(worst)) if worst else np.isnan(ratios[i])
        assert fewest[i] == min(takeover_brokers) if cluster.brokers > 1 else np.isnan(fewest[i])
        assert figures["copysets"][i] == len({frozenset(row) for row in rows})


def test_the_table_and_its_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "answer.json"
    options = ["--brokers", "6,12", "--racks", "0,3", "--partitions", "6", "--rf", "3,7", "--seeds", "5"]
    assert main(["compare", *options, "--leaders-per-broker", "20", "--json", str(out)]) in (0, None)
    answer = json.loads(out.read_text())
    clusters = [studied["cluster"] for studied in answer["clusters"]]
    assert [(c["brokers"], c["racks"], c["replication_factor"]) for c in clusters] == [
        (6, 0, 3),
        (6, 3, 3),
        (12, 0, 3),
        (12, 0, 7),
        (12, 3, 3),
        (12, 3, 7),
    ]
    verdict = answer["verdicts"]["worst_survivor_ratio"]
    assert verdict["clusters"] == 6
    assert verdict["kraft_higher"] + verdict["kraft_lower"] <= 6
    printed = capsys.readouterr().out
    assert f"worst survivor: of 6 clusters kraft is higher in {verdict['kraft_higher']}" in printed
    schemes = answer["clusters"][1]["schemes"]
    medians = {name: schemes[name]["worst_survivor_ratio"]["p50"] for name in ("kafka", "kraft")}
    assert f"{medians['kafka']:.3f}" in printed
    assert f"{medians['kraft'] / medians['kafka']:.2f}" in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--brokers", "6,x"], "--brokers 6,x: write numbers from 1 to 5000"),
        (["--brokers", "2", "--rf", "3"], "no combination can be placed"),
        (["--leaders-per-broker", "100000", "--brokers", "1000"], "partitions; the limit is"),
    ],
)
def test_invalid_options(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *options]) == 1
    assert message in capsys.readouterr().err
