"""Mutations of characters and tokens: numbers, labels, separators, quotes, long repetitions."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

Mutation = Callable[[random.Random, str], str]

_NUMBER = re.compile(r"-?[0-9]+")
_WORD = re.compile(r"[A-Za-z]{2,}")
_LABEL = re.compile(r"[A-Za-z][A-Za-z ]{1,20}:|\"[A-Za-z_]{2,20}\"")
_BLANK = re.compile(r"[ \t]+")
_MARK = re.compile(r"[\[\]{}()\",:=;'\\|`]")
# A list of topics may declare a million partitions, which takes its time.
_HUGE = ("99999", "1000001", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "99999999999")
_ODD_NUMBERS = ("-1", "-2147483648", "0", "00", "007", "+1", "1.0", "1e3", "1e999", "NaN", "Infinity", "-0", "0x1f")
_ODD_WORDS = ("none", "null", "N/A", "true", "None", "", "undefined", "1_000", "٣", "１２", "1,2,", ",1", "1,,2", "[1]")
_FRAGMENTS = (
    *(
        " ",
        "\t",
        ".",
        "\\",
        '\\"',
        '"',
        "'",
        "{",
        "[",
        "}",
        "]",
        '{"a":',
        "[[",
        ",",
        ":",
        "=",
        "-",
        "#",
        ">",
        "|",
        "1,",
    ),
    *("Topic: ", "Partition: 0 ", "Leader:", "Replicas: ", "Isr:", "Configs: ", "a@", "@", "<a", "</", "<b>", "&amp;"),
    *(
        "&nbsp;",
        "/",
        "$ ",
        "x:",
        "get /",
        "[zk: ",
        "(id: ",
        "partition ",
        "offset: ",
        "rack: ",
        "a.",
        "0:1,",
        "replicas=[",
        "…",
    ),
    *(
        "\r",
        "\x0c",
        "\u2028",
        "\u00a0",
        "\u200b",
        "\ufeff",
        "\x1b[",
        "\x1b]",
        "\x07",
        "\x00",
        "\ud7ff",
        "“",
        "：",
        "a=b,",
    ),
)
_CONTROLS = (
    *(
        "\x00",
        "\x01",
        "\x07",
        "\x08",
        "\x0b",
        "\x0c",
        "\r",
        "\x1b",
        "\x1b[31m",
        "\x1b]0;t\x07",
        "\x1b[2J",
        "\x7f",
        "\x85",
    ),
    *("\u2028", "\u2029", "\u202e", "\u200b", "\ufeff", "\u00a0", "\u3000", "\U0001f600", "\ufffd", "e\u0301"),
)
_LOOK_ALIKES = {
    **{"a": "а", "e": "е", "o": "о", "i": "і", "p": "р", "T": "Т", "P": "Р", "I": "І", ":": "：", ",": "，", '"': "“"},
    **{" ": "\u00a0", "-": "–", "1": "１", "2": "２", "\t": "\u3000", "s": "ѕ", "[": "［", "{": "｛", "'": "’"},
}
_MAX_REPEATED = 50_000  # characters


def _at(rng: random.Random, text: str) -> int:
    return rng.randrange(len(text) + 1)


def _replace_some(rng: random.Random, text: str, pattern: re.Pattern[str], change: Callable[[str], str]) -> str:
    """Change one or a few of the matches of a pattern."""
    matches = list(pattern.finditer(text))
    if not matches:
        return text
    count = 1 if rng.random() < 0.7 else min(len(matches), rng.randint(2, 6))
    for match in sorted(rng.sample(matches, count), key=lambda match: -match.start()):
        text = text[: match.start()] + change(match[0]) + text[match.end() :]
    return text


def change_number(rng: random.Random, text: str) -> str:
    """Replace numbers by huge, negative, odd or neighbouring ones."""

    def change(number: str) -> str:
        choice = rng.random()
        if choice < 0.3:
            return str(int(number[:18]) + rng.choice((-1, 1, 2)))
        if choice < 0.5:
            return rng.choice(_HUGE)
        if choice < 0.75:
            return rng.choice(_ODD_NUMBERS)
        if choice < 0.8:
            return rng.choice("19") * rng.choice((20, 400, 5_000))
        return rng.choice(_ODD_WORDS)

    return _replace_some(rng, text, _NUMBER, change)


def delete_span(rng: random.Random, text: str) -> str:
    """Delete a few characters."""
    begin = _at(rng, text)
    return text[:begin] + text[begin + rng.choice((1, 1, 1, 2, 5, 20)) :]


def insert_control(rng: random.Random, text: str) -> str:
    """Insert control characters, separators and marks that editors and terminals add."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = _at(rng, text)
        text = text[:at] + rng.choice(_CONTROLS) + text[at:]
    return text


def insert_fragment(rng: random.Random, text: str) -> str:
    """Insert a fragment of syntax, mostly once, at times repeated up to 50 KB."""
    fragment = rng.choice(_FRAGMENTS)
    choice = rng.random()
    if choice < 0.12:
        fragment *= rng.randint(1, _MAX_REPEATED // len(fragment)) if choice < 0.03 else rng.randint(2, 300)
    at = _at(rng, text)
    return text[:at] + fragment + text[at:]


def repeat_span(rng: random.Random, text: str) -> str:
    """Repeat a piece of the text."""
    begin = _at(rng, text)
    piece = text[begin : begin + rng.choice((1, 3, 10, 60))]
    times = rng.choice((1, 2, 5, 50)) if rng.random() < 0.95 else _MAX_REPEATED // max(len(piece), 1)
    return text[:begin] + piece * times + text[begin:]


def swap_labels(rng: random.Random, text: str) -> str:
    """Exchange two labels or keys."""
    matches = list(_LABEL.finditer(text))
    if len(matches) < 2:
        return text
    first, second = sorted(rng.sample(matches, 2), key=lambda match: match.start())
    middle = text[first.end() : second.start()]
    return text[: first.start()] + second[0] + middle + first[0] + text[second.end() :]


def change_blanks(rng: random.Random, text: str) -> str:
    """Lose tabs, or repeat blanks."""
    choice = rng.random()
    if choice < 0.25:
        return text.replace("\t", rng.choice(("", " ", "    ", "\\t")))
    blank = rng.choice(("", "", " ", "\t", "  ", " " * 3_000))
    return _replace_some(rng, text, _BLANK, lambda _: blank)


def change_marks(rng: random.Random, text: str) -> str:
    """Lose, double, escape or exchange brackets, quotes and commas."""
    mark = rng.choice(("", "", "{", "}", "[", "]", '"', "\\", ",", "''", '""', '\\"', "(", "|", "`"))
    return _replace_some(rng, text, _MARK, lambda old: rng.choice((mark, old + old, "\\" + old)))


def change_letters(rng: random.Random, text: str) -> str:
    """Change the case of words, or replace characters by others that look the same."""
    if rng.random() < 0.4:
        return _replace_some(rng, text, _WORD, lambda word: rng.choice((word.upper(), word.lower(), word[::-1], "")))
    letter = rng.choice(list(_LOOK_ALIKES))
    if rng.random() < 0.3:
        return text.replace(letter, _LOOK_ALIKES[letter])
    return _replace_some(rng, text, re.compile(re.escape(letter)), lambda _: _LOOK_ALIKES[letter])


TEXT_MUTATIONS: tuple[Mutation, ...] = (
    *(change_number, change_number, delete_span, insert_control, insert_fragment, repeat_span),
    *(swap_labels, change_blanks, change_marks, change_letters),
)
