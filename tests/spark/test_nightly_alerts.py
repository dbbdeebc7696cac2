"""Alerts of nightly runs: what is new fires once, whatever else happens in between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import FINDINGS_ONLY, call_run

ROW = "\tTopic: {}\tPartition: {}\tLeader: {}\tReplicas: {}\tIsr: {}\n"
BROKERS = "broker_id,host,rack\n1,a,x\n2,b,y\n3,c,x\n"
HEALTHY = [("orders", 0, 1, "1,2", "1,2"), ("orders", 1, 2, "2,3", "2,3"), ("orders", 2, 3, "3,2", "3,2")]
SINGLE = [("tmp-a", 0, 1, "1", "1")]


def describe(*rows: tuple[str, int, int, str, str]) -> str:
    return "".join(ROW.format(*row) for row in rows)


@pytest.mark.slow
def test_what_is_new_fires_once(tmp_path: Path) -> None:
    source, files = tmp_path / "prod.txt", (tmp_path / "a.prom", tmp_path / "a.json")
    outputs = [f"alerts.{name}_file={file}" for name, file in zip(("prometheus", "json"), files, strict=True)]
    arguments = [str(source), *FINDINGS_ONLY, "--no-report", "--warehouse", str(tmp_path / "warehouse")]
    arguments += [part for output in outputs for part in ("--set", output)]

    def run(text: str, code: int, *more: str) -> list[str]:
        source.write_text(text)
        return [
            line.removeprefix("kafka-placement: ")
            for line in call_run(*arguments, *more, code=code).stderr.splitlines()
        ]

    new = "alert: prod: new: 1 partition would go offline if one broker fails: {} (1)"
    assert run(describe(*HEALTHY, *SINGLE), 4) == [new.format("tmp-a")]
    lost = [("logs", 0, 2, "2", "2")]
    known = "no alert for 1 finding reported before"
    assert run(describe(*HEALTHY, *SINGLE, *lost), 4) == [new.format("logs"), known]
    assert 'state="firing"} 2.0' in files[0].read_text()
    assert json.loads(files[1].read_text())["clusters"][0]["ongoing"][0]["subject"] == "tmp-a"
    conf = tmp_path / "conf.toml"
    conf.write_text('[[alerts.acknowledged]]\nsubject = "tmp-*"\nreason = "temporary"\nuntil = 2100-01-01\n')
    line = "no alert for 1 acknowledged finding, 1 resolved finding"
    assert run(describe(*HEALTHY, *SINGLE), 0, "--conf", str(conf)) == [line]
    assert run(describe(*HEALTHY, *SINGLE), 4) == [new.format("tmp-a")]
    conf.write_text(conf.read_text().replace("2100", "2020"))
    ended = "warning: alerts.acknowledged: 'tmp-*' ended on 2020-01-01: remove it, or extend it (temporary)"
    assert run(describe(*HEALTHY, *SINGLE), 0, "--conf", str(conf)) == [ended, known]


@pytest.mark.slow
def test_alerts_that_are_not_delivered_are_sent_again(tmp_path: Path) -> None:
    source = tmp_path / "prod.txt"
    source.write_text(describe(*HEALTHY, *SINGLE))
    arguments = [str(source), *FINDINGS_ONLY, "--no-report", "--warehouse", str(tmp_path / "warehouse")]
    hook = ["--set", "alerts.webhook=http://127.0.0.1:1/services/SECRET"]
    for _ in range(2):
        output = call_run(*arguments, *hook, code=4)
        assert "alerts.webhook: 127.0.0.1: ConnectionError. The alerts were not delivered" in output.stderr
        assert "SECRET" not in output.stderr + output.stdout
    assert "alert: prod: new: 1 partition would go offline" in call_run(*arguments, "--alert", "new", code=4).stderr
    assert "1 finding reported before" in call_run(*arguments, *hook).stderr  # nothing to send
    text = "".join(file.read_text() for file in (tmp_path / "warehouse" / "ops").rglob("*.json"))
    assert "SECRET" not in text
