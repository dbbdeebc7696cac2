# Databricks notebook source
# MAGIC %md
# MAGIC # How it went over time
# MAGIC
# MAGIC Snapshots of a cluster one beside another, and the tables as they were.
# MAGIC
# MAGIC Reads the tables that `kafka-placement run` made: `KAFKA_PLACEMENT_STORE__WAREHOUSE` names their folder,
# MAGIC `KAFKA_PLACEMENT_STORE__CATALOG` a catalog. It runs as a notebook and, with the package installed, as a script.

# COMMAND ----------

from pyspark.sql import functions as F

from pipelines.notebook import open_tables, parameter

spark = open_tables("over time")

# COMMAND ----------

cluster = parameter(globals(), "cluster", "%")  # a LIKE pattern: % = every cluster
mine = F.col("cluster_id").like(cluster)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The snapshots

# COMMAND ----------

spark.sql("SELECT * FROM ask.snapshots ORDER BY cluster_id, number").where(mine).show(100, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Metrics, snapshot by snapshot

# COMMAND ----------

spark.sql(
    """
    SELECT cluster_id, metric, number, seen_at, round(value, 4) AS value, round(change, 4) AS change
    FROM ask.over_time WHERE metric IN
      ('leaders_max_over_mean_ratio', 'worst_survivor_max_over_mean_ratio', 'most_newly_offline_partitions')
    ORDER BY cluster_id, metric, number
    """
).where(mine).show(100, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What changed since the snapshot before

# COMMAND ----------

spark.sql("SELECT cluster_id, what, count(*) AS partitions FROM ask.changed GROUP BY 1, 2 ORDER BY 1, 2").where(
    mine
).show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Time travel
# MAGIC Delta keeps what each table was: the first version of a table with rows beside the present one.

# COMMAND ----------

spark.sql("SELECT count(*) AS rows_now FROM gold.broker_load").show()
spark.sql("SELECT count(*) AS rows_then FROM gold.broker_load VERSION AS OF 1").show()
spark.sql("DESCRIBE HISTORY gold.broker_load").select("version", "timestamp", "operation").show(10, truncate=False)
