"""Placement and rebalancing analytics of Kafka clusters, from Python: docs/python-api.md."""

from pipelines.cluster_api import KafkaCluster, read

__all__ = ["KafkaCluster", "read"]
