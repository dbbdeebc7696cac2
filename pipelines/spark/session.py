"""The Spark session: the only module that builds one, or that knows where it came from.

Three ways to one: a session that exists already (a notebook, a test) or whose Spark was started for us
(spark-submit, a job) is used as it is; a Spark Connect server is connected to; else Spark starts within this process.
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

from pipelines.config.conf_files import conf_text
from pipelines.setup.jars import jar_paths
from pipelines.setup.java import check_java
from pipelines.spark.jvm import class_archive_options, start_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Settings = Mapping[str, str]
NONE: Settings = MappingProxyType({})
_DATABRICKS = "DATABRICKS_RUNTIME_VERSION"  # set wherever Databricks runs Python


def open_session(
    app_name: str, *, warehouse: str | None, remote: str | None = None, small: bool = False, extra: Settings = NONE
) -> SparkSession:
    """The session to work in, with conf/spark.toml's settings and `extra` over them.

    `warehouse` is where an embedded Spark puts schemas and tables that are given no location (None: a folder that
    goes when the process ends; a platform has its own). `remote` is a Spark
    Connect address, `sc://host:port` or `local[N]` for a server within this process; SPARK_REMOTE does the same.
    `small` tells an embedded Spark that there is little work: it then compiles less.
    """
    from pyspark.sql import SparkSession  # late: half a second that commands without Spark need not spend

    conf = tomllib.loads(conf_text("spark.toml"))
    everywhere = {**_texts(conf["every_session"]), **extra}
    active = _running()
    if active is not None:
        return _set_what_may_be_set(active, everywhere)
    if _DATABRICKS in os.environ:  # its builder knows the session; where that is Connect, there is no context to ask
        return _set_what_may_be_set(SparkSession.builder.getOrCreate(), everywhere)
    if _started_for_us():
        return _set_what_may_be_set(_submitted(app_name, _texts(conf["delta"])), everywhere)
    remote = remote or os.environ.get("SPARK_REMOTE")
    if remote and not remote.startswith("local"):
        return _set_what_may_be_set(SparkSession.builder.remote(remote).getOrCreate(), everywhere)

    per_core = {key: str(times * (os.cpu_count() or 1)) for key, times in conf["embedded_per_core"].items()}
    settings = {
        "spark.app.name": app_name,
        **_texts(conf["delta"]),
        **_texts(conf["embedded"]),
        **per_core,
        **(_texts(conf["embedded_connect"]) if remote else {}),
        **_texts(conf["embedded_small" if small else "embedded_large"]),
        **everywhere,
    }
    return _embedded(settings, warehouse, remote)


def starts_here() -> bool:
    """Whether `open_session` would start Spark within this process: then this machine's folders are Spark's too."""
    remote = os.environ.get("SPARK_REMOTE", "local")
    return not _started_for_us() and remote.startswith("local") and _running() is None


def silence(spark: SparkSession) -> None:
    """Nothing; keeps Spark from logging what a failing query's error says as well."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    with contextlib.suppress(Exception):  # Spark Connect has no context
        spark.sparkContext.setLogLevel("OFF")


def _started_for_us() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ or _DATABRICKS in os.environ


def _running() -> SparkSession | None:
    """The session that this process has already, None if it has none."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()  # of this thread
    if active is not None:
        return active
    try:
        from pyspark import SparkContext
    except ImportError:  # a pyspark that is Spark Connect's client alone
        return None
    return None if SparkContext._active_spark_context is None else SparkSession.builder.getOrCreate()


def _embedded(settings: dict[str, str], warehouse: str | None, remote: str | None) -> SparkSession:
    """A session of a Spark that starts within this process, from pyspark's own jars."""
    import pyspark
    from pyspark.sql import SparkSession

    java = check_java()
    jars = jar_paths()
    scratch = _scratch_folder()
    quiet = scratch / "log4j2.properties"
    quiet.write_text(conf_text("log4j2.properties"), encoding="utf-8")
    options = f"-Dlog4j2.configurationFile={quiet.as_uri()}"
    if "-XX:ArchiveClassesAtExit" not in settings.get("spark.driver.extraJavaOptions", ""):
        options = f"{options} {class_archive_options(java)}"
    settings = {
        # On the JVM's own class path: faster than spark.jars, which serves and copies them to the executors.
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.sql.warehouse.dir": _uri(warehouse or str(scratch / "warehouse")),
        "spark.driver.defaultJavaOptions": options,
        **settings,
    }
    pyspark.SparkContext._ensure_initialized(gateway=start_jvm(settings))
    if remote is not None:  # the JVM has the settings already; the client would only complain that they are static
        return SparkSession.builder.remote(remote).getOrCreate()
    return SparkSession.builder.config(map=dict(settings)).getOrCreate()


def stop_embedded(spark: SparkSession) -> int:
    """The exit code of the JVM of an embedded Spark, once both have ended."""
    import pyspark

    spark.stop()
    gateway: Any = pyspark.SparkContext._gateway
    pyspark.SparkContext._gateway = pyspark.SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM lives as long as this
    return int(gateway.proc.wait())


def _submitted(app_name: str, delta: Settings) -> SparkSession:
    """A session of the Spark application that spark-submit started for this process."""
    import pyspark
    from pyspark.sql import SparkSession

    pyspark.SparkContext._ensure_initialized()
    given = pyspark.SparkConf()
    builder = SparkSession.builder
    if not given.contains("spark.app.name"):
        builder = builder.appName(app_name)
    # Delta beside whatever extensions were given; a catalog that was given is the platform's business.
    extensions = (given.get("spark.sql.extensions") or "").split(",")
    wanted = delta["spark.sql.extensions"]
    if wanted not in extensions:
        builder = builder.config("spark.sql.extensions", ",".join([*filter(None, extensions), wanted]))
    if not given.contains("spark.sql.catalog.spark_catalog"):
        builder = builder.config("spark.sql.catalog.spark_catalog", delta["spark.sql.catalog.spark_catalog"])
    spark = builder.getOrCreate()
    _carry_wheels(spark, (given.get("spark.submit.pyFiles") or "").split(","))
    return spark


def _carry_wheels(spark: SparkSession, py_files: Sequence[str]) -> None:
    """Nothing; makes the wheels among spark-submit's --py-files importable on the executors too.

    Spark takes a wheel for the driver's path, but for theirs only what is called .zip, .egg or .jar.
    """
    for wheel in (Path(path) for path in py_files if path.endswith(".whl")):
        zipped = _scratch_folder() / f"{wheel.stem}.zip"
        shutil.copyfile(wheel, zipped)
        spark.sparkContext.addPyFile(str(zipped))


def _set_what_may_be_set(spark: SparkSession, settings: Settings) -> SparkSession:
    """The same session, with those of `settings` that it lets a user set."""
    from pyspark.errors import PySparkException

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark Connect warns of settings that mean nothing there
        for key, value in settings.items():
            with contextlib.suppress(PySparkException):  # static there, or not allowed on this platform
                spark.conf.set(key, value)
    return spark


def _scratch_folder() -> Path:
    """A new folder that goes when this process ends."""
    folder = tempfile.mkdtemp(prefix="kafka-placement-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _uri(place: str) -> str:
    """A folder's path as a URI; a URI as it is."""
    return place if "://" in place else Path(place).resolve().as_uri()


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Settings as Spark takes them: texts, booleans in lower case."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}
