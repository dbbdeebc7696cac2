"""Where settings come from, and which are rejected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.config.setting_sections import CustomFailure
from pipelines.config.settings import load_settings
from pipelines.errors import SettingsError


@pytest.mark.parametrize("text", ["2024", "a,b", "1e5", "true", "null", '"quoted"', "[1]", " x "])
def test_a_text_setting_is_not_parsed(text: str) -> None:
    assert load_settings([f"store.warehouse={text}"], environ={}).store.warehouse == text
    assert load_settings(environ={"KAFKA_PLACEMENT_STORE__CATALOG": text}).store.catalog == text


def test_the_warehouse_option_is_not_parsed(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from pipelines.cli.common_options import read_settings as r; print(r(None, None, '2024').store.warehouse)",
    ]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "2024\n"


@pytest.mark.parametrize("text", ["kafka, naive", " kafka ,naive", '["kafka", "naive"]'])
def test_spaces_between_schemes_are_ignored(text: str) -> None:
    assert load_settings(environ={"KAFKA_PLACEMENT_RUN__SCHEMES": text}).run.schemes == ("kafka", "naive")
    assert load_settings([f"run.schemes={text}"], environ={}).run.schemes == ("kafka", "naive")


def test_a_single_scheme_is_a_list_of_one(tmp_path: Path) -> None:
    conf = tmp_path / "conf.toml"
    conf.write_text('[run]\nschemes = "kafka"\n')
    assert load_settings(["run.schemes= naive"], environ={}).run.schemes == ("naive",)
    assert load_settings(conf=str(conf), environ={}).run.schemes == ("kafka",)


@pytest.mark.parametrize("option", ["run.seed=true", "hotspots.hot_ratio=false", "ingest.small_input_bytes=true"])
def test_a_boolean_is_rejected_as_a_number(option: str) -> None:
    with pytest.raises(SettingsError, match=rf"--set {option}: .*expected a number, not true or false"):
        load_settings([option], environ={})


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("run.seed=9223372036854775808", "run.seed = 9223372036854775808: write less than 9,223,372,036,854,775,808"),
        (f"run.seed={'9' * 5_000}", "a number has thousands of digits"),
        (f"run.seed={'[' * 5_000}", "brackets are nested too deeply"),
        ("run.schemes=" + '{"a":' * 5_000, "brackets are nested too deeply"),
        ("hotspots.hot_ratio=Infinity", "hotspots.hot_ratio = 'Infinity': write"),
        ("hotspots.hot_ratio=1e400", "hotspots.hot_ratio = inf: write"),
        ("hotspots.hot_ratio=NaN", "hotspots.hot_ratio = 'NaN': write"),
        ("hotspots.thresholds=1,nan", "hotspots.thresholds.1 = 'nan': write a finite number, as in 2"),
        ("capacity.headroom=inf", "capacity.headroom = 'inf': write"),
        ("plans.broker_bytes=1000000000000000001", "write at most 1,000,000,000,000,000,000"),
        ("plans.throttle_bytes_per_s=1e30", "write bytes, as in 7, 500MB or 20GiB"),
        ("plans.broker_bytes=7 bananas", "write bytes, as in 7, 500MB or 20GiB"),
        ("durability.failure_counts=9", "durability.failure_counts.0 = '9': write at most 5"),
        ("durability.failure_counts=[]", "it is empty. Write a value"),
        ("run.seed=x", "run.seed = 'x': write a whole number, as in 7"),
        ("topics.unclean_leader_election=maybe", "write true or false"),
        ("store.warehouse=a\0b", "it has a control character. Remove it"),
        ("store.catalog=a\ud800", "it has bytes that are not UTF-8"),
        ("capacity.file=a\nb", "it has a control character"),
        (f"run.{'x' * 100_000}=1", "there is no setting run.'xxx"),
        ("x" * 100_000, "write section.key=value, as in run.seed=7"),
    ],
)
def test_a_wrong_value_is_named_in_one_short_line(option: str, problem: str) -> None:
    with pytest.raises(SettingsError) as error:
        load_settings([option], environ={})
    assert problem in str(error.value)
    assert str(error.value).startswith("--set ")
    assert len(error.value.args) == 1
    assert len(str(error.value)) < 1_000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[run]\nseed = 0x" + "f" * 9_000, "run.seed = a number of about 10,837 digits: write less than"),
        ("[run]\nseed = " + "9" * 5_000, "a number has thousands of digits"),
        ("a = " + "[" * 50_000, "brackets are nested too deeply"),
        ("\n" + ".".join("a" * 50_000) + " = 1", "line 2: has more than 300 dots"),
        ("[run]\nseed = ", r"is not TOML: Invalid value \(at end of document\)"),
        ("a = '\x1b'", "is not TOML: "),
        ("a = 2001-13-45", "is not TOML: "),
        ("[hotspots]\nhot_ratio = nan", "hotspots.hot_ratio = nan: write"),
        ("#" * 1_000_001, "it has more than 1 MB"),
    ],
)
def test_a_wrong_settings_file_is_named(tmp_path: Path, text: str, problem: str) -> None:
    conf = tmp_path / "conf.toml"
    conf.write_text(text)
    with pytest.raises(SettingsError, match=problem) as error:
        load_settings(conf=str(conf), environ={})
    assert str(conf) in str(error.value)
    assert len(str(error.value)) < 1_000


def test_many_wrong_keys_are_not_all_listed(tmp_path: Path) -> None:
    conf = tmp_path / "conf.toml"
    conf.write_text("[run]\n" + "\n".join(f"key{i} = 1" for i in range(5_000)))
    with pytest.raises(SettingsError) as error:
        load_settings(conf=str(conf), environ={})
    assert len(error.value.args) == 11
    assert error.value.args[-1] == "and 4,990 more"


def test_the_warehouse_option_is_named() -> None:
    with pytest.raises(SettingsError, match=r"^--warehouse: store\.warehouse = "):
        load_settings(environ={}, warehouse="a\udcff")


def test_numbers_and_booleans_are_parsed() -> None:
    settings = load_settings(
        ["run.seed=7", "hotspots.hot_ratio=1.5", "topics.unclean_leader_election=true"], environ={}
    )
    assert (settings.run.seed, settings.hotspots.hot_ratio) == (7, 1.5)
    assert settings.topics.unclean_leader_election is True


def test_a_settings_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    conf = tmp_path / "conf.toml"
    conf.write_bytes('[store]\nwarehouse = "größe"\n'.encode("latin-1"))
    with pytest.raises(SettingsError, match=rf"{conf}: byte 23 is not UTF-8"):
        load_settings(conf=str(conf), environ={})


def test_custom_failures_are_entries_with_brokers_and_a_cluster(tmp_path: Path) -> None:
    conf = tmp_path / "conf.toml"
    conf.write_text('[[failures.custom]]\nbrokers = [3, 1]\n[[failures.custom]]\nbrokers = [2]\ncluster = "prod"\n')
    failures = load_settings(conf=str(conf), environ={}).failures.custom
    assert failures == (CustomFailure(brokers=(3, 1)), CustomFailure(brokers=(2,), cluster="prod"))
    conf.write_text("[[failures.custom]]\nbrokers = [1, 1]\n")
    with pytest.raises(SettingsError, match=r"failures\.custom\.0\.brokers = \[1, 1\]: a value is listed twice"):
        load_settings(conf=str(conf), environ={})


@pytest.mark.parametrize(
    "option", ["failures.lists=1", "failures.work=1", "hotspots.work=1", "durability.steps=1", "durability.trials=1"]
)
def test_a_setting_that_does_not_exist_is_rejected(option: str) -> None:
    with pytest.raises(SettingsError, match=rf"--set {option}: there is no setting {option[:-2]}. Choose from "):
        load_settings([option], environ={})


@pytest.mark.parametrize(
    ("text", "size"), [("500", 500), ("50MB", 50_000_000), ("1.5TB", 1_500_000_000_000), ("20GiB", 20 * 2**30)]
)
def test_bytes_may_have_units(text: str, size: int) -> None:
    plans = load_settings([f"plans.wave_bytes_per_broker={text}"], environ={}).plans
    assert plans.wave_bytes_per_broker == size
    assert type(plans.wave_bytes_per_broker) is int
