"""What outputs show of the release of Kafka that brokers run."""

from bisect import bisect_right
from typing import Any

from pipelines.ingest.source_format import Fact, FactKind
from udfs.failures.topic_defaults import ReleaseRange, parse_release

METADATA_VERSION = "metadata.version"
# The first level of that feature in each release (org.apache.kafka.server.common.MetadataVersion).
_LEVELS = (1, 2, 3, 4, 8, 9, 12, 15, 20, 21, 22, 26, 28, 30, 31)
_RELEASES = (300, 301, 302, 303, 304, 305, 306, 307, 308, 309, 400, 401, 402, 403, 404)
# Highest versions of requests, by API key, with the first release that has them (ApiKeys of kafka-clients).
_API_RELEASES = {0: ((10, 307),), 2: ((11, 402),), 18: ((5, 404),), 35: ((5, 403),)}
# Up to Kafka 2.1, kafka-topics prints no blank behind the labels of a topic.
OLD_TOPIC_LINE = r"^[ \t>|]*Topic:[a-zA-Z0-9._-]+[ \t]+PartitionCount:[0-9]+[ \t]+ReplicationFactor:[0-9]"
FIRST_WITH_BLANKS = 202


def read_level(level: int) -> ReleaseRange:
    """Return the releases whose highest level of metadata.version this is."""
    at = bisect_right(_LEVELS, level)
    return ReleaseRange(_RELEASES[at - 1] if at else None, _RELEASES[at] if at < len(_RELEASES) else None)


def read_feature(text: str) -> ReleaseRange:
    """Return the releases whose highest metadata.version this is: a level, as 14, or a name, as 3.6-IV2."""
    if text.isdecimal() and len(text) < 10:
        return read_level(int(text))
    release = parse_release(text)
    return ReleaseRange() if release is None else ReleaseRange(release, release + 1)


def combine(*ranges: ReleaseRange) -> ReleaseRange:
    """Return what several ranges of one broker show together."""
    firsts = [one.first for one in ranges if one.first is not None]
    ends = [one.before for one in ranges if one.before is not None]
    return ReleaseRange(max(firsts, default=None), min(ends, default=None))


def read_api(key: int, version: int) -> ReleaseRange:
    """Return the releases that have this highest version of a request."""
    steps = _API_RELEASES.get(key, ())
    firsts, ends = [release for step, release in steps if version >= step], [r for step, r in steps if version < step]
    return ReleaseRange(max(firsts, default=None), min(ends, default=None))


def name_fields(releases: ReleaseRange) -> dict[str, Any]:
    """Return the fields of a fact that say which releases a broker, or the cluster, may run."""
    return {"release_from": releases.first, "release_before": releases.before}


def date_cluster(releases: ReleaseRange) -> Fact:
    """Return the fact that a cluster runs one of these releases."""
    return FactKind.TOPIC_DEFAULTS, {"configs": [], **name_fields(releases)}
