"""Words of sentences: counted nouns, lists of names, sizes, durations, and text from outside as messages repeat it."""

import re
import reprlib
from collections.abc import Iterable


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """Write a number with its noun: 1 replica, 2,000 replicas. plural: None = the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def count_live_brokers(count: int, unknown: int) -> str:
    """Count brokers that count as live, as in `2 live brokers, 1 broker of unknown state`; unknown: how many are so."""
    live = [count_of(count - unknown, "live broker")] if count > unknown or not unknown else []
    return ", ".join([*live, *([f"{count_of(unknown, 'broker')} of unknown state"] if unknown else [])])


def it_or_them(number: int) -> str:
    """Return the pronoun for a number of things."""
    return "it" if number == 1 else "them"


def is_or_are(number: int) -> str:
    """Return the verb for so many things: 1 partition is, 2 partitions are."""
    return "is" if number == 1 else "are"


def join_names(names: Iterable[object], limit: int = 8, count: int | None = None) -> str:
    """Join the first `limit` names: 1, 2 and 7 more. count: how many there are, if not all are given."""
    texts = [str(name) for name in names]
    more = (len(texts) if count is None else count) - min(len(texts), limit)
    return ", ".join(texts[:limit]) + (f" and {more:,} more" if more else "")


_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def format_bytes(value: float) -> str:
    """Format a size in the largest unit that leaves a number of 1 or more."""
    unit = 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.3g} {_UNITS[unit]}"


def estimate_duration(seconds: float) -> str:
    """Format a duration that is an estimate."""
    text = format_duration(seconds)
    return f"about {text}" if seconds >= 1 else text


def format_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s" if seconds >= 1 else "under 1 s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


_MAX_LENGTH = 80  # characters
# What a terminal obeys instead of showing: control characters (C0, DEL, C1), separators of lines and paragraphs, and
# characters that change the direction of writing. No encoding can write the last range, surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNDECODED = range(0xDC80, 0xDD00)  # how Python writes the bytes of a file name that are not UTF-8


class _ShortRepr(reprlib.Repr):
    """Writes values as `repr` does, but shortened: it neither follows deep nesting nor writes every digit."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxstring = self.maxother = self.maxlong = _MAX_LENGTH

    def repr_int(self, value: int, level: int) -> str:
        """Write a number; Python itself writes no more than 4,300 digits."""
        if value.bit_length() <= 256:
            return repr(value)
        return f"a number of about {round(value.bit_length() * 0.30103):,} digits"


_SHORT = _ShortRepr()


def quote_value(value: object) -> str:
    """Write a value as Python would, in at most 80 characters."""
    return shorten_text(_SHORT.repr(value))


def shorten_text(text: str) -> str:
    """Cut text after 80 characters."""
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 3]}..."


def escape_text(text: str) -> str:
    r"""Make characters visible that a terminal would obey, as in \n, \x1b and \u202e; leave all others unchanged."""
    return _UNSAFE.sub(lambda match: _escape(match[0]), text)


def escape_invisible(text: str) -> str:
    r"""Make all characters visible that print nothing or a blank other than the space, as in \u200b and \xa0."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if code in _UNDECODED:
        code -= 0xDC00
    wide = f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return _SHORT_ESCAPES.get(character) or (f"\\x{code:02x}" if code < 0x100 else wide)
