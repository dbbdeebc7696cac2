"""`GetOffsetShell` (`kafka-get-offsets`): lines of topic:partition:offset."""

import re
from collections.abc import Sequence

from pipelines.ingest.fact_tables import Fact, FactKind, ignore
from pipelines.ingest.formats.checked_values import INT64, as_int, as_topic, quote, unparsable
from pipelines.ingest.formats.noise_lines import PROMPT, PROSE, classify_noise
from pipelines.ingest.source_format import Format

_LINE = re.compile(r"([^\s:][^:]*):([0-9]+):([0-9,\s-]*)")
# A topic may be named like the beginning of a log line (kafka.orders); a time of day is no topic.
_CLEAR = re.compile(r"(?!\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[a-zA-Z0-9._-]+:[0-9]+:(?:-1|[0-9,]*)")
_NEARLY = re.compile(r"\S*:\S*:\S*|[^\s:]+:[0-9]+|\S*:[0-9]*:?[0-9]*\s*(?:\.{2,}|…)")


def _detect(lines: Sequence[str]) -> float:
    filled = [line.strip() for line in lines if line.strip()]
    hits = sum(1 for line in filled if _match_entry(line))
    return 0.5 + 0.4 * hits / len(filled) if hits else 0.0


def _match_entry(line: str) -> re.Match[str] | None:
    is_entry = classify_noise(line) in (PROSE, PROMPT) or _CLEAR.fullmatch(line)
    return _LINE.fullmatch(line) if is_entry else None


def _parse_record(_context: str | None, raw: str) -> list[Fact]:
    line = raw.strip()
    match = _match_entry(line)
    if match is None:
        reason = classify_noise(line)
        if reason == PROSE and _NEARLY.fullmatch(line):
            raise unparsable(f"{quote(line)} is not topic:partition:offset")
        return ignore(reason)
    topic, partition, offsets = match.groups()
    topic = as_topic(topic, "topic")
    number = as_int(partition, "partition")
    if offsets.strip() in ("", "-1"):  # no leader, or no such offset
        return ignore("offset unknown")
    # With --offsets N old versions print several, the newest first.
    newest, *_ = [as_int(offset.strip(), "offset", 0, INT64) for offset in offsets.split(",")]
    return [(FactKind.OFFSET, {"topic": topic, "partition": number, "log_end_offset": newest})]


FORMAT = Format("offsets", "GetOffsetShell, topic:partition:offset", _detect, _parse_record)
