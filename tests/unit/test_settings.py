"""Where settings come from, and which are rejected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.config.settings import CustomFailure, load_settings
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
