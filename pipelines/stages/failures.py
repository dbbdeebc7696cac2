"""gold.failure_load and gold.failure_summary: the outcome of every single broker's death."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.tables.gold import FAILURE_LOAD, FAILURE_SUMMARY

_KEY = ("cluster_id", "snapshot_id")
_SCENARIO = (*_KEY, "scheme", "scenario", "failed_brokers")


def _scenario(frame: DataFrame) -> DataFrame:
    failed = F.col("failed_broker")
    return frame.withColumn("scenario", F.concat(F.lit("broker:"), failed)).withColumn(
        "failed_brokers", F.array(failed)
    )


def failure_load(broker_load: DataFrame, takeovers: DataFrame) -> DataFrame:
    """Rows of gold.failure_load: for each living broker that dies, every other living broker."""
    scheme = [*_KEY, "scheme"]
    dies = broker_load.select(*scheme, F.col("broker_id").alias("failed_broker"))
    pairs = dies.join(broker_load, on=scheme, how="inner").where(F.col("failed_broker") != F.col("broker_id"))
    gains = takeovers.where((F.col("failed_broker") >= 0) & (F.col("receiver") >= 0)).select(
        *scheme,
        "failed_broker",
        F.col("receiver").alias("broker_id"),
        F.col("leaders").alias("gained"),
        F.col("bytes_out_per_s").alias("gained_out"),
        F.col("bytes_in_per_s").alias("gained_in"),
    )
    rows = _scenario(pairs.join(gains, on=[*scheme, "failed_broker", "broker_id"], how="left"))
    gained = F.coalesce("gained", F.lit(0))
    return rows.withColumns(
        {
            "leaders_before": F.col("leaders"),
            "takeovers": gained,
            "leaders_after": F.col("leaders") + gained,
            "bytes_out_before_per_s": F.col("bytes_out_per_s"),
            "bytes_out_after_per_s": F.col("bytes_out_per_s") + F.coalesce("gained_out", F.lit(0.0)),
            "bytes_in_before_per_s": F.col("leader_bytes_in_per_s"),
            "bytes_in_after_per_s": F.col("leader_bytes_in_per_s") + F.coalesce("gained_in", F.lit(0.0)),
        }
    ).select(*FAILURE_LOAD.column_names)


def failure_summary(failure_load: DataFrame, broker_load: DataFrame, takeovers: DataFrame) -> DataFrame:
    """Rows of gold.failure_summary: one for each living broker that dies, also if it was the last."""
    scheme = [*_KEY, "scheme"]
    survivors = failure_load.groupBy(*_SCENARIO).agg(
        F.count("*").alias("survivors"),
        F.count_if(F.col("takeovers") > 0).alias("receivers"),
        F.avg("leaders_after").alias("leaders_after_mean"),
        F.max("leaders_after").alias("leaders_after_max"),
        F.max_by("broker_id", F.struct("leaders_after", -F.col("broker_id"))).alias("worst_survivor"),
        F.try_divide(F.max("leaders_after"), F.avg("leaders_after")).alias("worst_max_over_mean_ratio"),
        F.try_divide(F.max("bytes_out_after_per_s"), F.avg("bytes_out_after_per_s")).alias(
            "worst_bytes_out_max_over_mean_ratio"
        ),
    )
    as_is = takeovers.where(F.col("failed_broker") < 0).groupBy(*scheme)
    now = as_is.agg(*(F.sum(name).alias(f"{name}_now") for name in ("offline", "under_min_isr", "at_one_replica")))
    nobody = F.col("receiver") < 0
    deaths = takeovers.where(F.col("failed_broker") >= 0).groupBy(*scheme, "failed_broker")
    events = deaths.agg(
        F.sum("leaders").alias("lost"),
        *(
            F.sum(name).alias(name)
            for name in (
                "unclean_elections",
                "newly_offline",
                "newly_offline_unsized",
                "newly_under_min_isr",
                "under_min_isr_to_offline",
                "newly_at_one_replica",
                "at_one_replica_to_offline",
            )
        ),
        F.sum(F.when(nobody & (F.col("newly_offline") > 0), F.col("size_bytes"))).alias("lost_bytes"),
    )
    # A living broker's size is unknown only where no size of its cluster is known.
    sized = F.col("size_bytes").isNotNull().alias("sizes_known")
    dies = _scenario(broker_load.select(*scheme, F.col("broker_id").alias("failed_broker"), sized))
    rows = dies.join(survivors.drop("failed_brokers"), on=[*scheme, "scenario"], how="left")
    rows = rows.join(events, on=[*scheme, "failed_broker"], how="left").join(now, on=scheme, how="left")

    def number(name: str) -> Column:
        return F.coalesce(F.col(name), F.lit(0))

    all_sized = F.col("sizes_known") & (number("newly_offline_unsized") == 0)
    one_more = number("newly_at_one_replica") - number("at_one_replica_to_offline")
    fewer = number("newly_under_min_isr") - number("under_min_isr_to_offline")
    return rows.withColumns(
        {
            "survivors": number("survivors"),
            "receivers": number("receivers"),
            "leaders_lost": number("lost"),
            "offline_partitions": number("offline_now") + number("newly_offline"),
            "newly_offline_partitions": number("newly_offline"),
            "offline_size_bytes": F.when(all_sized, number("lost_bytes")),
            "under_min_isr_partitions": number("under_min_isr_now") + fewer,
            "at_one_replica_partitions": number("at_one_replica_now") + one_more,
            "unclean_elections": number("unclean_elections"),
        }
    ).select(*FAILURE_SUMMARY.column_names)
