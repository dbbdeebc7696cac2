"""Views about disks."""

DISK_SQL = """
-- insights.disk_failure_risk: Whether the data of each broker, rack or log dir fits on the disks of the survivors if
-- it fails for good.
SELECT d.cluster_id, d.scenario_kind, d.scenario,
       CASE WHEN d.fits IS NULL THEN 'Unknown: no source shows the disks, or the sizes, of all brokers'
            WHEN NOT d.fits THEN concat('No: survivors lack ', d.bytes_to_copy - d.free_bytes, ' bytes')
            WHEN d.fits_in_rack = false THEN 'Only in other racks: the survivors in its rack lack room'
            ELSE 'Yes' END AS answer,
       d.bytes_to_copy, d.free_bytes, d.fullest_broker, round(d.fullest_disk_ratio, 3) AS fullest_disk_ratio,
       d.replicas, d.leaders, d.only_in_sync_partitions
FROM gold.disk_after_failure d JOIN insights.snapshots s
  ON d.cluster_id = s.cluster_id AND d.snapshot_id = s.snapshot_id
WHERE s.newest
"""
