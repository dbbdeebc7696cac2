"""A replica assignment written by hand, as `kafka-topics --replica-assignment` takes it."""

from __future__ import annotations

from collections.abc import Collection


def parse_manual(topic: str, text: str, brokers: Collection[int]) -> list[list[int]]:
    """Replicas of each partition from `id:id:id,id:id:id`: `,` between partitions, `:` between replicas.

    ValueError names the topic and the value: no number, a repeated or unknown broker, replica lists of unequal length.
    """
    known = set(brokers)
    out: list[list[int]] = []
    for partition, part in enumerate(text.split(",")):
        where = f"topic {topic}, partition {partition}, replicas {part!r}"
        try:
            replicas = [int(broker) for broker in part.split(":")]
        except ValueError:
            raise ValueError(f"{where}: broker ids are numbers with ':' between them") from None
        if len(set(replicas)) < len(replicas):
            raise ValueError(f"{where}: a broker is repeated")
        unknown = [broker for broker in replicas if broker not in known]
        if unknown:
            raise ValueError(f"{where}: there is no broker {unknown[0]}")
        if out and len(replicas) != len(out[0]):
            raise ValueError(f"{where}: {len(replicas)} replicas, but partition 0 has {len(out[0])}")
        out.append(replicas)
    return out
