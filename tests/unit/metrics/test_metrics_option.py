"""--metrics of commands: which metrics are for which cluster, what answers show of them, and errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipelines.cli.source_arguments import MetricsRequest, open_source
from pipelines.config.setting_types import fill_variables
from pipelines.config.settings import load_settings
from pipelines.errors import EXIT_INPUT, EXIT_USAGE, SettingsError, SourceError
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.metrics.load_reading import FILE_NAME, read_loads
from pipelines.metrics.metric_names import KnownBroker
from pipelines.metrics.metrics_origin import MetricsOrigin, find_unused, select_origin
from tests.commands import call

_DESCRIBE = (
    "Topic: orders\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: \n"
    "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    "\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2,1\n"
)
_CSV = "topic,broker_id,bytes_in_per_s,bytes_out_per_s\norders,1,100,200\norders,2,300,400\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a describe and loads as CSV."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.txt").write_text(_DESCRIBE)
    (tmp_path / "loads.csv").write_text(_CSV)
    return tmp_path


def test_next_steps_repeat_metrics(folder: Path) -> None:
    (folder / "d.txt").write_text(_DESCRIBE.replace("Leader: 2", "Leader: 1"))
    done = call("what-if", "d.txt", "--metrics", "loads.csv", "--window", "36h")
    assert "--metrics loads.csv --window 1d12h" in done.stdout
    assert "read loads.csv: 2 lines of loads" in done.stderr


def test_topics_without_rates_are_named(folder: Path) -> None:
    (folder / "d.txt").write_text(
        _DESCRIBE
        + "Topic: idle\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n"
        + "\tTopic: idle\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    )
    note = "note: bytes in and out are without 1 topic whose rates are not known: idle"
    assert note in call("what-if", "d.txt", "--metrics", "loads.csv").stdout
    assert "whose rates" not in call("what-if", "d.txt").stdout


@pytest.mark.parametrize("more", [(), ("--format", "describe")])  # of the user's files; that of the loads is known
def test_plan_balances_bytes_of_metrics(folder: Path, more: tuple[str, ...]) -> None:
    command = ("plan", "prod=d.txt", "--goal", "leaders", "--metrics", "prod=loads.csv", "--json", "-", *more)
    balance = json.loads(call(*command).stdout)["metrics"]["before"]["balance"]
    assert balance["bytes_in_per_s"]["max_over_mean"] == 1  # each broker has a replica of both partitions
    assert balance["bytes_out_per_s"]["max_over_mean"] == pytest.approx(400 / 300, abs=1e-6)  # of what it leads


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["--window", "7d"], EXIT_USAGE, "--window is for --metrics"),
        (["--metrics", "loads.csv", "--window", "a week"], EXIT_USAGE, "write a time of at most 400 days"),
        (["--metrics", "test=loads.csv"], EXIT_USAGE, "--metrics test=loads.csv: no source is named so"),
        (["--metrics", "no.csv"], EXIT_INPUT, "no.csv: there is no such file or folder of metrics"),
        (["--metrics", "prometheus=b1:9090"], EXIT_INPUT, "is not the URL of a Prometheus server"),
        (["--metrics", "http://b1:9090"], EXIT_INPUT, "For a Prometheus server, write prometheus=http://..."),
        (["--metrics", "loads.csv", "--metrics", "d.txt"], EXIT_INPUT, "loads.csv and d.txt are for the same cluster"),
        (["--metrics", "prometheus=http://127.0.0.1:9"], EXIT_INPUT, "does not answer (ConnectionError)"),
        (
            ["--metrics", "prometheus=http://ann:${env:NO_SUCH}@b1:9090"],
            EXIT_INPUT,
            "the environment has no variable NO_SUCH",
        ),
        (["--metrics", "d.txt"], EXIT_INPUT, "d.txt: is no text of Prometheus"),
        (["--metrics", "loads.csv", "--set", "metrics.names_file=no.toml"], EXIT_INPUT, "no.toml"),
        (["--metrics", "loads.csv", "--set", "metrics.statistic=p99"], EXIT_INPUT, "one of 'mean', 'p95'"),
        (["--metrics", "loads.csv", "--set", "metrics.step=0s"], EXIT_INPUT, "write a time of at most 400 days"),
        (["--metrics", "loads.csv", "--set", "metrics.broker_label=a-b"], EXIT_INPUT, "write the name of a label"),
    ],
)
def test_errors(folder: Path, arguments: list[str], code: int, problem: str) -> None:
    done = call("what-if", "d.txt", *arguments, code=code)
    assert problem in " ".join(done.stderr.split())


def test_options_without_effect_are_named(folder: Path) -> None:
    done = call("what-if", "d.txt", "--metrics", "loads.csv", "--window", "1h")
    assert "--window has no effect: the loads of loads.csv are not of a window" in done.stderr
    assert "--window" not in call("what-if", "d.txt", "--metrics", "loads.csv").stderr
    done = call("what-if", "kafka://127.0.0.1:9", "--format", "describe", code=EXIT_USAGE)
    assert "--format is for files: leave it out for kafka://127.0.0.1:9" in " ".join(done.stderr.split())


def test_files_in_other_formats_than_that_of_the_option_are_named(folder: Path) -> None:
    saved = folder / "saved"
    saved.mkdir()
    (saved / "d.txt").write_text(_DESCRIBE)
    (saved / FILE_NAME).write_text(
        "loads from loads.csv\nload topic=orders broker_id=1 bytes_in_per_s=1.0 bytes_out_per_s=2.0\n"
    )
    done = call("what-if", "saved", "--format", "describe")
    problem = f"saved/{FILE_NAME}: has nothing in the format describe of --format"
    assert problem in done.stderr
    assert "d.txt" not in done.stderr
    assert problem not in call("what-if", "saved").stderr


def test_loads_of_a_folder_are_replaced_by_those_of_the_option(folder: Path) -> None:
    """As of a snapshot that was saved with its loads."""
    saved = folder / "saved"
    saved.mkdir()
    (saved / "d.txt").write_text(_DESCRIBE)
    (saved / FILE_NAME).write_text("load topic=orders broker_id=1 bytes_in_per_s=1.0 bytes_out_per_s=2.0\n")
    request = MetricsRequest.of_options(["loads.csv"], None, load_settings())
    snapshot = load_snapshot(open_source("saved", None, request))
    assert snapshot.partitions["bytes_in_per_s"].to_pylist() == [100, 300]
    assert snapshot.conflicts.num_rows == 0


def test_what_is_not_used_of_a_folder_of_metrics_is_named(folder: Path) -> None:
    (folder / "scrapes" / "b2").mkdir(parents=True)
    (folder / "scrapes" / "loads.csv").write_text(_CSV)
    (folder / "scrapes" / "lag.prom").write_text("kafka_consumergroup_lag 5\n")
    done = call("what-if", "d.txt", "--metrics", "scrapes")
    assert "only files directly in the folder are read, not b2/" in done.stdout
    assert "no metric of lag.prom gives loads" in done.stdout


def test_brokers_are_those_of_the_format(folder: Path) -> None:
    """The name of this file is that of a Kafka log dir's, so that only --format makes it a describe."""
    (folder / "recovery-point-offset-checkpoint").write_text(_DESCRIBE)
    done = call(
        "what-if", "recovery-point-offset-checkpoint", "--format", "describe", "--metrics", "loads.csv", "--json", "-"
    )
    assert done.stderr.count("read loads.csv: 2 lines of loads") == 1


def test_metrics_of_another_cluster_are_not_used(folder: Path) -> None:
    done = call("run", "prod=d.txt", "--metrics", "test=loads.csv", code=EXIT_USAGE)
    assert "--metrics test=loads.csv: no source is named so; the clusters are prod" in " ".join(done.stderr.split())


def test_cluster_without_its_metrics_is_left_out(folder: Path) -> None:
    """As if it did not answer itself: verdicts without its loads would be others."""
    done = call("run", "prod=d.txt", "--metrics", "prod=prometheus=http://127.0.0.1:9", code=1)
    assert "prometheus=http://127.0.0.1:9: does not answer" in done.stderr


def test_origin_is_chosen_by_name(folder: Path) -> None:
    texts = ["prometheus=http://all:9090", "prod=prometheus=http://prod:9090", "eu=loads.csv"]
    assert select_origin(texts, "prod") == MetricsOrigin("http://prod:9090", None)
    assert select_origin(texts, "eu") == MetricsOrigin(None, Path("loads.csv"))
    assert select_origin(texts, "us") == MetricsOrigin("http://all:9090", None)
    assert select_origin(texts[1:], "us") is None
    assert find_unused(texts, ["prod"]) == ["eu=loads.csv"]
    with pytest.raises(SettingsError, match="are for the same cluster"):
        select_origin([*texts, "prod=loads.csv"], "prod")


def test_secrets_are_filled_in_late_and_not_shown() -> None:
    assert fill_variables("http://ann:${env:PW}@p", "--metrics", {"PW": "s3cret"}) == "http://ann:s3cret@p"
    assert str(MetricsOrigin("http://ann:s3cret@p:9090", None)) == "prometheus=http://***@p:9090"


_SCRAPES = Path(__file__).with_name("scrapes")


@pytest.mark.parametrize(
    ("scrape", "sizes", "rates"),
    [
        # One scrape has no rate of a counter, but one that the exporter computed itself.
        ("lower-case-jmx", [7777, None, None], [12.5, None, None]),
        ("broker-name-with-prefix", [5000, None, None], [None, None, None]),
        ("aiven-in-a-fence", [7777, None, None], [12.5, None, None]),
        ("strimzi-metrics-reporter", [5000, None, None], [None, None, None]),
    ],
)
def test_names_of_exporters_are_known(scrape: str, sizes: list[int | None], rates: list[float | None]) -> None:
    settings = load_settings().metrics
    brokers = [KnownBroker(id_, None) for id_ in (1, 2, 3)]
    source = _SCRAPES / f"{scrape}.prom"
    lines = read_loads(MetricsOrigin(None, source), settings, "prod", brokers, datetime.now(UTC))
    facts = [line for line in lines[1:] if not line.startswith("problem")]
    expected = [f"replica_size topic=tolls partition=0 broker_id=1 size_bytes={sizes[0]}"]
    if rates[0] is not None:
        within = " ".join(f"bytes_in_{name}per_s={rates[0]}" for name in ("", "mean_", "p95_", "peak_"))
        expected.insert(0, f"load topic=tolls broker_id=1 {within}")
    assert facts == expected


def test_exporter_without_bytes_is_named() -> None:
    done = call(
        "what-if", str(_SCRAPES / "describe.txt"), "--metrics", str(_SCRAPES / "kafka-exporter.prom"), code=EXIT_INPUT
    )
    assert done.stdout == ""
    text = " ".join(done.stderr.split())
    assert "no loads within the window, but metrics of kafka_exporter, which counts no bytes per broker." in text
    assert (
        "Scrape the brokers themselves, as jmx_exporter does, or write their bytes per second into a CSV file" in text
    )
    assert "no series of brokers" not in text


def test_unknown_name_of_a_broker_names_the_setting(folder: Path) -> None:
    metric = 'kafka_log_log_size{{broker="{}",topic="orders",partition="0"}} 5\n'
    (folder / "scrape.prom").write_text(metric.format("blue"))
    done = call("what-if", "d.txt", "--metrics", "scrape.prom", code=EXIT_INPUT)
    text = " ".join(done.stderr.split())
    assert "1 series name no broker of the cluster: broker=blue" in text
    assert "--set metrics.broker_label=LABEL" in text


def test_host_label_is_matched(folder: Path) -> None:
    metric = 'kafka_server_BrokerTopicMetrics_OneMinuteRate{name="BytesInPerSec",topic="orders",node="%s"} %d\n'
    (folder / "scrape.prom").write_text(metric % ("b1.example.com:9404", 5) + metric % ("b2.example.com", 7))
    settings = load_settings(["metrics.broker_label=node", "metrics.broker_value=host"]).metrics
    brokers = [KnownBroker(1, "b1.example.com"), KnownBroker(2, "b2.example.com")]
    lines = read_loads(MetricsOrigin(None, folder / "scrape.prom"), settings, "prod", brokers, datetime.now(UTC))
    assert [line.partition(" bytes_in_mean")[0] for line in lines[1:]] == [
        "load topic=orders broker_id=1 bytes_in_per_s=5.0",
        "load topic=orders broker_id=2 bytes_in_per_s=7.0",
    ]


def test_metrics_without_loads_are_an_error(folder: Path) -> None:
    (folder / "scrape.prom").write_text("kafka_other 5\n")
    settings = load_settings(['metrics.labels={"env": "prod"}']).metrics
    with pytest.raises(SourceError, match='has no loads with env="prod" within the window'):
        read_loads(MetricsOrigin(None, folder / "scrape.prom"), settings, "prod", None, datetime.now(UTC))


def test_file_of_loads_is_a_source(folder: Path) -> None:
    settings = load_settings().metrics
    lines = read_loads(MetricsOrigin(None, folder / "loads.csv"), settings, "prod", None, datetime.now(UTC))
    source = folder / "prod"
    source.mkdir()
    (source / FILE_NAME).write_text("".join(f"{line}\n" for line in lines))
    (source / "d.txt").write_text(_DESCRIBE)
    rows = load_snapshot(find_source(str(source))).partitions.to_pylist()
    assert [(row["bytes_in_per_s"], row["bytes_out_per_s"]) for row in rows] == [(100, 200), (300, 400)]
