# Databricks notebook source
# MAGIC %md
# MAGIC # The cluster as it is beside Kafka's schemes
# MAGIC
# MAGIC What would `kafka` (the round robin with a shift), `kraft` (stripes) and `naive` (`(i + j) mod n`) have made
# MAGIC of these topics?
# MAGIC
# MAGIC Reads the tables that `kafka-placement run` made: `KAFKA_PLACEMENT_STORE__WAREHOUSE` names their folder,
# MAGIC `KAFKA_PLACEMENT_STORE__CATALOG` a catalog. It runs as a notebook and, with the package installed, as a script.

# COMMAND ----------

from pyspark.sql import functions as F

from pipelines.notebook import get_parameter, open_tables

spark = open_tables("compare schemes")

# COMMAND ----------

cluster = get_parameter(globals(), "cluster", "%")  # a LIKE pattern: % = every cluster
of_cluster = F.col("cluster_id").like(cluster)
metric = get_parameter(globals(), "metric", "worst_survivor_ratio")

# COMMAND ----------

# MAGIC %md
# MAGIC ## One metric, scheme by scheme
# MAGIC Percentiles are over many seeds: where another draw of the same scheme would lie.

# COMMAND ----------

spark.sql(
    """
    SELECT cluster_id, metric, scheme, round(value, 3) AS value, round(ratio_to_naive, 3) AS ratio_to_naive, seeds,
           round(value_p05, 3) AS value_p05, round(value_p95, 3) AS value_p95
    FROM gold.scheme_comparison JOIN insights.snapshots USING (cluster_id, snapshot_id) WHERE newest
    ORDER BY cluster_id, scheme
    """
).where(of_cluster).where(F.col("metric") == metric).show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Replica sets against the chance of a loss
# MAGIC Fewer distinct sets (copysets): fewer ways to lose a partition when brokers fail at once - and fewer survivors
# MAGIC to
# MAGIC take over.

# COMMAND ----------

spark.sql(
    """
    SELECT cluster_id, scheme, failures, copysets, round(scatter_width_mean, 1) AS scatter_width_mean, loss_probability
    FROM gold.durability JOIN insights.snapshots USING (cluster_id, snapshot_id)
    WHERE newest AND failure_unit = 'broker'
    ORDER BY cluster_id, failures, scheme
    """
).where(of_cluster).show(100, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What placed the topics

# COMMAND ----------

spark.sql(
    """
    SELECT o.* FROM gold.cluster_origin o JOIN insights.snapshots USING (cluster_id, snapshot_id) WHERE newest
    ORDER BY cluster_id
    """
).where(of_cluster).show(truncate=False, vertical=True)
