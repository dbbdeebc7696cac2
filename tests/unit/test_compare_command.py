"""`compare`: the figures of made-up mixes, against a replay of their placements."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pipelines.cli import main
from udfs.failures.scheme_study import Mix, _place, study


@pytest.mark.parametrize("scheme", ["kafka", "kraft", "naive"])
@pytest.mark.parametrize("mix", [Mix(7, 0, 5, 3, 9), Mix(8, 3, 1, 2, 30), Mix(1, 1, 4, 1, 2), Mix(4, 2, 6, 1, 3)])
def test_figures_are_those_of_a_replay(mix: Mix, scheme: str) -> None:
    found = study(mix, scheme, 5, 3)
    assert len(found.worst_survivor) == (1 if scheme == "naive" else 3)
    for i in range(len(found.worst_survivor)):
        placed = _place(mix, scheme, 5 + i)
        rows = [part.tolist() for part in np.split(placed.broker, placed.replica_offsets[1:-1])]
        assert len(rows) == mix.topics * mix.partitions
        led = Counter(row[0] for row in rows)
        worst, takeover_brokers = [], []
        for down in range(mix.brokers):
            after = {b: 0 for b in range(mix.brokers) if b != down}
            takers = set()
            for row in rows:
                left = [b for b in row if b != down]
                if left:
                    after[left[0]] += 1
                    if row[0] == down:
                        takers.add(left[0])
            if sum(after.values()):
                worst.append(max(after.values()) * len(after) / sum(after.values()))
            if led[down]:
                takeover_brokers.append(len(takers))
        assert found.worst_survivor[i] == pytest.approx(max(worst)) if worst else np.isnan(found.worst_survivor[i])
        assert (
            found.takeover_brokers[i] == min(takeover_brokers)
            if mix.brokers > 1
            else np.isnan(found.takeover_brokers[i])
        )
        assert found.copysets[i] == len({frozenset(row) for row in rows})


def test_the_table_and_its_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "answer.json"
    options = ["--brokers", "6,12", "--racks", "0,3", "--partitions", "6", "--rf", "3,7", "--led", "20", "--seeds", "5"]
    assert main(["compare", *options, "--json", str(out)]) in (0, None)
    answer = json.loads(out.read_text())
    assert [(m["brokers"], m["racks"], m["replication_factor"]) for m in answer["mixes"]] == [
        (6, 0, 3),
        (6, 3, 3),
        (12, 0, 3),
        (12, 0, 7),
        (12, 3, 3),
        (12, 3, 7),
    ]
    verdict = answer["verdict"]["worst_survivor_max_over_mean"]
    assert verdict["mixes"] == 6
    assert verdict["kraft_higher"] + verdict["kraft_lower"] <= 6
    said = capsys.readouterr().out
    assert f"worst survivor: of 6 mixes kraft is higher in {verdict['kraft_higher']}" in said
    medians = {
        name: answer["mixes"][1]["schemes"][name]["worst_survivor_max_over_mean"]["p50"] for name in ("kafka", "kraft")
    }
    assert f"{medians['kafka']:.3f}" in said
    assert f"{medians['kraft'] / medians['kafka']:.2f}" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--brokers", "6,x"], "--brokers 6,x: write numbers from 1 to 5000"),
        (["--brokers", "2", "--rf", "3"], "no combination can be placed"),
        (["--led", "100000", "--brokers", "1000"], "partitions would be placed, at most"),
    ],
)
def test_what_cannot_be_compared(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *options]) == 1
    assert words in capsys.readouterr().err
