"""Findings that are new, known, acknowledged or resolved, and how they are told to other systems."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.alerts.alert_outputs import (
    AlertReport,
    build_alerts_json,
    describe_alerts,
    post_alerts,
    render_prometheus,
    write_alert_files,
)
from pipelines.alerts.findings import (
    BROKER_DOWN,
    ISSUE_LEVELS,
    AlertFinding,
    AlertState,
    JudgedFinding,
    Threshold,
    ThresholdResult,
    judge_findings,
)
from pipelines.config.setting_sections import Acknowledgement
from pipelines.errors import SettingsError
from pipelines.verdict.cluster_evidence import PartitionIssue
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.verdict_points import Level

TODAY = date(2026, 11, 25)
TEMPORARY = AlertFinding("prod", "offline_if_broker_fails", "tmp-a", 10)
ORDERS = AlertFinding("prod", "offline", "orders", 1)
DOWN = AlertFinding("eu", "broker_down", "9")
FIRING, ACKNOWLEDGED, RESOLVED = AlertState


def acknowledge(subject: str, **values: Any) -> Acknowledgement:
    return Acknowledgement(**{"subject": subject, "reason": "known", "until": TODAY} | values)


def judge(
    current: list[AlertFinding], previous: list[tuple[AlertFinding, AlertState]], *acknowledgements: Acknowledgement
) -> list[tuple[str, AlertState, bool]]:
    judged = judge_findings(current, previous, acknowledgements, TODAY)
    return [(one.finding.subject, one.state, one.is_new) for one in judged]


def test_a_finding_fires_once_and_again_after_it_was_resolved() -> None:
    assert judge([ORDERS], []) == [("orders", FIRING, True)]
    more = ORDERS._replace(partitions=5)
    assert judge([more], [(ORDERS, FIRING)]) == [("orders", FIRING, False)]
    assert judge([], [(ORDERS, FIRING)]) == [("orders", RESOLVED, False)]
    assert judge([], [(ORDERS, RESOLVED)]) == []
    assert judge([ORDERS], [(ORDERS, RESOLVED)]) == [("orders", FIRING, True)]


def test_an_acknowledged_finding_fires_when_the_acknowledgement_ends() -> None:
    pattern = acknowledge("tmp-*")
    assert judge([TEMPORARY, ORDERS], [], pattern) == [("tmp-a", ACKNOWLEDGED, False), ("orders", FIRING, True)]
    ended = acknowledge("tmp-*", until=date(2026, 11, 24))
    assert judge([TEMPORARY], [(TEMPORARY, ACKNOWLEDGED)], ended) == [("tmp-a", FIRING, True)]
    assert judge([TEMPORARY], [(TEMPORARY, FIRING)], pattern) == [("tmp-a", ACKNOWLEDGED, False)]


@pytest.mark.parametrize(
    ("values", "matches"),
    [
        ({}, True),
        ({"cluster": "p*"}, True),
        ({"cluster": "eu"}, False),
        ({"issue": "offline"}, False),
        ({"issue": "offline*"}, True),
        ({"subject": "TMP-a"}, False),
    ],
)
def test_every_pattern_of_an_acknowledgement_matches(values: dict[str, str], matches: bool) -> None:
    (one,) = judge([TEMPORARY], [], acknowledge(**{"subject": "tmp-?"} | values))
    assert (one[1] is ACKNOWLEDGED) is matches


def test_a_finding_that_the_sources_do_not_show_stays_as_it_was() -> None:
    before = [(ORDERS, FIRING), (TEMPORARY, ACKNOWLEDGED), (DOWN, FIRING)]
    pattern = acknowledge("tmp-*")
    judged = judge_findings([], before, [pattern], TODAY, Level.WARNING, {ORDERS.key, TEMPORARY.key})
    assert [(one.finding, one.state, one.is_changed, one.is_shown) for one in judged] == [
        (ORDERS, FIRING, False, False),
        (TEMPORARY, ACKNOWLEDGED, False, False),
        (DOWN, RESOLVED, True, True),
    ]
    answer = build_alerts_json(build_report(judged))
    ongoing = next(one["ongoing"] for one in answer["clusters"] if one["cluster_id"] == "prod")
    assert ongoing == [{"issue": "offline", "subject": "orders", "partitions": 1, "is_shown": False}]
    fewer = ORDERS._replace(partitions=0)
    (one,) = judge_findings([fewer], before[:1], (), TODAY, Level.WARNING, {ORDERS.key})
    assert (one.finding, one.is_shown) == (fewer, True)


def build_report(findings: list[JudgedFinding]) -> AlertReport:
    verdicts = {
        'blue "a"': Verdict(Level.OK, "Any single broker can fail.", ()),
        "prod": Verdict(Level.AT_RISK, "1 partition is offline now.", ()),
        "eu": Verdict(Level.WARNING, "Broker 9 is down.", ()),
    }
    threshold = Threshold("copysets > 3", None, "copysets", ">", 3)
    results = [ThresholdResult("prod", threshold, 4.0, True), ThresholdResult("eu", threshold, 2.0, False)]
    return AlertReport(datetime(2026, 11, 25, 2, 0, tzinfo=UTC), verdicts, findings, results)


REPORT = build_report(
    [
        JudgedFinding(ORDERS, FIRING, True),
        JudgedFinding(TEMPORARY._replace(subject="b"), FIRING, False),
        JudgedFinding(TEMPORARY, ACKNOWLEDGED, True, acknowledge("tmp-*")),
        JudgedFinding(DOWN, FIRING, True),
        JudgedFinding(ORDERS._replace(subject="old"), RESOLVED, True),
    ]
)


def test_the_message_has_what_is_new() -> None:
    assert describe_alerts(REPORT) == [
        "prod: new: 1 partition is offline now: orders (1)",
        "eu: new: broker 9 is down",
        "prod: copysets is 4: copysets > 3",
    ]
    many = build_report([JudgedFinding(TEMPORARY._replace(subject=f"t{i}"), FIRING, True) for i in range(5)])
    line = "prod: new: 50 partitions would go offline if one broker fails: t0 (10), t1 (10), t2 (10) and 2 more topics"
    assert describe_alerts(many)[0] == line


def test_quiet_nights_fire_nothing() -> None:
    quiet = AlertReport(REPORT.created_at, REPORT.verdicts, REPORT.findings[1:3], REPORT.thresholds[1:])
    assert describe_alerts(quiet) == []
    assert not quiet.is_firing
    assert REPORT.is_firing


def test_prometheus_text() -> None:
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(render_prometheus(REPORT))
        for sample in family.samples
    }
    prefix = "kafka_placement_"
    assert samples[prefix + "verdict", "prod", "at_risk"] == 1
    assert samples[prefix + "verdict", "prod", "ok"] == 0
    assert samples[prefix + "verdict", 'blue "a"', "ok"] == 1
    assert samples[prefix + "findings", "prod", "offline_if_broker_fails", "firing"] == 1
    assert samples[prefix + "issue_partitions", "prod", "offline_if_broker_fails", "acknowledged"] == 10
    assert samples[prefix + "findings", "eu", "broker_down", "firing"] == 1
    assert samples[prefix + "new_findings", "prod"] == 1
    assert samples[prefix + "threshold_crossed", "prod", "copysets > 3"] == 1
    assert samples[prefix + "metric_value", "eu", "copysets"] == 2
    assert samples[prefix + "run_timestamp_seconds", "eu"] == REPORT.created_at.timestamp()
    assert not any("resolved" in key for key in samples)


def test_json() -> None:
    answer = json.loads(json.dumps(build_alerts_json(REPORT)))
    by_name = {one["cluster_id"]: one for one in answer["clusters"]}
    assert by_name["prod"]["level"] == "at_risk"
    assert by_name["prod"]["new"] == [{"issue": "offline", "subject": "orders", "partitions": 1}]
    assert [one["subject"] for one in by_name["prod"]["ongoing"]] == ["b"]
    assert by_name["prod"]["acknowledged"][0]["until"] == "2026-11-25"
    assert [one["subject"] for one in by_name["prod"]["resolved"]] == ["old"]
    assert by_name["eu"]["new"] == [{"issue": "broker_down", "subject": "9"}]
    assert [one["is_crossed"] for one in answer["thresholds"]] == [True, False]


def test_files_are_replaced_and_errors_name_the_setting(tmp_path: Path) -> None:
    files = tmp_path / "a.prom", tmp_path / "a.json"
    for file in files:
        file.write_text("old")
    write_alert_files(REPORT, *map(str, files))
    assert "kafka_placement_verdict" in files[0].read_text()
    assert json.loads(files[1].read_text())["created_at"] == "2026-11-25T02:00:00+00:00"
    assert sorted(tmp_path.iterdir()) == sorted(files)
    with pytest.raises(SettingsError, match=r"alerts\.prometheus_file .*none/a\.prom: cannot be written: No such file"):
        write_alert_files(REPORT, str(tmp_path / "none" / "a.prom"), "")


@contextmanager
def serve(*codes: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A webhook that answers with these codes in turn."""
    bodies: list[dict[str, Any]] = []
    answers = iter(codes)

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(next(answers))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Webhook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/services/SECRET", bodies
    finally:
        server.shutdown()
        server.server_close()


def test_a_webhook_gets_text_and_is_tried_again() -> None:
    with serve(503, 200) as (url, bodies):
        assert post_alerts(url, describe_alerts(REPORT)) == ""
    assert len(bodies) == 2
    assert bodies[-1] == {"text": "\n".join(describe_alerts(REPORT))}
    with serve(200) as (url, bodies):
        assert post_alerts(url, [f"line {i}" for i in range(33)]) == ""
    assert bodies[0]["text"].splitlines()[-2:] == ["line 29", "and 3 more alerts"]


def test_a_webhook_that_fails_does_not_leak_its_address() -> None:
    with serve(404) as (url, _):
        assert post_alerts(url, ["a"]) == "127.0.0.1 answers 404 Not Found"
    problem = post_alerts("http://127.0.0.1:1/services/SECRET", ["a"])
    assert problem.startswith("127.0.0.1: ConnectionError")
    assert "SECRET" not in problem + post_alerts("hooks/SECRET", ["a"])


def test_each_issue_has_a_level_and_a_sentence() -> None:
    for issue in (*PartitionIssue, BROKER_DOWN):
        finding = JudgedFinding(AlertFinding("prod", issue, "7", 3), FIRING, True)
        (line,) = describe_alerts(AlertReport(datetime.now(UTC), {}, [finding], []))
        assert line.startswith("prod: new: ")
        assert ISSUE_LEVELS[issue] in (Level.AT_RISK, Level.WARNING)


def test_findings_below_the_level_neither_fire_nor_are_resolved() -> None:
    lagging = AlertFinding("prod", "under_replicated", "orders", 3)
    (fired,) = judge_findings([lagging], [], (), TODAY, Level.WARNING)
    assert fired.is_new
    assert judge_findings([lagging], [(lagging, fired.state)], (), TODAY, Level.AT_RISK) == []
    (resolved,) = judge_findings([], [(lagging, fired.state)], (), TODAY, Level.AT_RISK)
    assert resolved.state is AlertState.RESOLVED
