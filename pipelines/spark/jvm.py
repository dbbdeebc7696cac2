"""Start the JVM of an embedded Spark from pyspark's own jars, and pass on what it prints."""

import hashlib
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.errors import EnvironmentFault
from pipelines.setup.jars import get_jars_folder, list_jar_files
from pipelines.setup.java import JavaInfo

# Printed by the JVM at every start of Spark 4; no option turns it off.
_USUAL_OUTPUT = (b"WARNING: Using incubator modules: jdk.incubator.vector",)


def start_jvm(settings: Mapping[str, str]) -> Any:
    """Start a JVM with Spark settings; its output goes to stderr.

    Returns:
        The gateway to it.

    Raises:
        EnvironmentFault: If it does not start.
    """
    import pyspark  # here, because commands without Spark import this module's neighbours
    from pyspark.errors import PySparkRuntimeError
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
    import pyspark

    files = [Path(pyspark.__file__).parent / "jars", *list_jar_files()]
    identity = repr((java.executable, java.version, [(str(file), file.stat().st_mtime_ns) for file in files]))
    return get_jars_folder().parent / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"


def class_archive_options(java: JavaInfo) -> str:
    """Return the JVM's options to start from the archive, which halves the time; empty if there is none.

    The second option hides that a JVM ignores an archive that was made for another class path.
    """
    archive = class_archive_file(java)
    return f"-XX:SharedArchiveFile={archive} -Xlog:disable -Xlog:all=error:stderr" if archive.is_file() else ""
