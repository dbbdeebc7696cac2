"""Loads as facts, for tests."""

from __future__ import annotations

from pipelines.ingest.source_format import Fact, FactKind


def plain_load(
    topic: str | None, broker: int | None, partition: int | None, bytes_in: float | None, bytes_out: float | None
) -> Fact:
    place = {"topic": topic, "broker_id": broker, "partition": partition}
    return FactKind.LOAD, {**place, "bytes_in_per_s": bytes_in, "bytes_out_per_s": bytes_out}


def measured_size(topic: str, partition: int, broker: int, size: int) -> Fact:
    return FactKind.REPLICA_SIZE, {"topic": topic, "partition": partition, "broker_id": broker, "size_bytes": size}


def measured_volume(path: str, broker: int, total: int, usable: int | None) -> Fact:
    return FactKind.VOLUME, {"log_dir": path, "broker_id": broker, "total_bytes": total, "usable_bytes": usable}


def appended_records(topic: str, partition: int, broker: int, records: int) -> Fact:
    return FactKind.APPENDED, {"topic": topic, "partition": partition, "broker_id": broker, "records": records}
