"""Divides the text of a file into sections, each of one format, so that every line reaches the reader that knows it.

People paste several things into one file: a describe, a reassignment, a ZooKeeper session, sentences in between. Each
line of text and each JSON document goes to the format that claims it (`Signature`). What no format claims, such as
sentences and prompts, stays in the section around it, whose reader says why it is ignored. What looks like a partition
in a form that no reader knows is quarantined.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import NamedTuple

import numpy as np

from pipelines.errors import SourceError
from pipelines.ingest.formats.describe_labels import looks_like_data
from pipelines.ingest.formats.json_documents import DOCUMENT_BEGIN, REST_OF_DOCUMENT
from pipelines.ingest.source_format import Format, Records, Row
from pipelines.ingest.table_rows import looks_like_row
from pipelines.ingest.text import MAX_LINE, find_line_end
from pipelines.ingest.unrecognised import DOCUMENT, LONG_LINE, REST, ROW, UNRECOGNISED, read_unclaimed

# Skips lines of a log that no format can claim, many at once: a log of a broker has a hundred thousand of them.
# What a format claims begins as its own lines do, unless its signature searches a line. Behind a time and a level, it
# has one of the signs below; a test holds them against all signatures.
_RETRY = 5_000  # characters after a sign until lines are skipped again
_LINES = re.compile(
    r"(?:\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}[0-9.,]*+Z?\]? "
    r"\[?(?:TRACE|DEBUG|INFO|WARN|WARNING)\b(?! *+[0-9])[^\n\t<&\\\x80-\U0010ffff]{0,1000}+\n){1,64}+"
)
_NAMES = ("topic", "name", "topicname", "brokerid", "id", "broker", "nodeid")  # of the first columns of lists
_CELLS = "|".join(r"[ _.-]*+".join(name) for name in _NAMES)
# Of lower-case text. They begin with fixed letters, for a fast search.
_SIGNS = tuple(
    re.compile(sign)
    for sign in (
        *("received log directory", "querying brokers for log dir", "zkcli", "zookeeper-shell", r"\(id: "),
        *(", internal=", r"\(partition=", r"partition\(topic", r"partitionmetadata\("),
        *("partition [0-9]", 'topic ["&]', "broker -?[0-9]", "metadata for ", "(?:broker|topic)s:"),
        " with [0-9]{1,9} partition",
        "leader[_ ]?not[_ ]?available",
        *("kafka-", "kcat", "kafkacat", "rpk "),
        rf'[,;][ "_.-]*+(?:{_CELLS})[ "_.-]*+[,;\n]',
    )
)
# Two colons behind what may be labels of a describe.
_LABEL_END = r":(?:(?<=[*`_ ]:)|(?<=(?:opic|tion|ount|ctor|icas|line|figs|ader|vers):)|(?<=(?:elr|isr):)|(?<=id:))"
_LABELS = re.compile(rf"{_LABEL_END}[^:\n]*+(?:(?!{_LABEL_END}):[^:\n]*+)*+{_LABEL_END}[^\n]*+\n")


class LogSkipper:
    """Goes through a text once and skips runs of log lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._retry_at = 0

    def skip(self, position: int) -> int:
        """Return the end of the log lines that begin here and that no format can claim: the position without any."""
        match = _LINES.match(self._text, position) if position >= self._retry_at else None
        if match is None:
            return position
        lines = match[0].lower()
        signs = [sign.start() for pattern in _SIGNS if (sign := pattern.search(lines))]
        end = lines.rfind("\n", 0, min(signs)) + 1 if signs else len(lines)
        for labels in _LABELS.finditer(lines, 0, end):
            begin = lines.rfind("\n", 0, labels.start()) + 1
            if looks_like_data(match[0][begin : labels.end() - 1]):
                end = begin
                break
        if end < len(lines):
            self._retry_at = position + end + _RETRY
        return position + end


# Formats look at the beginning of a line above this, so its gaps are shortened for them.
_LONG_LINE, _LONG_GAP = 1_000, re.compile(r"([ \t]{50})[ \t]++")
# The part of a long document that formats look at.
_DOCUMENT_HEAD, _DOCUMENT_TAIL = 400_000, 20_000
_BEGINNING = 200  # filled lines of a file's beginning that formats look at

_INDENTATION = re.compile(r"[ \t]*+")
# All that JSON has between brackets: values, each before a comma, a closing bracket or the end of its line, and keys.
# Strings end on their line, and a time (12:00:01) is no value, so text after a broken document is not swallowed.
_BETWEEN_BRACKETS = re.compile(
    r'(?:[\s,:]++|"(?:[^"\\\n]++|\\.)*+"(?=[ \t]*+(?:[,:}\]\n]|\Z))'
    r"|(?:-?[0-9][0-9.eE+-]*+|true|false|null|NaN|-?Infinity)(?=[ \t]*+(?:[,}\]\n]|\Z)))*+"
)


class Section(NamedTuple):
    """Lines of a file that one format reads; line numbers are physical, from 1, and inclusive."""

    format: Format
    first_line: int
    last_line: int
    begin: int  # position in the text
    end: int
    content: str | None = None  # of unrecognised sections: DOCUMENT, LONG_LINE or ROW; None = a whole file of text
    is_cut: bool = False  # it ends with a JSON document that breaks off: what follows must not be read as its rest
    beside: tuple[Format, ...] = ()  # of lines that stand aside: the formats of the data above and below


class FormatRecords(NamedTuple):
    """The records of a file that one format has read."""

    format: Format
    records: Records


class _Stretch(NamedTuple):
    begin: int
    end: int
    format: Format | None  # None: no format claims it
    content: str | None = None
    is_cut: bool = False


def find_sections(text: str, formats: Sequence[Format]) -> list[Section]:
    """Return the sections of a text, in order: every line is in exactly one. `formats`: the strongest claims first.

    A text that no format claims is one section of format UNRECOGNISED.
    """
    stretches = list(_Divider(text, formats).find_stretches())
    if not any(stretch.format is not None for stretch in stretches):
        return [Section(UNRECOGNISED, 1, text.count("\n") + 1, 0, len(text))]
    sections: list[Section] = []
    line = 1
    for stretch, beside in _assign_unclaimed(stretches):
        newlines = text.count("\n", stretch.begin, stretch.end)
        last = line + newlines - (1 if text[stretch.end - 1] == "\n" else 0)
        form = stretch.format or UNRECOGNISED
        section = Section(form, line, last, stretch.begin, stretch.end, stretch.content, stretch.is_cut, beside)
        before = sections[-1] if sections else None
        is_next = before is not None and (before.format, before.beside) == (form, beside) and not before.is_cut
        if before is not None and is_next and stretch.content is None:
            sections[-1] = before._replace(last_line=last, end=stretch.end, is_cut=stretch.is_cut)
        else:
            sections.append(section)
        line += newlines
    return sections


def find_claims(text: str, formats: Sequence[Format]) -> Iterator[Format]:
    """Yield the formats that claim something of a text, in order, and read no further than is asked for."""
    return (stretch.format for stretch in _Divider(text, formats).find_stretches() if stretch.format is not None)


def claims(form: Format, raw: str) -> bool:
    """Return whether the text of a record is certainly data of a format."""
    if DOCUMENT_BEGIN.match(raw):
        return bool(form.signature.document(raw))
    return "\n" not in raw and len(raw) <= MAX_LINE and bool(form.signature.line(raw))


def read_sections(text: str, path: str, sections: Sequence[Section]) -> list[FormatRecords]:
    """Return the records of all sections, those of each format together, numbered by their place in the file.

    A format reads all its sections at once: a topic id or a request of the first may be needed in the second. Only
    where a document breaks off, it begins anew. It sees the commands and errors between them, too.
    """
    formats = list(dict.fromkeys(section.format for section in sections))
    if len(sections) == 1 and sections[0].content is None:
        return [FormatRecords(formats[0], formats[0].read_records(text, path))]
    parts: list[FormatRecords] = []
    for form in formats:
        if form is UNRECOGNISED:
            own = (_read_unclaimed(text, section) for section in sections if section.format is form)
            parts.append(FormatRecords(form, Records.from_rows(chain.from_iterable(own))))
        else:
            seen = [section for section in sections if section.format is form or form in section.beside]
            parts.extend(_read_own(text, path, form, seen))
    return _number_by_line(parts)


def _read_own(text: str, path: str, form: Format, seen: Sequence[Section]) -> Iterator[FormatRecords]:
    """Yield the records of the sections of one format. seen: these, and what stands aside between them."""
    ends = [i for i, section in enumerate(seen, 1) if section.is_cut or i == len(seen)]
    read: list[Records] = []
    for begin, end in pairwise([0, *ends]):
        run = seen[begin:end]
        own = [section for section in run if section.format is form]
        if not own:
            continue
        content = _blank_others(text, run)
        # The end of a document that breaks off is where its text ends, not some blank lines below.
        try:
            records = form.read_records(content.rstrip() if run[-1].is_cut else content, path)
        except SourceError:
            if not read:
                raise
            # Nothing that the format can begin with: lines that no format claims, below a document that breaks off.
            rest = (_read_unclaimed(text, each._replace(content=REST)) for each in own)
            yield from (FormatRecords(UNRECOGNISED, Records.from_rows(rows)) for rows in rest)
            continue
        records = records.move_down(run[0].first_line - 1)
        read.append(records.take(_find_inside(records.line_number, own)))
    rows = (row[1:] for records in read for row in records)
    yield FormatRecords(form, read[0] if len(read) == 1 else Records.from_rows(rows))


def find_document_end(text: str, begin: int) -> int:
    """Return the end of the line on which the JSON document that begins here ends or breaks off."""
    return _find_document(text, begin)[0]


def _find_document(text: str, begin: int) -> tuple[int, bool]:
    """Return (end of the last line of the document that begins here, whether it breaks off)."""
    line_end = find_line_end(text, begin)
    if text[begin:line_end].rstrip()[-1:] in ("}", "]") and all(
        text.count(opening, begin, line_end) == text.count(closing, begin, line_end)
        for opening, closing in ("{}", "[]")
    ):
        return line_end, False  # as tools print it: the whole document on one line
    depth, position = 0, _INDENTATION.match(text, begin).end()  # type: ignore[union-attr]
    while position < len(text):
        mark = text[position]
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
        if depth <= 0 or mark not in "{}[]":
            break
        position = _BETWEEN_BRACKETS.match(text, position + 1).end()  # type: ignore[union-attr]
    if depth <= 0:
        return find_line_end(text, min(position, len(text) - 1)), False
    # A line that begins with what no JSON has is text below the document, and not its rest.
    newline = text.rfind("\n", begin, position)
    is_line_begin = newline >= 0 and not text[newline:position].strip()
    end = newline if is_line_begin else find_line_end(text, position)
    rest = REST_OF_DOCUMENT.match(text, end)
    return end if rest is None else rest.end(), True


class _Divider:
    """Goes through a text once and finds who claims each stretch of it."""

    def __init__(self, text: str, formats: Sequence[Format]) -> None:
        self._text = text
        self._formats = formats
        self._log = LogSkipper(text)
        self._awaiting: Format | None = None  # format of a request that the next document answers
        self._table: Format | None = None  # format of the table that the next lines may be rows of

    def find_stretches(self) -> Iterator[_Stretch]:
        text, size = self._text, len(self._text)
        position = 0
        current: Format | None = None
        is_beginning = True  # nothing but comments and blank lines so far
        while position < size:
            pattern = current.signature.plain_lines if current is not None else None
            match = pattern.match(text, position) if pattern is not None else None
            end = match.end() if match is not None else position
            if end == position and not is_beginning and (end := self._log.skip(position)) > position:
                self._table = None
                stretch = _Stretch(position, end, None)
            elif end > position:
                self._awaiting = None
                stretch = _Stretch(position, end, current)
            elif DOCUMENT_BEGIN.match(text, position):
                stretch = self._claim_document(position, current)
            else:
                stretch = self._claim_line(position)
                if is_beginning and stretch.format is None and not self._is_blank_or_comment(stretch):
                    stretch = stretch._replace(format=self._claim_beginning(position))
                line = text[stretch.begin : stretch.end]
                is_open = stretch.format is None and stretch.content is None
                if is_open and looks_like_row(line) and (current is None or not current.signature.row(line)):
                    stretch = stretch._replace(content=ROW)  # data that the format before it cannot read either
            is_aside = _is_aside(stretch)
            is_beginning = is_beginning and (
                is_aside or (stretch.format is None and self._is_blank_or_comment(stretch))
            )
            current = current if is_aside else stretch.format or current
            position = stretch.end
            yield stretch

    def _claim_document(self, position: int, current: Format | None) -> _Stretch:
        text = self._text
        end, is_cut = _find_document(text, position)
        form, self._awaiting = self._awaiting, None
        if form is None:
            is_long = end - position > _DOCUMENT_HEAD + _DOCUMENT_TAIL
            head = text[position : position + _DOCUMENT_HEAD if is_long else end]
            head += text[end - _DOCUMENT_TAIL : end] if is_long else ""
            form = next((form for form in self._formats if form.signature.document(head)), None)
        if form is None and current is not None and current.signature.reads_documents:
            form = current  # its reader knows best what is wrong with a document beside its own
        return _Stretch(position, min(end + 1, len(text)), form, DOCUMENT if form is None else None, is_cut)

    def _claim_line(self, position: int) -> _Stretch:
        end = find_line_end(self._text, position)
        after = min(end + 1, len(self._text))
        if end - position > MAX_LINE:
            return _Stretch(position, after, None, LONG_LINE)
        line = self._text[position:end]
        if not line or line.isspace():
            self._table = None
            return _Stretch(position, after, None)
        if len(line) > _LONG_LINE:
            line = _LONG_GAP.sub(r"\1", line)
        form = next((form for form in self._formats if form.signature.line(line)), None)
        table = self._table
        if table is not None and (form is None or form.signature.has_rows) and table.signature.table_line(line):
            return _Stretch(position, after, table)
        self._table = form if form is not None and form.signature.table(line) else None
        if form is not None and not form.signature.is_aside:
            self._awaiting = form if form.signature.request(line) else None
        return _Stretch(position, after, form)

    def _claim_beginning(self, position: int) -> Format | None:
        # Lines come one by one, so that a huge file is not cut into lines for its beginning.
        lines = (match[0] for match in re.compile(r"[^\n]+").finditer(self._text, position))
        filled = list(islice((line for line in lines if line.strip() and len(line) <= MAX_LINE), _BEGINNING))
        if not filled or filled[0].lstrip().startswith("#"):
            return None
        return next((form for form in self._formats if form.signature.beginning(filled)), None)

    def _is_blank_or_comment(self, stretch: _Stretch) -> bool:
        text = self._text[stretch.begin : min(stretch.end, stretch.begin + 1_000)].lstrip()
        return not text or text.startswith("#")


def _assign_unclaimed(stretches: Sequence[_Stretch]) -> Iterator[tuple[_Stretch, tuple[Format, ...]]]:
    """Yield each stretch, and for one that stands aside the formats of the data above and below it.

    Lines that no format claims belong to the format before them, or else to the first.
    """
    data = [stretch.format for stretch in stretches if stretch.format is not None and not _is_aside(stretch)]
    first = next((stretch.format for stretch in stretches if stretch.format is not None), None)
    current, begun = data[0] if data else first, 0
    for stretch in stretches:
        if stretch.content is not None:  # a document or line that no format claims: its own section
            yield stretch, ()
        elif _is_aside(stretch):
            yield stretch, tuple(dict.fromkeys(data[max(begun - 1, 0) : begun + 1]))
        else:
            begun += stretch.format is not None
            current = stretch.format or current
            yield stretch._replace(format=current), ()


def _is_aside(stretch: _Stretch) -> bool:
    return stretch.format is not None and stretch.format.signature.is_aside


def _blank_others(text: str, own: Sequence[Section]) -> str:
    """Return the text from the first section on, with the lines of others emptied, so that distances stay.

    Not from the file's beginning: with thousands of documents that break off, that would take quadratic time.
    """
    pieces, position = [], own[0].begin
    for section in own:
        pieces.append("\n" * text.count("\n", position, section.begin))
        pieces.append(text[section.begin : section.end])
        position = section.end
    return "".join(pieces)


def _find_inside(lines: Sequence[int], own: Sequence[Section]) -> np.ndarray:
    """Return the positions of the lines that are in a format's own sections."""
    number = np.asarray(lines, dtype=np.int64)
    last = np.array([section.last_line for section in own])
    at = np.minimum(np.searchsorted(last, number), len(own) - 1)
    first = np.array([section.first_line for section in own])
    return np.flatnonzero((number >= first[at]) & (number <= last[at]))


def _read_unclaimed(text: str, section: Section) -> Iterator[Row]:
    content = text[section.begin : section.end].rstrip("\n")
    return read_unclaimed(content, section.content or DOCUMENT, section.first_line)


def _number_by_line(parts: Sequence[FormatRecords]) -> list[FormatRecords]:
    """Number the records of all parts by line, those of one line in the order of the parts."""
    lines = np.concatenate([np.asarray(part.records.line_number, dtype=np.int64) for part in parts])
    numbers = np.empty(len(lines), dtype=np.int64)
    numbers[np.argsort(lines, kind="stable")] = np.arange(len(lines))
    begins = np.cumsum([0, *(len(part.records) for part in parts)])
    return [
        FormatRecords(part.format, part.records.renumber(numbers[begin : begin + len(part.records)]))
        for part, begin in zip(parts, begins.tolist(), strict=False)
    ]
