"""What is asked of a Prometheus server, and what its answers and failures become."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

import pytest

from pipelines.errors import SourceError
from pipelines.metrics.metric_names import MetricNames
from pipelines.metrics.prometheus_server import LoadStatistic, PrometheusServer, Window

_WINDOW = Window(1_000.0, 600, 60)
_IN = "kafka_server_brokertopicmetrics_bytesin_total"
_TOPIC = f'{_IN}{{cluster="prod",topic!=""}}'


class _Server(HTTPServer):
    """Answers the queries in `answers`, with one series each, and all others with none; notes what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, str] = {}
        self.queries: list[str] = []
        self.failure: tuple[int, str] | None = None


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        fields = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        (query,) = fields["query"]
        self.server.queries.append(query)
        series = {"metric": {"topic": "t", "broker_id": "1"}, "value": [1000, self.server.answers.get(query)]}
        result = [series] if query in self.server.answers else []
        text = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})
        code, text = self.server.failure or (200, text)
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


@pytest.mark.parametrize(
    ("statistic", "query"),
    [
        (LoadStatistic.MEAN, f"rate({_TOPIC}[600s])"),
        (LoadStatistic.P95, f"quantile_over_time(0.95, rate({_TOPIC}[60s])[600s:60s])"),
        (LoadStatistic.PEAK, f"max_over_time(rate({_TOPIC}[60s])[600s:60s])"),
    ],
)
def test_series_has_value_samples_and_resets(
    server: _Server, names: MetricNames, statistic: LoadStatistic, query: str
) -> None:
    server.answers = {query: "12.5", f"count_over_time({_TOPIC}[600s])": "120", f"resets({_TOPIC}[600s])": "2"}
    (one,) = _connect(server).measure(names, _WINDOW, statistic)
    assert one == ({"__name__": _IN, "topic": "t", "broker_id": "1"}, 12.5, 120, 2, 0)


def test_labels_select_topics_totals_and_partitions(server: _Server, names: MetricNames) -> None:
    assert list(_connect(server).measure(names, _WINDOW, LoadStatistic.MEAN)) == []
    assert f'rate({_IN}{{cluster="prod",topic=""}}[600s])' in server.queries
    assert 'delta(kafka_log_log_logendoffset{cluster="prod",topic!="",partition!=""}[600s])' in server.queries
    assert 'last_over_time(kafka_log_log_size{cluster="prod",topic!="",partition!=""}[600s])' in server.queries
    raw = 'kafka_server_BrokerTopicMetrics_Count{cluster="prod",name="BytesInPerSec",topic!=""}'
    assert f"rate({raw}[600s])" in server.queries


@pytest.mark.parametrize(
    ("code", "text", "problem"),
    [
        (422, '{"status":"error","error":"too many samples"}', "rejects a query with HTTP 422: too many samples"),
        (404, "<html>", "answers with HTTP 404 and no JSON"),
    ],
)
def test_failure_is_explained(server: _Server, names: MetricNames, code: int, text: str, problem: str) -> None:
    server.failure = (code, text)
    with pytest.raises(SourceError) as caught:
        list(_connect(server).measure(names, _WINDOW, LoadStatistic.MEAN))
    assert problem in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_server_that_does_not_answer_is_named(names: MetricNames) -> None:
    with pytest.raises(SourceError) as caught:
        list(PrometheusServer("http://127.0.0.1:9", {}).measure(names, _WINDOW, LoadStatistic.MEAN))
    assert str(caught.value).startswith("prometheus=http://127.0.0.1:9: does not answer (ConnectionError)")
