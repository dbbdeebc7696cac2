# Databricks notebook source
# MAGIC %md
# MAGIC # Who leads too much, and what would each broker's death do?
# MAGIC
# MAGIC Reads the tables that `kafka-placement run` made. Where they are comes from the settings, as for the command:
# MAGIC `KAFKA_PLACEMENT_STORE__WAREHOUSE` names a folder, `KAFKA_PLACEMENT_STORE__CATALOG` a catalog. It runs as a
# MAGIC notebook and, with the package installed, as `python notebooks/who_leads_too_much.py`.

# COMMAND ----------

from pipelines.session import open_session
from pipelines.settings import load_settings
from pipelines.store import Store
from pipelines.tables import TABLES

store_settings = load_settings().store
spark = open_session("who leads too much", warehouse=store_settings.warehouse)
store = Store(spark, store_settings.warehouse, store_settings.catalog)
store.register([name for name in TABLES if name.startswith("gold.")])

# COMMAND ----------

# MAGIC %md
# MAGIC ## Leaders as they are, by scheme
# MAGIC `leaders_max_over_mean_ratio` 1.0 = all brokers lead equally many.

# COMMAND ----------

spark.sql("""
    SELECT cluster_id, scheme, brokers, partitions, leaders_max, round(leaders_mean, 1) AS leaders_mean,
           round(max_over_mean_ratio, 3) AS max_over_mean_ratio, hottest_broker, hot_brokers
    FROM gold.leader_hotspots WHERE topic IS NULL ORDER BY cluster_id, scheme
""").show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The deaths that hurt most
# MAGIC For the placement as it is: the survivor that would lead most, and what would go offline.

# COMMAND ----------

spark.sql("""
    SELECT cluster_id, scenario, leaders_lost, receivers, worst_survivor,
           round(leaders_worst_over_mean, 3) AS leaders_worst_over_mean,
           newly_offline_partitions, under_min_isr_partitions
    FROM gold.failure_summary WHERE scheme = 'observed' AND scenario_kind = 'broker'
    ORDER BY newly_offline_partitions DESC, leaders_worst_over_mean DESC LIMIT 10
""").show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Topics whose leaders sit on few brokers
# MAGIC Each topic is placed blind to the others: these are the ones to look at first.

# COMMAND ----------

spark.sql("""
    SELECT cluster_id, topic, partitions, leaders_max, hottest_broker, round(spread_percent) AS spread_percent
    FROM gold.leader_hotspots WHERE scheme = 'observed' AND topic IS NOT NULL AND partitions >= brokers
    ORDER BY leaders_max / leaders_mean DESC, partitions DESC LIMIT 10
""").show(truncate=False)
