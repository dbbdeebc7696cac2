# Databricks notebook source
# MAGIC %md
# MAGIC # A plan, before it is carried out
# MAGIC
# MAGIC What it changes, what it proves, and which partitions it touches.
# MAGIC
# MAGIC Reads the tables that `kafka-placement run` made: `KAFKA_PLACEMENT_STORE__WAREHOUSE` names their folder,
# MAGIC `KAFKA_PLACEMENT_STORE__CATALOG` a catalog. A run plans for `plans.goal`.
# MAGIC It runs as a notebook and, with the package installed, as a script.

# COMMAND ----------

from pyspark.sql import functions as F

from pipelines.notebook import get_parameter, open_tables

spark = open_tables("review a plan")

# COMMAND ----------

cluster = get_parameter(globals(), "cluster", "%")  # a LIKE pattern: % = every cluster
of_cluster = F.col("cluster_id").like(cluster)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What it promises
# MAGIC `gap` 0 = no plan does with less.

# COMMAND ----------

spark.sql(
    """
    SELECT cluster_id, goal, feasible, reasons, moves, copied_bytes, leader_changes, objective_value, lower_bound, gap,
           round(leaders_max_over_mean_before, 3) AS leaders_before,
           round(leaders_max_over_mean_after, 3) AS leaders_after,
           round(worst_survivor_ratio_before, 3) AS worst_survivor_before,
           round(worst_survivor_ratio_after, 3) AS worst_survivor_after
    FROM gold.plans JOIN insights.snapshots USING (cluster_id, snapshot_id) WHERE newest ORDER BY cluster_id, goal
    """
).where(of_cluster).show(truncate=False, vertical=True)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The partitions that it changes, wave by wave

# COMMAND ----------

spark.sql(
    """
    SELECT cluster_id, goal, first_wave, topic, partition, replicas_before, replicas_after, copied_bytes, reason
    FROM gold.plan_moves JOIN insights.snapshots USING (cluster_id, snapshot_id) WHERE newest
    ORDER BY cluster_id, goal, first_wave, topic, partition
    """
).where(of_cluster).show(50, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Brokers that it relieves, and burdens
# MAGIC Preferred leaders that come, less those that go.

# COMMAND ----------

spark.sql(
    """
    WITH moves AS (
      SELECT m.* FROM gold.plan_moves m JOIN insights.snapshots USING (cluster_id, snapshot_id) WHERE newest
    )
    SELECT cluster_id, goal, broker_id, sum(change) AS leaders_more FROM (
      SELECT cluster_id, goal, replicas_after[0] AS broker_id, 1 AS change FROM moves
      UNION ALL
      SELECT cluster_id, goal, replicas_before[0], -1 FROM moves
    ) GROUP BY 1, 2, 3 HAVING sum(change) <> 0 ORDER BY 1, 2, 4
    """
).where(of_cluster).show(100, truncate=False)
