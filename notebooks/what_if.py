# Databricks notebook source
# MAGIC %md
# MAGIC # What if these brokers fail together?
# MAGIC
# MAGIC Shows which brokers take over, and which partitions go offline, for any set of brokers.
# MAGIC
# MAGIC It reads the tables that `kafka-placement run` writes: `KAFKA_PLACEMENT_STORE__WAREHOUSE` names their folder, or
# MAGIC `KAFKA_PLACEMENT_STORE__CATALOG` their catalog. With the package installed, it also runs as a script.

# COMMAND ----------

from pyspark.sql import functions as F

from pipelines.config.settings import load_settings
from pipelines.notebook import get_parameter, open_tables
from pipelines.spark.election_udf import elect_leader

spark = open_tables("what if")

# COMMAND ----------

cluster = get_parameter(globals(), "cluster", "%")  # a LIKE pattern: % = every cluster
of_cluster = F.col("cluster_id").like(cluster)
failed = get_parameter(globals(), "failed", "1,1001")  # broker ids, separated by commas
ids = [(int(one),) for one in failed.split(",")]
spark.createDataFrame(ids, "broker_id int").createOrReplaceTempView("failed_brokers")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Brokers that take over
# MAGIC `elect_leader` applies the election rule of the pipeline. The new leader is the first live replica in the ISR,
# MAGIC or else the first live one in the ELR. If there is neither, and the topic allows unclean elections, it is the
# MAGIC first live replica.

# COMMAND ----------

default = load_settings().topics.unclean_leader_election  # for topics whose sources do not show it
led_by_failed = spark.sql(
    f"""
    SELECT p.cluster_id, p.topic, p.partition, p.leader, p.replicas, p.isr, p.elr, p.failed_dir_replicas, b.live,
           b.unknown, f.failed,
           coalesce(t.unclean_leader_election, {default}) AS unclean
    FROM silver.partitions p
    JOIN silver.topics t ON p.cluster_id = t.cluster_id AND p.snapshot_id = t.snapshot_id AND p.topic = t.topic
    JOIN insights.snapshots s ON p.cluster_id = s.cluster_id AND p.snapshot_id = s.snapshot_id
    JOIN (
      SELECT cluster_id, snapshot_id, collect_list(broker_id) AS live,
             collect_list(CASE WHEN live IS NULL THEN broker_id END) AS unknown
      FROM silver.brokers WHERE live IS NOT FALSE GROUP BY cluster_id, snapshot_id
    ) b ON p.cluster_id = b.cluster_id AND p.snapshot_id = b.snapshot_id
    CROSS JOIN (SELECT collect_list(broker_id) AS failed FROM failed_brokers) f
    WHERE s.newest AND array_contains(f.failed, p.leader)
    """
).where(of_cluster)
election = elect_leader(F.col("unclean"), F.col("live"), F.col("unknown"), F.col("failed"))
led_by_failed.withColumn("election", election).createOrReplaceTempView("after_the_failure")
spark.sql(
    """
    SELECT cluster_id, election.leader AS takes_over, count(*) AS partitions,
           count_if(election.elected_from = 'unclean') AS unclean_elections
    FROM after_the_failure WHERE election.leader >= 0 GROUP BY 1, 2 ORDER BY 1, 3 DESC
    """
).show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Partitions that go offline

# COMMAND ----------

spark.sql(
    "SELECT cluster_id, topic, partition, leader, replicas, isr FROM after_the_failure WHERE election.leader = -1 "
    "ORDER BY cluster_id, topic, partition"
).show(50, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The worst pair of each cluster

# COMMAND ----------

spark.sql("SELECT * FROM insights.worst_pair").where(of_cluster).show(truncate=False)
