"""The query of the view insights.growth."""

GROWTH = """
-- insights.growth: When growth reaches the limits of clusters and brokers, the soonest first: full disks, a worst
-- survivor over its capacity (N+1 is lost), too many partitions.
SELECT f.cluster_id, f.limit_name, f.broker_id, f.quantity,
       CASE WHEN f.days = 0 THEN 'reached' WHEN f.days IS NULL THEN f.reason WHEN f.days < 1 THEN 'within a day'
            ELSE concat('in ', bigint(round(f.days)), if(f.days < 1.5, ' day (', ' days ('), bigint(round(f.days_low)),
                        coalesce(concat(' to ', bigint(round(f.days_high))), ' or more'), ')') END AS answer,
       f.days, f.days_low, f.days_high, f.level, f.slope_per_day, f.limit_value, f.limit_source, f.last_at
FROM gold.growth_forecasts f JOIN insights.snapshots s ON f.cluster_id = s.cluster_id AND f.snapshot_id = s.snapshot_id
WHERE s.newest
ORDER BY f.days NULLS LAST, f.cluster_id, f.limit_name, f.broker_id, f.quantity
"""
