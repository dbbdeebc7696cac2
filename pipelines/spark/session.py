"""Open the Spark session; no other module creates one or touches its JVM.

A session that exists (a notebook, a test) or whose Spark was started by a platform (spark-submit, a job) is used as it
is. Otherwise the session connects to a Spark Connect server, if one is named, or starts Spark within this process.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import tempfile
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pipelines.config.conf_reader import read_conf_file
from pipelines.setup.jars import list_jar_files
from pipelines.setup.java import check_java
from pipelines.spark.jvm import class_archive_options, start_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SparkSettings = Mapping[str, str]
_NO_SETTINGS: SparkSettings = MappingProxyType({})
_DATABRICKS = "DATABRICKS_RUNTIME_VERSION"  # set wherever Databricks runs Python


def open_session(
    app_name: str,
    *,
    warehouse: str | None,
    remote: str | None = None,
    small: bool = False,
    extra: SparkSettings = _NO_SETTINGS,
) -> SparkSession:
    """Open a session with the settings of conf/spark.toml.

    Args:
        app_name: Name of the application, if it is started here.
        warehouse: Where an embedded Spark puts tables without a location; None = a folder that is removed when the
            process ends.
        remote: Address of a Spark Connect server, `sc://host:port`, or `local[N]` for one within this process; without
            it, SPARK_REMOTE is used.
        small: Whether there is little work, so that an embedded Spark compiles less.
        extra: Settings over those of conf/spark.toml.

    Raises:
        EnvironmentFault: If Java or a jar is missing, or Spark does not start.
    """
    from pyspark.sql import SparkSession  # here, because it takes half a second that commands without Spark save

    conf = tomllib.loads(read_conf_file("spark.toml"))
    session_settings = {**_to_texts(conf["every_session"]), **extra}
    running = _find_running()
    if running is not None:
        return _apply_settings(running, session_settings)
    if _DATABRICKS in os.environ:  # its builder knows the session, which may be a Connect session without a context
        return _apply_settings(SparkSession.builder.getOrCreate(), session_settings)
    if _is_started_by_platform():
        return _apply_settings(_open_submitted(app_name, _to_texts(conf["delta"])), session_settings)
    remote = remote or os.environ.get("SPARK_REMOTE")
    if remote and not remote.startswith("local"):
        return _apply_settings(SparkSession.builder.remote(remote).getOrCreate(), session_settings)

    per_core = {key: str(factor * (os.cpu_count() or 1)) for key, factor in conf["embedded_per_core"].items()}
    settings = {
        "spark.app.name": app_name,
        **_to_texts(conf["delta"]),
        **_to_texts(conf["embedded"]),
        **per_core,
        **(_to_texts(conf["embedded_connect"]) if remote else {}),
        **_to_texts(conf["embedded_small" if small else "embedded_large"]),
        **session_settings,
    }
    return _start_embedded(settings, warehouse, remote)


def starts_embedded_spark() -> bool:
    """Tell whether `open_session` would start Spark within this process, so that Spark sees this machine's folders."""
    remote = os.environ.get("SPARK_REMOTE", "local")
    return not _is_started_by_platform() and remote.startswith("local") and _find_running() is None


def silence_spark(spark: SparkSession) -> None:
    """Stop Spark from logging failures of queries, which their exceptions report too."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    with contextlib.suppress(Exception):  # Spark Connect has no context
        spark.sparkContext.setLogLevel("OFF")


def stop_embedded(spark: SparkSession) -> int:
    """Stop an embedded Spark and its JVM; return the JVM's exit code."""
    import pyspark

    spark.stop()
    gateway: Any = pyspark.SparkContext._gateway
    pyspark.SparkContext._gateway = pyspark.SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when this is closed
    return int(gateway.proc.wait())


def _is_started_by_platform() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ or _DATABRICKS in os.environ


def _find_running() -> SparkSession | None:
    """Find the session that this process already has."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()  # of this thread
    if active is not None:
        return active
    try:
        from pyspark import SparkContext
    except ImportError:  # this pyspark is a Spark Connect client only
        return None
    return None if SparkContext._active_spark_context is None else SparkSession.builder.getOrCreate()


def _start_embedded(settings: dict[str, str], warehouse: str | None, remote: str | None) -> SparkSession:
    """Start Spark within this process, from pyspark's own jars."""
    import pyspark
    from pyspark.sql import SparkSession

    java = check_java()
    jars = list_jar_files()
    scratch = _make_scratch_folder()
    log_conf = scratch / "log4j2.properties"
    log_conf.write_text(read_conf_file("log4j2.properties"), encoding="utf-8")
    options = f"-Dlog4j2.configurationFile={log_conf.as_uri()}"
    if "-XX:ArchiveClassesAtExit" not in settings.get("spark.driver.extraJavaOptions", ""):
        options = f"{options} {class_archive_options(java)}"
    location = warehouse or str(scratch / "warehouse")
    settings = {
        # On the JVM's own class path: faster than spark.jars, which copies them to the executors.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.sql.warehouse.dir": location if "://" in location else Path(location).resolve().as_uri(),
        "spark.driver.defaultJavaOptions": options,
        **settings,
    }
    pyspark.SparkContext._ensure_initialized(gateway=start_jvm(settings))
    if remote is not None:  # the JVM has the settings; the client would only complain that they are static
        return SparkSession.builder.remote(remote).getOrCreate()
    return SparkSession.builder.config(map=dict(settings)).getOrCreate()


def _open_submitted(app_name: str, delta: SparkSettings) -> SparkSession:
    """Open the session of the application that spark-submit started for this process."""
    import pyspark
    from pyspark.sql import SparkSession

    pyspark.SparkContext._ensure_initialized()
    conf = pyspark.SparkConf()
    builder = SparkSession.builder
    if not conf.contains("spark.app.name"):
        builder = builder.appName(app_name)
    # Add Delta to the configured extensions; a configured catalog stays.
    extensions = (conf.get("spark.sql.extensions") or "").split(",")
    delta_extension = delta["spark.sql.extensions"]
    if delta_extension not in extensions:
        builder = builder.config("spark.sql.extensions", ",".join([*filter(None, extensions), delta_extension]))
    if not conf.contains("spark.sql.catalog.spark_catalog"):
        builder = builder.config("spark.sql.catalog.spark_catalog", delta["spark.sql.catalog.spark_catalog"])
    spark = builder.getOrCreate()
    _send_wheels(spark, (conf.get("spark.submit.pyFiles") or "").split(","))
    return spark


def _send_wheels(spark: SparkSession, py_files: Sequence[str]) -> None:
    """Make the wheels among spark-submit's --py-files importable on the executors, where Spark accepts no .whl."""
    for wheel in (Path(path) for path in py_files if path.endswith(".whl")):
        zip_file = _make_scratch_folder() / f"{wheel.stem}.zip"
        shutil.copyfile(wheel, zip_file)
        spark.sparkContext.addPyFile(str(zip_file))


def _apply_settings(spark: SparkSession, settings: SparkSettings) -> SparkSession:
    """Apply those of the settings that a running session lets a user change."""
    from pyspark.errors import PySparkException

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark Connect warns about settings without a meaning there
        for key, value in settings.items():
            with contextlib.suppress(PySparkException):  # static, or not allowed on this platform
                spark.conf.set(key, value)
    return spark


def _make_scratch_folder() -> Path:
    """Create a folder that is removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="kafka-placement-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _to_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Convert settings to texts as Spark takes them, booleans in lower case."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}
