"""What outputs show of the version of Kafka, as far as it decides how min.insync.replicas counts."""

import re

from pipelines.ingest.source_format import Fact, FactKind

# Since Kafka 3.7 (kafka.cluster.Partition.effectiveMinIsr, KAFKA-15583) the number of replicas counts where
# min.insync.replicas exceeds it.
_FIRST_CAPPING = (3, 7)
METADATA_VERSION, FIRST_CAPPING_METADATA_VERSION = "metadata.version", 15  # the feature, and its level in 3.7-IV0
_RELEASE = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})(?:[.-]|$)")
# Up to Kafka 2.1, kafka-topics prints no blank behind the labels of a topic.
OLD_TOPIC_LINE = r"^[ \t>|]*Topic:[a-zA-Z0-9._-]+[ \t]+PartitionCount:[0-9]+[ \t]+ReplicationFactor:[0-9]"
_OLD_TOPIC_LINE = re.compile(OLD_TOPIC_LINE)


def is_capping(release: str) -> bool | None:
    """Return whether a release, as in 3.6-IV2, or a level of metadata.version, as in 14, is of Kafka 3.7 or later.

    None for another text.
    """
    if release.isdecimal() and len(release) < 10:
        return int(release) >= FIRST_CAPPING_METADATA_VERSION
    match = _RELEASE.match(release.strip())
    return None if match is None else (int(match[1]), int(match[2])) >= _FIRST_CAPPING


def is_old_topic_line(line: str) -> bool:
    """Return whether kafka-topics of an old version has printed the line of a topic."""
    return _OLD_TOPIC_LINE.match(line) is not None


def date_cluster(caps_min_isr: bool) -> Fact:
    """Return the fact that a cluster runs Kafka 3.7 or later, or an older version."""
    return FactKind.TOPIC_DEFAULTS, {"configs": [], "caps_min_isr": caps_min_isr}
