# Databricks notebook source
# MAGIC %md
# MAGIC # Review a plan before you execute it
# MAGIC
# MAGIC Shows what the plan changes, what it proves, and which partitions it affects.
# MAGIC
# MAGIC It reads the tables that `kafka-placement run` writes: `KAFKA_PLACEMENT_STORE__WAREHOUSE` names their folder, or
# MAGIC `KAFKA_PLACEMENT_STORE__CATALOG` their catalog. With the package installed, it also runs as a script.
# MAGIC A run makes the plans that the verdict of each cluster recommends, or those of the goals in `plans.goals`.

# COMMAND ----------

from pyspark.sql import functions as F

from pipelines.notebook import get_parameter, open_tables

spark = open_tables("review a plan")

# COMMAND ----------

cluster = get_parameter(globals(), "cluster", "%")  # a LIKE pattern: % = every cluster
of_cluster = F.col("cluster_id").like(cluster)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What the plan achieves
# MAGIC If `gap` is 0, the plan is optimal: it reaches the proven lower bound.

# COMMAND ----------

spark.sql(
    """
    SELECT cluster_id, goal, feasible, reasons, moves, copied_bytes, leader_changes, objective_value, lower_bound, gap,
           missed_targets
    FROM gold.plans JOIN insights.snapshots USING (cluster_id, snapshot_id) WHERE newest ORDER BY cluster_id, goal
    """
).where(of_cluster).show(truncate=False, vertical=True)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The cluster before and after the plan

# COMMAND ----------

spark.sql(
    """
    SELECT cluster_id, goal, metric, round(before, 3) AS before, round(after, 3) AS after, lower_bound
    FROM gold.plan_metrics JOIN insights.snapshots USING (cluster_id, snapshot_id) WHERE newest
    ORDER BY cluster_id, goal, metric
    """
).where(of_cluster).show(200, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The partitions that the plan changes, by wave

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
# MAGIC ## Brokers with more or fewer preferred leaders
# MAGIC `leaders_more` is the number of preferred leaders that a broker gains, minus those that it gives up.

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
