"""What is asked of a Prometheus server, and what its answers and failures become."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

import pytest

from pipelines.errors import SourceError
from pipelines.ingest.formats.topic_loads import NO_RATES, WindowRates
from pipelines.metrics.load_reading import PrometheusServer, Window
from pipelines.metrics.metric_names import MetricNames

_WINDOW = Window(1_000.0, 621, 30, 20.0)  # 20 steps of 30 s, after the 21 s in which the sample before them is
_IN = "kafka_server_brokertopicmetrics_bytesin_total"
# Evaluated at 450, 480, ... 1020, this reads 379 to 430 and so on, until 949 to 1000.
_STEPS = "rate(%s[51s] offset 20s)[585s:30s]"
_TOPIC = f'{_IN}{{cluster="prod",topic!=""}}'
_TOTAL = f'{_IN}{{cluster="prod",topic=""}}'


class _Server(HTTPServer):
    """Answers the queries in `answers`, with one series each, and all others with none; notes what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, str] = {}
        self.queries: list[str] = []
        self.times: dict[str, float] = {}
        self.failure: tuple[int, str] | None = None
        self.too_many: set[str] = set()  # queries that it rejects
        self.tenants: set[str | None] = set()


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        fields = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        (query,) = fields["query"]
        self.server.queries.append(query)
        self.server.times[query] = float(fields["time"][0])
        series = {"metric": {"topic": "t", "broker_id": "1"}, "value": [1000, self.server.answers.get(query)]}
        result = [series] if query in self.server.answers else []
        text = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})
        code, text = self.server.failure or (200, text)
        if query in self.server.too_many:
            error = "query processing would load too many samples into memory in query execution"
            code, text = 422, json.dumps({"status": "error", "error": error})
        self.server.tenants.add(self.headers["X-Scope-OrgID"])
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[_Server]:
    """A server that runs in a thread."""
    running = _Server()
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def _connect(server: _Server) -> PrometheusServer:
    return PrometheusServer(f"http://ann:s3cret@127.0.0.1:{server.server_port}/", {"cluster": "prod"})


def test_series_has_rates_samples_and_resets(server: _Server, names: MetricNames) -> None:
    server.answers = {
        f"rate({_TOPIC}[621s])": "12.5",
        f"quantile_over_time({18 / 19}, {_STEPS % _TOPIC})": "20",
        f"max_over_time({_STEPS % _TOPIC})": "30",
        f"count_over_time({_TOPIC}[621s])": "120",
        f"resets({_TOPIC}[621s])": "2",
    }
    (one,) = _connect(server).measure(names, _WINDOW)
    labels = {"__name__": _IN, "topic": "t", "broker_id": "1"}
    assert one == (labels, WindowRates(12.5, 20, 30), None, 120, 2, 0)
    assert {query: server.times[query] for query in server.answers} == {
        query: 1020 if "offset" in query else 1000 for query in server.answers
    }


def test_gauges_are_last_sizes_and_growths(server: _Server, names: MetricNames) -> None:
    size, end = (f'kafka_log_log_{name}{{cluster="prod",topic!="",partition!=""}}' for name in ("size", "logendoffset"))
    server.answers = {f"count_over_time({size}[621s])": "9", f"last_over_time({size}[621s])": "4000"}
    server.answers |= {f"count_over_time({end}[621s])": "9", f"delta({end}[621s])": "70"}
    measured = list(_connect(server).measure(names, _WINDOW))
    assert [(one.labels["__name__"], one.rates, one.value) for one in measured] == [
        ("kafka_log_log_size", NO_RATES, 4000),
        ("kafka_log_log_logendoffset", NO_RATES, 70),
    ]


def test_labels_select_topics_totals_and_partitions(server: _Server, names: MetricNames) -> None:
    assert list(_connect(server).measure(names, _WINDOW)) == []
    assert f'count_over_time({_IN}{{cluster="prod",topic=""}}[621s])' in server.queries
    raw = 'kafka_server_BrokerTopicMetrics_Count{cluster="prod",name="BytesInPerSec",topic!=""}'
    assert f"count_over_time({raw}[621s])" in server.queries


def test_too_many_samples_are_asked_for_target_by_target(server: _Server, names: MetricNames) -> None:
    """Prometheus limits the samples of one query, and large clusters have more."""
    own = f'{_IN}{{cluster="prod",broker_id="1",topic="t",topic!=""}}'  # the server's one answer names its labels
    server.too_many = {f"max_over_time({_STEPS % _TOPIC})"}
    server.answers = {
        f"count_over_time({_TOPIC}[621s])": "120",
        f"group by (job, instance) (last_over_time({_TOPIC}[621s]))": "1",
        f"max_over_time({_STEPS % own})": "30",
    }
    (one,) = _connect(server).measure(names, _WINDOW)
    assert one.rates == WindowRates(None, None, 30)


def test_headers_and_first_sample(server: _Server, names: MetricNames) -> None:
    server.answers = {f"min(min_over_time(timestamp({_TOTAL})[621s:30s]))": "700"}
    connection = replace(_connect(server), headers={"X-Scope-OrgID": "team"})
    assert connection.find_ends(names, _WINDOW) == (700, None)
    assert server.tenants == {"team"}


@pytest.mark.parametrize(
    ("code", "text", "problem"),
    [
        (422, '{"status":"error","error":"too long"}', "rejects a query with HTTP 422: too long"),
        (404, "<html>", "answers with HTTP 404 and no JSON"),
    ],
)
def test_failure_is_explained(server: _Server, names: MetricNames, code: int, text: str, problem: str) -> None:
    server.failure = (code, text)
    with pytest.raises(SourceError) as caught:
        list(_connect(server).measure(names, _WINDOW))
    assert problem in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_server_that_does_not_answer_is_named(names: MetricNames) -> None:
    with pytest.raises(SourceError) as caught:
        list(PrometheusServer("http://127.0.0.1:9", {}).measure(names, _WINDOW))
    assert str(caught.value).startswith("prometheus=http://127.0.0.1:9: does not answer (ConnectionError)")
