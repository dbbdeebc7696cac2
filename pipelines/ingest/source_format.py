"""What a source format is: how to detect it, how to cut a text into records, how to parse records into facts.

Reading has two steps, so that Spark can spread the second over batches:

`read_records` cuts one file's text, in order, into records: mostly lines; elements where the format is one JSON
               document. What a record needs from its surroundings (a znode's path, a CSV header, the topic of a topic
               id) becomes its `context`, so that each record can be parsed alone.
`parse_facts`  turns any batch of records of one file into facts (schema FACTS), at least one per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import pyarrow as pa

from pipelines.ingest.fact_tables import Fact, FactBuilder, FactKind
from pipelines.ingest.formats.checked_values import BadValueError
from pipelines.ingest.text import split_lines

_BATCH_RECORDS = 131_072  # bounds memory, and keeps a column's text under Arrow's 2 GB

Row = tuple[int, str | None, str]  # line number, context, raw text
ParseRecord = Callable[[str | None, str], Iterable[Fact]]  # (context, raw text) -> facts; may raise BadValueError


@dataclass(frozen=True)
class Records:
    """Records of one file in file order: lists of equal length."""

    record_number: Sequence[int]
    line_number: Sequence[int]
    context: Sequence[str | None]
    raw: Sequence[str]

    @staticmethod
    def from_rows(rows: Iterable[Row]) -> Records:
        """Number rows from 0."""
        lines: list[int] = []
        contexts: list[str | None] = []
        raws: list[str] = []
        for line, context, raw in rows:
            lines.append(line)
            contexts.append(context)
            raws.append(raw)
        return Records(range(len(raws)), lines, contexts, raws)

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.raw)

    def __iter__(self) -> Iterator[tuple[int, int, str | None, str]]:
        """Iterate over (record number, line number, context, raw text)."""
        return zip(self.record_number, self.line_number, self.context, self.raw, strict=True)

    def slice(self, begin: int, end: int) -> Records:
        """Return the records at positions begin to end - 1."""
        part = slice(begin, end)
        return Records(self.record_number[part], self.line_number[part], self.context[part], self.raw[part])

    def take(self, positions: npt.NDArray[Any]) -> Records:
        """Return the records at these positions (int, ascending)."""
        at = positions.tolist()
        columns = (self.record_number, self.line_number, self.context, self.raw)
        return Records(*([column[i] for i in at] for column in columns))


def read_lines(text: str, _path: str = "") -> Records:
    """Return one record per physical line, without context."""
    lines = split_lines(text)
    return Records(range(len(lines)), range(1, len(lines) + 1), [None] * len(lines), lines)


def parse_each(records: Records, parse_record: ParseRecord) -> pa.Table:
    """Return the facts of all records, each parsed alone; a BadValueError rejects the record."""
    builder = FactBuilder()
    for number, line, context, raw in records:
        try:
            facts = list(parse_record(context, raw))
        except BadValueError as error:
            facts = [(FactKind.REJECTED, {"reasons": [str(error)]})]
        for kind, values in facts:
            builder.add(number, line, kind, **values)
    return builder.build()


@dataclass(frozen=True)
class Format:
    """A source format."""

    name: str  # what `--format` takes and `bronze.raw_metadata.format` shows
    title: str  # for people
    # Lines of a file -> confidence that it has this format, 0.0 (no) to 1.0 (certain); the highest wins.
    detect: Callable[[Sequence[str]], float]
    parse_record: ParseRecord
    read_records: Callable[[str, str], Records] = read_lines  # (text of a file, its path) -> records
    parse_batch: Callable[[Records], pa.Table] | None = None  # parses records faster than one by one

    def parse_facts(self, records: Records) -> pa.Table:
        """Return the facts of the records (schema FACTS), in order."""
        if self.parse_batch is None:
            return parse_each(records, self.parse_record)
        begins = range(0, max(len(records), 1), _BATCH_RECORDS)
        return pa.concat_tables([self.parse_batch(records.slice(i, i + _BATCH_RECORDS)) for i in begins])
