# Databricks notebook source
# MAGIC %md
# MAGIC # Which brokers lead too many partitions, and what happens if a broker fails?
# MAGIC
# MAGIC A first look at a cluster.
# MAGIC
# MAGIC It reads the tables that `kafka-placement run` writes: `KAFKA_PLACEMENT_STORE__WAREHOUSE` names their folder, or
# MAGIC `KAFKA_PLACEMENT_STORE__CATALOG` their catalog. With the package installed, it also runs as a script.

# COMMAND ----------

from pyspark.sql import functions as F

from pipelines.notebook import get_parameter, open_tables

spark = open_tables("explore a cluster")

# COMMAND ----------

cluster = get_parameter(globals(), "cluster", "%")  # a LIKE pattern: % = every cluster
of_cluster = F.col("cluster_id").like(cluster)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Leaders by scheme
# MAGIC If `max_over_mean_ratio` is 1.0, all brokers lead the same number of partitions.

# COMMAND ----------

spark.sql(
    """
    SELECT cluster_id, scheme, brokers, partitions, leaders_max, round(leaders_mean, 1) AS leaders_mean,
           round(max_over_mean_ratio, 3) AS max_over_mean_ratio, hottest_broker, hot_brokers
    FROM gold.leader_hotspots JOIN insights.snapshots USING (cluster_id, snapshot_id)
    WHERE newest AND topic IS NULL ORDER BY cluster_id, scheme
    """
).where(of_cluster).show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Which brokers can fail now?

# COMMAND ----------

risks = spark.sql("SELECT * FROM insights.broker_failure_risk ORDER BY cluster_id, broker_id")
risks.where(of_cluster).show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The worst failures of single brokers
# MAGIC For the observed placement: the survivor that leads the most partitions afterwards, and what goes offline.

# COMMAND ----------

spark.sql(
    """
    SELECT cluster_id, scenario, leaders_lost, takeover_brokers, worst_survivor,
           round(worst_survivor_ratio, 3) AS worst_survivor_ratio,
           newly_offline_partitions, under_min_isr_partitions
    FROM gold.failure_summary JOIN insights.snapshots USING (cluster_id, snapshot_id)
    WHERE newest AND scheme = 'observed' AND scenario_kind = 'broker'
    ORDER BY newly_offline_partitions DESC, worst_survivor_ratio DESC
    """
).where(of_cluster).limit(10).show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Topics with leaders on few brokers
# MAGIC Kafka places each topic without regard to the others. These topics are the least even; look at them first.

# COMMAND ----------

spark.sql(
    """
    SELECT cluster_id, topic, partitions, leaders_max, hottest_broker,
           round(brokers_spread_percent) AS brokers_spread_percent
    FROM gold.leader_hotspots JOIN insights.snapshots USING (cluster_id, snapshot_id)
    WHERE newest AND scheme = 'observed' AND topic IS NOT NULL AND partitions >= brokers
    ORDER BY leaders_max / leaders_mean DESC, partitions DESC
    """
).where(of_cluster).limit(10).show(truncate=False)
