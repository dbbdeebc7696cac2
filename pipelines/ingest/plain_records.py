"""Parses records as tools print them all at once: the groups of a pattern become columns of facts."""

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.source_format import FACTS, FactKind, PlainFacts, build_facts
from udfs.arrow.columns import to_array

_NO_COLUMNS: Mapping[str, pa.Array] = MappingProxyType({})


def parse_plain(
    records: pa.Table, pattern: str, kind: FactKind, is_usable: pa.Array, columns: Mapping[str, pa.Array] = _NO_COLUMNS
) -> PlainFacts:
    """Parse the records (schema RECORDS) of n that match a pattern, all at once.

    Each group of the pattern is named as the column of FACTS that it becomes: empty text becomes null, or an empty
    list. is_usable: bool (n), false for records whose other columns need the tolerant parser; columns: further columns
    of the facts (n).
    """
    groups = pc.extract_regex(to_array(records["raw"]), pattern)
    matched = pc.and_(pc.is_valid(groups), pc.fill_null(is_usable, False))
    groups = pc.filter(groups, matched)
    others = {**{name: to_array(records[name]) for name in ("record_number", "line_number")}, **columns}
    arrays = {name: array.filter(matched) for name, array in others.items()}
    names = [field.name for field in groups.type]
    arrays |= {name: _cast_text(groups.field(name), FACTS.field(name).type) for name in names}
    facts = build_facts(arrays | {"kind": pa.repeat(kind.value, len(groups))}, len(groups))
    return facts, matched.to_numpy(zero_copy_only=False)


def _cast_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return text as a column of this type: 3; true; 1,2 as a list; a=1,b=2 as a map."""
    if pa.types.is_boolean(data_type):
        return pc.equal(text, "true")
    is_empty = pc.equal(text, "")
    if pc.any(is_empty).as_py():  # rare, and else not worth a copy
        text = pc.if_else(is_empty, pa.scalar(None, pa.string()), text)
    if not (pa.types.is_list(data_type) or pa.types.is_map(data_type)):
        return pc.cast(text, data_type)
    if pa.types.is_list(data_type) and pc.any(pc.match_substring(text, " ")).as_py():
        text = pc.replace_substring(text, " ", "")
    pieces = pc.split_pattern(text, ",")
    if pa.types.is_list(data_type) and not pieces.null_count:
        return pc.cast(pieces, data_type)
    lengths = pc.fill_null(pc.list_value_length(pieces), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cast(pc.cumulative_sum(lengths), pa.int32())])
    if pa.types.is_list(data_type):
        return pa.ListArray.from_arrays(offsets, pc.cast(pieces.flatten(), data_type.value_type))
    pairs = pc.split_pattern(pieces.flatten(), "=", max_splits=1)
    return pa.MapArray.from_arrays(offsets, pc.list_element(pairs, 0), pc.list_element(pairs, 1)).cast(data_type)
