# Databricks notebook source
# MAGIC %md
# MAGIC # What if these brokers fail together?
# MAGIC
# MAGIC Who would take over, and what would be offline: for any set of brokers, straight from `silver.partitions`.
# MAGIC
# MAGIC Reads the tables that `kafka-placement run` made: `KAFKA_PLACEMENT_STORE__WAREHOUSE` names their folder,
# MAGIC `KAFKA_PLACEMENT_STORE__CATALOG` a catalog. It runs as a notebook and, with the package installed, as a script.

# COMMAND ----------

from pyspark.sql import functions as F

from pipelines.notebook import open_tables, parameter

spark = open_tables("what if")

# COMMAND ----------

cluster = parameter(globals(), "cluster", "%")  # a LIKE pattern: % = every cluster
mine = F.col("cluster_id").like(cluster)
failed = parameter(globals(), "failed", "1,1001")  # ids with commas
ids = [(int(one),) for one in failed.split(",")]
spark.createDataFrame(ids, "broker_id int").createOrReplaceTempView("failed_brokers")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The outcome, partition by partition
# MAGIC The next leader is the first replica of the list that lives and is in sync; where nobody is, and the topic
# MAGIC allows unclean elections, the first that lives; else the partition is offline.

# COMMAND ----------

after = spark.sql(
    """
    SELECT *, size(in_sync) = 0 AND unclean AND size(live) > 0 AS lossy,
           coalesce(get(in_sync, 0), CASE WHEN unclean THEN get(live, 0) END) AS takes_over
    FROM (
      SELECT p.cluster_id, p.topic, p.partition, p.leader, p.replicas, p.isr,
             filter(p.replicas, r -> array_contains(b.live, r) AND NOT array_contains(f.ids, r)) AS live,
             filter(p.replicas, r -> array_contains(b.live, r) AND NOT array_contains(f.ids, r)
                                     AND array_contains(p.isr, r)) AS in_sync,
             coalesce(t.unclean_leader_election, false) AS unclean
      FROM silver.partitions p
      JOIN silver.topics t ON p.cluster_id = t.cluster_id AND p.snapshot_id = t.snapshot_id AND p.topic = t.topic
      JOIN insights.snapshots s ON p.cluster_id = s.cluster_id AND p.snapshot_id = s.snapshot_id
      JOIN (
        SELECT cluster_id, snapshot_id, collect_list(broker_id) AS live
        FROM silver.brokers WHERE live GROUP BY cluster_id, snapshot_id
      ) b ON p.cluster_id = b.cluster_id AND p.snapshot_id = b.snapshot_id
      CROSS JOIN (SELECT collect_list(broker_id) AS ids FROM failed_brokers) f
      WHERE s.newest AND array_contains(f.ids, p.leader)
    )
    """
).where(mine)
after.createOrReplaceTempView("after_the_failure")
spark.sql(
    """
    SELECT cluster_id, takes_over, count(*) AS partitions, count_if(lossy) AS of_them_unclean
    FROM after_the_failure WHERE takes_over IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 3 DESC
    """
).show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What is offline then

# COMMAND ----------

spark.sql(
    "SELECT cluster_id, topic, partition, leader, replicas, isr FROM after_the_failure WHERE takes_over IS NULL "
    "ORDER BY cluster_id, topic, partition"
).show(50, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The pairs that would be worst

# COMMAND ----------

spark.sql("SELECT * FROM insights.worst_pair").where(mine).show(truncate=False)
