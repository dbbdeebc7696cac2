"""Quarantines data that a reader has ignored because it belongs to another format.

Sections give each line and JSON document to its format. Damage defeats them: a document that breaks off hides the lines
below it, a lost prompt joins two outputs. Each reader decides on what it then meets; this is the check behind them all.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.checked_values import quote
from pipelines.ingest.formats.json_documents import DOCUMENT_BEGIN
from pipelines.ingest.source_format import FactKind, Format, Records, build_facts, concat_in_order
from pipelines.ingest.text import MAX_LINE

_QUOTED = 60  # characters of a record that its reason repeats


class _Overlooked(NamedTuple):
    record_number: int
    line_number: int
    reason: str


def reject_overlooked(
    facts: pa.Table, records: Records, form: Format, formats: Collection[Format], unused: Collection[Format]
) -> pa.Table:
    """Return facts (schema FACTS) of a format's records; those of ignored data of other formats are rejected.

    formats: those whose claims count, the strongest first; unused: those of them whose data may be ignored.
    """
    if form in unused or not form.signature.may_hide_lines:
        return facts
    ignored = facts.filter(pc.equal(facts["kind"], FactKind.IGNORED))["record_number"]
    overlooked = list(_find_overlooked(records.take(records.find(ignored)), form, formats, unused))
    if not overlooked:
        return facts
    numbers = pa.array([each.record_number for each in overlooked])
    values = {
        "record_number": numbers,
        "line_number": pa.array([each.line_number for each in overlooked]),
        "kind": pa.array([FactKind.REJECTED] * len(overlooked), pa.string()),
        "reasons": pa.array([[each.reason] for each in overlooked], pa.list_(pa.string())),
    }
    rest = facts.filter(pc.invert(pc.is_in(facts["record_number"], numbers)))
    return concat_in_order([rest, build_facts(values, len(overlooked))])


def _find_overlooked(
    records: Records, form: Format, formats: Collection[Format], unused: Collection[Format]
) -> Iterator[_Overlooked]:
    for number, line, _, raw in records:
        if not raw or raw.isspace() or _claims(form, raw):
            continue
        owner = next((other for other in formats if _claims(other, raw)), form)
        if owner is not form and owner not in unused:
            problem = f"{quote(raw.strip()[:_QUOTED])} looks like {owner.title}, but stands amid {form.title}"
            yield _Overlooked(number, line, f"{problem}: repair the text around it, or put it into a file of its own")


def _claims(form: Format, raw: str) -> bool:
    if DOCUMENT_BEGIN.match(raw):
        return form.signature.document(raw)
    return "\n" not in raw and len(raw) <= MAX_LINE and form.signature.line(raw)
