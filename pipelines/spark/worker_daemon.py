"""Fork Spark's Python workers from a process that has imported their libraries, which takes a second each.

spark.python.daemon.module in conf/spark.toml names this module.
"""

import gc

import pandas as pd  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.sql.pandas.serializers  # noqa: F401
from pyspark import daemon

import pipelines.stages.stage_registry  # noqa: F401
import udfs.planning.goal_planners  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # workers share the memory of what is imported
    daemon.manager()  # type: ignore[no-untyped-call]
