# Databricks notebook source
# MAGIC %md
# MAGIC # How did metrics change over time?
# MAGIC
# MAGIC Compares the snapshots of a cluster, and the versions of a table.
# MAGIC
# MAGIC It reads the tables that `kafka-placement run` writes: `KAFKA_PLACEMENT_STORE__WAREHOUSE` names their folder, or
# MAGIC `KAFKA_PLACEMENT_STORE__CATALOG` their catalog. With the package installed, it also runs as a script.

# COMMAND ----------

from pyspark.sql import functions as F

from pipelines.notebook import get_parameter, open_tables

spark = open_tables("over time")

# COMMAND ----------

cluster = get_parameter(globals(), "cluster", "%")  # a LIKE pattern: % = every cluster
of_cluster = F.col("cluster_id").like(cluster)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The snapshots

# COMMAND ----------

spark.sql("SELECT * FROM insights.snapshots ORDER BY cluster_id, number").where(of_cluster).show(100, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Metrics by snapshot

# COMMAND ----------

spark.sql(
    """
    SELECT cluster_id, metric, number, seen_at, round(value, 4) AS value, round(change, 4) AS change
    FROM insights.metric_history WHERE metric IN
      ('leaders_max_over_mean_ratio', 'worst_survivor_ratio', 'most_newly_offline_partitions')
    ORDER BY cluster_id, metric, number
    """
).where(of_cluster).show(100, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What changed since the previous snapshot

# COMMAND ----------

changes = spark.sql(
    """
    SELECT cluster_id, change, count(*) AS partitions, count_if(isr_shrunk) AS isr_shrunk,
           count_if(isr_expanded) AS isr_expanded, count_if(leader_changed) AS leader_changed,
           count_if(replicas_changed) AS replicas_changed
    FROM insights.snapshot_changes GROUP BY cluster_id, change
    """
)
changes.where(of_cluster).orderBy("cluster_id", "change").show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Two versions of a table
# MAGIC Delta keeps old versions of each table. This query compares the metrics of one version with the current ones.
# MAGIC Later runs add rows for new snapshots. Rows with another value (`different`) were computed again, with other
# MAGIC settings or by another release.

# COMMAND ----------

version = int(get_parameter(globals(), "version", "1"))  # 0 = the new table, without rows
spark.sql("DESCRIBE HISTORY gold.scheme_comparison").select("version", "timestamp", "operation").show(truncate=False)
spark.sql(
    f"""
    SELECT coalesce(now.cluster_id, was.cluster_id) AS cluster_id,
           coalesce(now.snapshot_id, was.snapshot_id) AS snapshot_id,
           count(was.metric) AS rows_then, count(now.metric) AS rows_now,
           count_if(now.metric IS NOT NULL AND was.metric IS NOT NULL AND NOT now.value <=> was.value) AS different
    FROM gold.scheme_comparison now
    FULL OUTER JOIN gold.scheme_comparison VERSION AS OF {version} was
      ON now.cluster_id = was.cluster_id AND now.snapshot_id = was.snapshot_id AND now.scheme = was.scheme
      AND now.metric = was.metric
    GROUP BY 1, 2 ORDER BY 1, 2
    """
).where(of_cluster).show(100, truncate=False)
