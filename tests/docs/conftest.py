"""One folder and one warehouse for all pages: a run over the tables of the small one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.runner import Run
from pipelines.spark.store import Store
from tests.commands import call_run
from tests.docs.machine import FEW_SEEDS, SOURCES, Machine, Once, found_there, furnish
from tests.docs.pages import ROOT
from tests.shared_runs import SmallRun


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that commands run in."""
    folder = tmp_path_factory.mktemp("documented")
    furnish(folder)
    return folder


@pytest.fixture(scope="session")
def first_run(furnished: Path, small_run: SmallRun) -> str:
    """What `make run`'s command printed; its tables are in the folder's `warehouse`.

    They hold an older snapshot of OLDER too, with other brokers: what the pages ask must not mix the two.
    """
    shutil.copytree(small_run.warehouse, furnished / "warehouse")
    shutil.rmtree(furnished / "warehouse" / "data_docs", ignore_errors=True)
    (samples,) = re.findall(r"^SAMPLES := (.*)$", (ROOT / "Makefile").read_text(), flags=re.M)
    return call_run(*samples.split(), *SOURCES, "--fail", "prod=1,2,3", *FEW_SEEDS, folder=furnished).stdout


@pytest.fixture
def machine(
    furnished: Path,
    first_run: str,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    remembered: dict[tuple[str, ...], str],
    once: Once,
) -> Machine:
    """Runs commands; the stages ran once, over all that the pages name."""
    monkeypatch.setattr(Run, "go", found_there)
    monkeypatch.setattr(Store, "register", once.register)
    monkeypatch.setattr("pipelines.report.html_page.write_report", once.report)
    return Machine(furnished, capsys, remembered)


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """What is the same for many commands over the same tables, made once."""
    return Once(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="session")
def remembered() -> dict[tuple[str, ...], str]:
    """What commands over the tables have printed."""
    return {}
