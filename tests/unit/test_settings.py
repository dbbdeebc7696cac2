"""Where settings come from, and what is rejected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.config.settings import load_settings
from pipelines.errors import SettingsError


@pytest.mark.parametrize("text", ["2024", "a,b", "1e5", "true", "null", '"quoted"', "[1]", " x "])
def test_a_text_is_taken_as_it_stands(text: str) -> None:
    assert load_settings([f"store.warehouse={text}"], environ={}).store.warehouse == text
    assert load_settings(environ={"KAFKA_PLACEMENT_STORE__CATALOG": text}).store.catalog == text


def test_the_warehouse_option_is_a_text_too(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from pipelines.cli.common_options import settings_of; print(settings_of(None, None, '2024').store.warehouse)",
    ]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "2024\n"


@pytest.mark.parametrize("text", ["kafka, naive", " kafka ,naive", '["kafka", "naive"]'])
def test_schemes_with_spaces_between_them(text: str) -> None:
    assert load_settings(environ={"KAFKA_PLACEMENT_RUN__SCHEMES": text}).run.schemes == ("kafka", "naive")
    assert load_settings([f"run.schemes={text}"], environ={}).run.schemes == ("kafka", "naive")


def test_one_scheme(tmp_path: Path) -> None:
    conf = tmp_path / "conf.toml"
    conf.write_text('[run]\nschemes = "kafka"\n')
    assert load_settings(["run.schemes= naive"], environ={}).run.schemes == ("naive",)
    assert load_settings(conf=str(conf), environ={}).run.schemes == ("kafka",)


@pytest.mark.parametrize("option", ["run.seed=true", "hotspots.hot_ratio=false", "ingest.small_input_bytes=true"])
def test_a_truth_value_is_no_number(option: str) -> None:
    with pytest.raises(SettingsError, match=rf"--set {option}: .*a number is expected, not true or false"):
        load_settings([option], environ={})


def test_numbers_and_truth_values() -> None:
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
