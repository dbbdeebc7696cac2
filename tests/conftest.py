"""What every test may ask for. Only the tests that ask for `spark` start one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

# A first call may compile a kernel; how long an example takes says nothing here.
settings.register_profile("project", deadline=None)
settings.load_profile("project")

ROOT = Path(__file__).resolve().parent.parent

# Two shuffle partitions, so that an order nobody asked for shows; the JVM's quick compiler, because tests are
# short; half of the memory, because two workers may run side by side.
TEST_SETTINGS = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing; a test that asks for the session is marked `spark` without its author's help."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


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
    from pipelines.session import open_session

    session = open_session("tests", warehouse=str(spark_warehouse), extra=TEST_SETTINGS)
    yield session
    session.stop()


@pytest.fixture
def spark(spark_application: SparkSession) -> Iterator[SparkSession]:
    """The Spark session, its views and caches as it found them."""
    yield spark_application
    spark_application.catalog.clearCache()
    for view in spark_application.catalog.listTables():
        if view.isTemporary:
            spark_application.catalog.dropTempView(view.name)


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
