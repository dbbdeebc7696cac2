"""The process from which Spark's Python workers are forked, with the libraries that they need loaded once.

Named by spark.python.daemon.module in conf/spark.toml. Spark's own daemon has nothing loaded: each worker then spends
more than a second on imports, and a small run has six of them.
"""

from __future__ import annotations

import gc

import pandas as pd  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.sql.pandas.serializers  # noqa: F401
from pyspark import daemon

import pipelines.stages.stage_registry  # noqa: F401
import udfs.planning.planners  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # what is loaded stays as it is in all workers, and shares their memory
    daemon.manager()  # type: ignore[no-untyped-call]
