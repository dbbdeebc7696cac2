"""The JVM of a Spark that runs within this process: started from pyspark's own jars, and what it prints."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.errors import EnvironmentFault
from pipelines.setup.jars import jar_paths, jars_dir
from pipelines.setup.java import JavaInfo

# What a JVM prints at every start of Spark 4, and nothing can turn off.
_ALWAYS_SAID = (b"WARNING: Using incubator modules: jdk.incubator.vector",)


def start_jvm(settings: Mapping[str, str]) -> Any:
    """The gateway to a new JVM that has `settings`; what it prints goes to our stderr."""
    import pyspark  # late: commands without Spark import this module's neighbours
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    # Another Spark on this machine must not lend its jars or its defaults.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ.pop("SPARK_CONF_DIR", None)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    remote = os.environ.pop("SPARK_REMOTE", None)  # spark-submit would connect instead of starting
    read_end, write_end = os.pipe()
    output = _Output(read_end)
    try:
        conf = pyspark.SparkConf(loadDefaults=False).setAll(list(settings.items()))
        # Its stdout too: ours is for results, such as the JSON of a query.
        return launch_gateway(conf, popen_kwargs={"stdout": write_end, "stderr": write_end})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as problem:
        raise EnvironmentFault(
            f"Spark could not start ({problem}); its output is above. "
            "Check spark.driver.memory in conf/spark.toml against the memory of this machine, and JAVA_HOME"
        ) from problem
    finally:
        os.close(write_end)
        if sys.exc_info()[0] is not None:
            output.join(timeout=2)  # what it said before what we say
        if remote is not None:
            os.environ["SPARK_REMOTE"] = remote


class _Output(threading.Thread):
    """The JVM's output, passed on to our stderr line by line but for `_ALWAYS_SAID`."""

    def __init__(self, read_end: int) -> None:
        super().__init__(name="spark-output", daemon=True)
        self._read_end = read_end
        self.start()

    def run(self) -> None:
        with os.fdopen(self._read_end, "rb") as lines:
            for line in lines:
                if line.rstrip() not in _ALWAYS_SAID:
                    os.write(2, line)  # not sys.stderr: its lock may be gone when the interpreter ends


def class_archive(java: JavaInfo) -> Path:
    """Where set-up puts the archive of the classes that a start of Spark loads, for this Java and these jars."""
    import pyspark

    places = [Path(pyspark.__file__).parent / "jars", *jar_paths()]
    identity = repr((java.executable, java.version, [(str(place), place.stat().st_mtime_ns) for place in places]))
    return jars_dir().parent / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"


def class_archive_options(java: JavaInfo) -> str:
    """The JVM's options to start from the archive, in half of the time; empty where set-up made none.

    A JVM that finds an archive made for another class path leaves it alone, and would say so without the second option.
    """
    archive = class_archive(java)
    return f"-XX:SharedArchiveFile={archive} -Xlog:disable -Xlog:all=error:stderr" if archive.is_file() else ""
