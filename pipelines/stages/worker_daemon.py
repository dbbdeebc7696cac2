"""Fork Spark's Python workers from a process that has imported their libraries, which takes a second each.

spark.python.daemon.module in conf/spark.toml names this module.
"""

import sys

# Spark puts zips of its Python code in front. In them it is not compiled to bytecode, as an installed PySpark is.
sys.path.sort(key=lambda entry: entry.endswith(".zip"))

import gc
import zipimport

import pandas as pd  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.sql.pandas.serializers  # noqa: F401
from pyspark import daemon

import pipelines.stages.stage_registry  # noqa: F401
import udfs.planning.plan_making  # noqa: F401


def _keep_zip_directory(_importer: zipimport.zipimporter) -> None:
    """Keep what is known of a zip, which does not change under its name."""


if __name__ == "__main__":
    # Spark has Python read the directory of every zip again before each task, which takes a tenth of a second.
    zipimport.zipimporter.invalidate_caches = _keep_zip_directory  # type: ignore[assignment]
    gc.freeze()  # workers share the memory of what is imported
    daemon.manager()  # type: ignore[no-untyped-call]
