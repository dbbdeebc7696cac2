"""Fixtures of all tests. Only tests with the fixture `spark` start Spark."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.commands import ENGINE
from tests.seed_sampler import SEED, SOAK, SeedSampler, count_cases
from tests.shared_runs import SampleRun, SharedFolder, SmallRun, make_scheduler, runs_sail

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent

# Two shuffle partitions, so that a missing ORDER BY shows; the serial collector and little memory, because two workers
# may run in parallel. The settings of conf/spark.toml for small sources apply too.
TEST_SETTINGS = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-Xss4m -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make test-soak`."""
    parser.addoption("--soak", action="store_true", help="run every random case, not a part of them")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of this run and how many cases it tries, which the workers inherit."""
    os.environ.setdefault(SEED, str(random.randrange(1, 1_000_000)))
    os.environ.pop("COLUMNS", None)  # else answers are wrapped
    os.environ[ENGINE] = "auto" if runs_sail() else "spark"
    if config.getoption("soak"):
        os.environ[SOAK] = "1"
    # No deadline: a first call may compile a kernel. In CI, hypothesis tries the same cases in every run.
    settings.register_profile(
        "project", deadline=None, derandomize="CI" in os.environ, max_examples=count_cases(settings().max_examples)
    )
    settings.load_profile("project")


def pytest_report_header(config: pytest.Config) -> str:
    """Report which random sequences this run tries."""
    if config.getoption("soak"):
        return "random cases: all (--soak)"
    return f"random cases: a part of them, {SEED}={os.environ[SEED]} (set it to try the same ones again)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use the Spark session, or the tables of a whole run, as `spark`."""
    for item in items:
        if {"spark_application", "small_run", "sample_run"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.spark)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Start with the longest files, and keep files together that share expensive fixtures."""
    return make_scheduler(config, log)


@pytest.fixture
def seed_sampler(request: pytest.FixtureRequest) -> SeedSampler:
    """Seeds of random sequences: a part of them, others in every run; all of them in `make test-soak`."""
    sampler = SeedSampler(int(os.environ[SEED]), all_seeds=request.config.getoption("soak"))
    print(sampler)  # pytest shows it if the test fails
    return sampler


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> SharedFolder:
    """The folder that all workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    return SharedFolder(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


@pytest.fixture(scope="session")
def sample_run(shared_folder: SharedFolder, samples: Path) -> SampleRun:
    """A whole run over both sample clusters, by a process in an empty folder. Read or copy it, but never change it."""
    return SampleRun.create(shared_folder, samples)


@pytest.fixture(scope="session")
def small_run(shared_folder: SharedFolder) -> SmallRun:
    """A whole run over tiny clusters. Read or copy it, but never change it."""
    return SmallRun.create(shared_folder)


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of the captures and the small clusters."""
    return ROOT / "data_samples"


@pytest.fixture(scope="session")
def spark_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of this worker's managed tables."""
    return tmp_path_factory.mktemp(f"warehouse-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}")


@pytest.fixture(scope="session")
def spark_application(spark_warehouse: Path) -> Iterator[SparkSession]:
    """The only Spark of this worker, from the first test that uses it to the last."""
    from pipelines.spark.session import open_session

    if runs_sail():
        yield open_session("tests", warehouse=None, small=True, without_java=True)
        return
    session = open_session("tests", warehouse=str(spark_warehouse), small=True, extra=TEST_SETTINGS)
    yield session
    session.stop()


@pytest.fixture
def spark(spark_application: SparkSession) -> Iterator[SparkSession]:
    """The Spark session; temporary views and caches are removed after the test."""
    yield spark_application
    if runs_sail():
        for table in spark_application.catalog.listTables():
            if table.isTemporary:
                spark_application.catalog.dropTempView(table.name)
        return
    spark_application.catalog.clearCache()
    for view in spark_application.sql("SHOW VIEWS").collect():  # catalog.listTables needs code generation
        if view.isTemporary:
            spark_application.catalog.dropTempView(view.viewName)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Chromium; without it, the test is skipped, or fails with CHROMIUM_REQUIRED=1."""
    from tests.report.seen import chromium_found, launched

    executable = chromium_found()
    if executable is None:
        problem = "no Chromium: the report is not tested (Debian, Ubuntu: apt-get install chromium)"
        if os.environ.get("CHROMIUM_REQUIRED"):
            pytest.fail(problem)
        pytest.skip(problem)
    with launched(executable) as browser:
        yield browser
