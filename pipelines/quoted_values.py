"""Text and values from outside, as messages repeat them: nothing that a terminal obeys, and only a few words."""

import re
import reprlib

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
