"""What every test may ask for. Only the tests that ask for `spark` start one."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.samples import Sampled
from tests.shared import Finished, Shared, Small, scheduled

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

# A first call may compile a kernel; how long an example takes says nothing here.
settings.register_profile("project", deadline=None)
settings.load_profile("project")

ROOT = Path(__file__).resolve().parent.parent
SEED = "TEST_SEED"

# Two shuffle partitions, so that an order nobody asked for shows; the serial collector and little memory, because two
# workers may run side by side. What conf/spark.toml has for small sources holds here too.
TEST_SETTINGS = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of `make soak`."""
    parser.addoption("--soak", action="store_true", help="run every random sequence, not a tenth of them")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of this run. The workers inherit it."""
    os.environ.setdefault(SEED, str(random.randrange(1, 1_000_000)))


def pytest_report_header(config: pytest.Config) -> str:
    """Say which random sequences this run tries."""
    if config.getoption("soak"):
        return "random sequences: all (--soak)"
    return f"random sequences: a tenth, {SEED}={os.environ[SEED]} (set it to try the same ones again)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark a test that asks for the session, or for what is made in it, as `spark`, without its author's help."""
    for item in items:
        if "spark_application" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Begin with the files that take longest. Keep files together that share what is costly to make."""
    return scheduled(config, log)


@pytest.fixture
def sampled(request: pytest.FixtureRequest) -> Sampled:
    """Seeds of random sequences: a tenth of them, other ones in every run; all of them in `make soak`."""
    made = Sampled(int(os.environ[SEED]), whole=request.config.getoption("soak"))
    print(made)  # pytest shows it where the test fails
    return made


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """The folder that all workers of this run have in common."""
    base = tmp_path_factory.getbasetemp()
    return Shared(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


@pytest.fixture(scope="session")
def finished(shared: Shared, samples: Path) -> Finished:
    """A whole run over both sample clusters, by the real command, in an empty folder. Only read it, or copy it."""
    return Finished.of(shared, samples)


@pytest.fixture(scope="session")
def small(shared: Shared, spark_application: SparkSession) -> Small:
    """A whole run over tiny clusters, in the Spark of the tests. Only read it, or copy it."""
    return Small.of(shared)


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
    """The one Spark of this worker, from the first test that asks to the last."""
    from pipelines.spark.session import open_session

    session = open_session("tests", warehouse=str(spark_warehouse), small=True, extra=TEST_SETTINGS)
    yield session
    session.stop()


@pytest.fixture
def spark(spark_application: SparkSession) -> Iterator[SparkSession]:
    """The Spark session, its views and caches as it found them."""
    yield spark_application
    spark_application.catalog.clearCache()
    for view in spark_application.sql("SHOW VIEWS").collect():  # catalog.listTables fails where nothing is compiled
        if view.isTemporary:
            spark_application.catalog.dropTempView(view.viewName)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Chromium, or a skip that says how to get it. CHROMIUM_REQUIRED=1: no skip."""
    from tests.report.seen import chromium_found, launched

    found = chromium_found()
    if found is None:
        said = "no Chromium here: the report's page is not looked at (Debian, Ubuntu: apt-get install chromium)"
        if os.environ.get("CHROMIUM_REQUIRED"):
            pytest.fail(said)
        pytest.skip(said)
    with launched(found) as browser:
        yield browser
