"""`kafka-cluster cluster-id` (Kafka 2.8 and later): the id of the cluster that the other files of a source are of."""

import re

from pipelines.ingest.source_format import Fact, Format, Signature, ignore
from pipelines.ingest.text import classify_noise

_LINE = re.compile(r"[\s>|#`]*+Cluster ID: (?P<id>[A-Za-z0-9_-]{16,36})[\s`]*+")
REASON = "id of the cluster"


def read_cluster_id(line: str) -> str | None:
    """Return the id that a line prints, or None."""
    match = _LINE.fullmatch(line)
    return None if match is None else match["id"]


def _parse_record(_context: str | None, raw: str) -> list[Fact]:
    return ignore(classify_noise(raw) if read_cluster_id(raw) is None else REASON)


FORMAT = Format(
    "cluster-id",
    "kafka-cluster cluster-id: the id of the cluster",
    *(Signature(line=lambda line: "Cluster ID: " in line and read_cluster_id(line) is not None), _parse_record),
)
