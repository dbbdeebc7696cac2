"""A synthetic cluster model: brokers with racks, brokers to be emptied, partitions with loads."""

import re
from collections.abc import Iterable, Iterator

from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.formats.json_documents import get_array, parse_elements, read_elements
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature

_LOADS = re.compile(r'"(?:size_mb|in_kbps|out_kbps)"\s*:')
_REMOVED = re.compile(r'"removed"\s*:\s*\[')


def _is_document(text: str) -> bool:
    if '"brokers"' not in text or '"logDirs"' in text:
        return False
    return _LOADS.search(text) is not None or _REMOVED.search(text) is not None


def _read_rows(text: str, _path: str) -> Iterator[Row]:
    arrays = [("brokers",), ("removed",), ("partitions",)]
    return read_elements(text, arrays, "brokers and partitions", get_array)


def _parse_element(array: str, raw: str) -> list[Fact]:
    if array == "removed":
        return [(FactKind.BROKER, {"broker_id": check.as_int(check.parse_json(raw), "removed"), "draining": True})]
    values: dict[str, object]
    if array == "brokers":
        broker = check.parse_object(raw, "the broker")
        values = {"broker_id": broker.read("id", check.as_int), "rack": broker.find("rack", check.as_text)}
        values |= {"listed": True, "in_model": True}
        return [(FactKind.BROKER, values)]
    partition = check.parse_object(raw, "the partition")
    size = partition.read("size_mb", check.as_number) * 1e6
    if size > check.INT64:
        raise check.unparsable(f"size_mb is {check.quote(partition['size_mb'])}, which is too large")
    values = {
        "topic": partition.read("topic", check.as_text),
        "partition": partition.read("partition", check.as_partition),
        "replicas": partition.read("replicas", check.as_broker_ids),
        "size_bytes": round(size),
        "bytes_in_per_s": partition.read("in_kbps", check.as_number) * 1000,
        "bytes_out_per_s": partition.read("out_kbps", check.as_number) * 1000,
    }
    return [(FactKind.PARTITION, values)]


_parse = parse_elements(_parse_element)


def _parse_record(context: str | None, raw: str) -> Iterable[Fact]:
    """Return the facts of a record; one that is rejected, and may have been a broker, is marked as listed."""
    try:
        return _parse(context, raw)
    except check.BadValueError as error:
        # A record of no array may be a broker too: the document broke there.
        is_listed = None if context in ("removed", "partitions") else True
        return [(FactKind.REJECTED, {"reasons": [str(error)], "listed": is_listed})]


FORMAT = Format(
    "model",
    "synthetic cluster model of cluster_model.py",
    Signature(document=_is_document),
    *(_parse_record, _read_rows),
)
