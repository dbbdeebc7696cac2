"""Open the Spark session; no other module creates one or touches its JVM.

A session that exists (a notebook, a test) or whose Spark was started by a platform (spark-submit, a job) is used as it
is. Otherwise the session connects to a Spark Connect server, if one is named, or starts Spark within this process; for
few rows, what runs there can be Sail, which needs no Java.
"""

import atexit
import contextlib
import ctypes
import hashlib
import importlib.util
import logging
import os
import shutil
import socket
import struct
import sys
import tempfile
import threading
import tomllib
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession

from pipelines.config.settings import read_conf_file
from pipelines.errors import EnvironmentFault
from pipelines.setup.jars import get_jars_folder, list_jar_files
from pipelines.setup.java import JavaInfo, check_java

SparkSettings = Mapping[str, str]
_DATABRICKS = "DATABRICKS_RUNTIME_VERSION"  # set wherever Databricks runs Python


def open_session(
    app_name: str,
    *,
    warehouse: str | None,
    remote: str | None = None,
    small: bool = False,
    without_java: bool = False,
    extra: SparkSettings | None = None,
) -> SparkSession:
    """Open a session with the settings of conf/spark.toml; raise EnvironmentFault if Spark cannot start.

    warehouse: of an embedded Spark, for tables without a location; None = a folder that is removed. remote: of a Spark
    Connect server, or `local[N]` for one within this process; else SPARK_REMOTE. small: compile less for little work.
    without_java: instead of an embedded Spark, start Sail where it can run; it reads no tables.
    """
    conf = tomllib.loads(read_conf_file("spark.toml"))
    session_settings = {**_to_texts(conf["every_session"]), **(extra or {})}
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
    if without_java and not remote and can_start_sail():
        return _apply_settings(start_sail(), {**session_settings, **_to_texts(conf["sail"])})

    settings = {"spark.app.name": app_name, **_to_texts(conf["delta"]), **_to_texts(conf["embedded"])}
    settings |= {key: str(factor * (os.cpu_count() or 1)) for key, factor in conf["embedded_per_core"].items()}
    settings |= _to_texts(conf["embedded_connect"]) if remote else {}
    settings |= _to_texts(conf["embedded_small" if small else "embedded_large"]) | session_settings
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


def read_plans(frame: DataFrame) -> tuple[str, bool]:
    """Return the plans of a query before it is optimized, and whether they are JSON: Spark Connect has only text."""
    either: Any = frame  # of this process, or of a Spark Connect server
    if "_jdf" not in vars(frame):
        return either._explain_string(extended=True), False
    execution = either._jdf.queryExecution()
    return f"{execution.logical().toJSON()}\n{execution.analyzed().toJSON()}", True


def stop_embedded(spark: SparkSession) -> int:
    """Stop an embedded Spark and its JVM; return the JVM's exit code."""
    spark.stop()
    gateway: Any = pyspark.SparkContext._gateway
    pyspark.SparkContext._gateway = pyspark.SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when this is closed
    return int(gateway.proc.wait())


def _is_started_by_platform() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ or _DATABRICKS in os.environ


def _find_running() -> SparkSession | None:
    active = SparkSession.getActiveSession()  # of this thread
    if active is not None:
        return active
    try:
        from pyspark import SparkContext
    except ImportError:  # this pyspark is a Spark Connect client only
        return None
    return None if SparkContext._active_spark_context is None else SparkSession.builder.getOrCreate()


def _start_embedded(settings: dict[str, str], warehouse: str | None, remote: str | None) -> SparkSession:
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
    # Make the wheels among --py-files importable on the executors, where Spark accepts no .whl.
    for wheel in (Path(path) for path in (conf.get("spark.submit.pyFiles") or "").split(",") if path.endswith(".whl")):
        zip_file = _make_scratch_folder() / f"{wheel.stem}.zip"
        shutil.copyfile(wheel, zip_file)
        spark.sparkContext.addPyFile(str(zip_file))
    return spark


def _apply_settings(spark: SparkSession, settings: SparkSettings) -> SparkSession:
    """Apply those of the settings that a running session lets a user change."""
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
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}


# Printed by the JVM at every start of Spark 4; no option turns it off.
_USUAL_OUTPUT = (b"WARNING: Using incubator modules: jdk.incubator.vector",)


def start_jvm(settings: Mapping[str, str]) -> Any:
    """Start a JVM, its output on stderr, and return the gateway; raise EnvironmentFault if it does not start."""
    from pyspark.java_gateway import launch_gateway

    # Jars and defaults of another Spark on this machine must not be used.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ.pop("SPARK_CONF_DIR", None)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    remote = os.environ.pop("SPARK_REMOTE", None)  # spark-submit would connect instead of starting
    read_end, write_end = os.pipe()
    output = _OutputFilter(read_end)
    try:
        conf = pyspark.SparkConf(loadDefaults=False).setAll(list(settings.items()))
        # The JVM's stdout too: ours is for results, such as the JSON of a query.
        return launch_gateway(conf, popen_kwargs={"stdout": write_end, "stderr": write_end})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        raise EnvironmentFault(
            f"Spark could not start ({error}); its output is above. "
            "Check spark.driver.memory in conf/spark.toml against the memory of this machine, and JAVA_HOME"
        ) from error
    finally:
        os.close(write_end)
        if sys.exc_info()[0] is not None:
            output.join(timeout=2)  # so that the JVM's output comes before the error
        if remote is not None:
            os.environ["SPARK_REMOTE"] = remote


class _OutputFilter(threading.Thread):
    """Passes the JVM's output on to stderr line by line, without `_USUAL_OUTPUT`."""

    def __init__(self, read_end: int) -> None:
        super().__init__(name="spark-output", daemon=True)
        self._read_end = read_end
        self.start()

    def run(self) -> None:
        with os.fdopen(self._read_end, "rb") as lines:
            for line in lines:
                if line.rstrip() not in _USUAL_OUTPUT:
                    os.write(2, line)  # not sys.stderr: its lock may be gone when the interpreter ends


def class_archive_file(java: JavaInfo) -> Path:
    """Return the file in which setup archives the classes that a start of Spark loads, for this Java and these jars."""
    files = [Path(pyspark.__file__).parent / "jars", *list_jar_files()]
    identity = repr((java.executable, java.version, [(str(file), file.stat().st_mtime_ns) for file in files]))
    return get_jars_folder().parent / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"


def class_archive_options(java: JavaInfo) -> str:
    """Return the JVM options to start from the archive, in half the time, without complaints if it does not match."""
    archive = class_archive_file(java)
    return f"-XX:SharedArchiveFile={archive} -Xlog:disable -Xlog:all=error:stderr" if archive.is_file() else ""


# Run Spark's data frames in this process, without Java: Sail executes what a Spark Connect client sends it.
# For few rows: Java would take longer to start, and Spark to plan the queries, than the rows to be computed. Sail's
# server has no authentication, and who connects to it can run code. So it listens on this machine only, and drops every
# connection but the first one, which is that of the session.
_HOST = "127.0.0.1"
_SO_ATTACH_FILTER = 26  # of Linux
_DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)  # a filter of one instruction: return 0 bytes of the packet
_IDLE_SECONDS = str(7 * 24 * 3600)  # after which Sail forgets a session
_servers: list[Any] = []  # they run as long as this process


def can_start_sail() -> bool:
    """Tell whether Sail is installed, and this machine can keep others from its server."""
    return sys.platform == "linux" and importlib.util.find_spec("pysail") is not None


def start_sail() -> SparkSession:
    """Start Sail in this process and open a session of it; raise EnvironmentFault if others could connect too."""
    # Before the import. Errors reach the client; a step may take longer than the 15 minutes that Sail waits by default.
    os.environ |= {"RUST_LOG": os.environ.get("RUST_LOG", "off"), "SAIL_SPARK__SESSION_TIMEOUT_SECS": _IDLE_SECONDS}
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer(_HOST, 0)
    server.start(background=True)
    _, port = server.listening_address
    spark = SparkSession.builder.remote(f"sc://{_HOST}:{port}").getOrCreate()
    spark.conf.get("spark.sql.session.timeZone")  # the connection is made with the first call
    if not _drop_connections(port):
        spark.stop()
        server.stop()
        problem = "other users of this machine could connect to the Spark Connect server of this process"
        raise EnvironmentFault(f"{problem}. Use Spark with Java: --set run.engine=spark")
    _servers.append(server)
    return spark


def _drop_connections(port: int) -> bool:
    """Drop all further connections to the socket of this process that listens on a port; tell whether there is one."""
    program = ctypes.create_string_buffer(_DROP_ALL)
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it has been closed meanwhile
            if not str(link.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(link.name))) as one:
                if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and one.getsockname()[:2] == (_HOST, port):
                    argument = struct.pack("HP", 1, ctypes.addressof(program))
                    one.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, argument)
                    return True
    return False
