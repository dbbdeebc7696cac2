# Databricks notebook source
# MAGIC %md
# MAGIC # Compare the observed placement with Kafka's schemes
# MAGIC
# MAGIC How would `kafka` (round robin with a shift), `kraft` (striped placement) and `naive` (`(i + j) mod n`) place
# MAGIC these topics, and how would failures turn out?
# MAGIC
# MAGIC It reads the tables that `kafka-placement run` writes: `KAFKA_PLACEMENT_STORE__WAREHOUSE` names their folder, or
# MAGIC `KAFKA_PLACEMENT_STORE__CATALOG` their catalog. With the package installed, it also runs as a script.

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
# MAGIC The percentiles are over many seeds. They show the range of values that one scheme gives by chance.

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
# MAGIC ## Copysets and the probability of loss
# MAGIC A copyset is a distinct set of brokers that holds all replicas of some partition. With fewer copysets,
# MAGIC simultaneous failures are less likely to lose a partition. But fewer survivors take over from a failed broker.

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
# MAGIC ## Placement origin: which schemes could have placed the topics

# COMMAND ----------

spark.sql(
    """
    SELECT o.* FROM gold.cluster_origin o JOIN insights.snapshots USING (cluster_id, snapshot_id) WHERE newest
    ORDER BY cluster_id
    """
).where(of_cluster).show(truncate=False, vertical=True)
