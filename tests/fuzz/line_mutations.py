"""Mutations of lines: dropped, repeated, exchanged, joined, split, prefixed, cut and shuffled."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.fuzz.text_mutations import Mutation

_PREFIXES = (
    *(
        "# ",
        "> ",
        "| ",
        " * ",
        "// ",
        "host-1: ",
        "node2 | CHANGED => ",
        "[kafka@b ~]$ ",
        "12:",
        "2024-05-06 07:08:09 ",
    ),
    *("```", "<br>", "- ", "\t\t", "    ", "[INFO] ", "stdout: ", "<p>", '"', "+", "-", "{code}", "kafka-1  | ", "\\"),
)
_PROSE = (
    *("Hi, this is what it looks like:", "$ kafka-topics.sh --describe", "...", "```", "{code}", "", "---", "and then"),
    *("[2024-05-06 07:08:09,123] WARN slow", "Topic: we should talk", "{noformat}", "[zk: h(CONNECTED) 4] ls /"),
    *(
        "Current partition replica assignment",
        "Proposed partition reassignment configuration",
        "[",
        "{",
        "}",
        "]",
        "null",
    ),
)


def _drop(rng: random.Random, lines: list[str]) -> list[str]:
    begin = rng.randrange(len(lines))
    return lines[:begin] + lines[begin + rng.choice((1, 1, 2, 5)) :]


def _duplicate(rng: random.Random, lines: list[str]) -> list[str]:
    begin, to = rng.randrange(len(lines)), rng.randrange(len(lines) + 1)
    return lines[:to] + lines[begin : begin + rng.choice((1, 1, 3, 10))] + lines[to:]


def _swap(rng: random.Random, lines: list[str]) -> list[str]:
    lines = list(lines)
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return lines


def _join(rng: random.Random, lines: list[str]) -> list[str]:
    begin = rng.randrange(len(lines))
    end = begin + rng.choice((2, 2, 3, len(lines)))
    return [*lines[:begin], rng.choice(("", " ", "\t", ",", "\\n")).join(lines[begin:end]), *lines[end:]]


def _split(rng: random.Random, lines: list[str]) -> list[str]:
    number = rng.randrange(len(lines))
    line = lines[number]
    at = rng.randrange(len(line) + 1)
    return [*lines[:number], line[:at], rng.choice(("", "  ", "\t", "> ")) + line[at:], *lines[number + 1 :]]


def _prefix(rng: random.Random, lines: list[str]) -> list[str]:
    prefix, share = rng.choice(_PREFIXES), rng.choice((0.1, 0.5, 1.0))
    return [prefix + line if rng.random() < share else line for line in lines]


def _truncate(rng: random.Random, lines: list[str]) -> list[str]:
    if rng.random() < 0.5:
        number = rng.randrange(len(lines))
        return [*lines[:number], lines[number][: rng.randrange(len(lines[number]) + 1)]]
    width = rng.choice((20, 40, 60, 80))
    return [line[:width] for line in lines]


def _shuffle(rng: random.Random, lines: list[str]) -> list[str]:
    return rng.sample(lines, len(lines))


def _insert_prose(rng: random.Random, lines: list[str]) -> list[str]:
    at = rng.randrange(len(lines) + 1)
    return [*lines[:at], rng.choice(_PROSE), *lines[at:]]


def _wrap(rng: random.Random, lines: list[str]) -> list[str]:
    width = rng.choice((30, 60, 79))
    pieces = ([line[at : at + width] for at in range(0, max(len(line), 1), width)] for line in lines)
    return [piece for line in pieces for piece in line][:500]


def _indent(rng: random.Random, lines: list[str]) -> list[str]:
    blank = rng.choice(("", " ", "\t", "    "))
    return [blank + line.lstrip() for line in lines]


def _on_lines(change: Callable[[random.Random, list[str]], list[str]]) -> Mutation:
    def mutate(rng: random.Random, text: str) -> str:
        return "\n".join(change(rng, text.split("\n")))

    mutate.__name__ = f"{change.__name__.removeprefix('_')}_lines"
    return mutate


def paste_inside(rng: random.Random, text: str, other: str) -> str:
    """Insert another text at a line, or anywhere."""
    if rng.random() < 0.8:
        lines = text.split("\n")
        at = rng.randrange(len(lines) + 1)
        return "\n".join([*lines[:at], other.rstrip("\n"), *lines[at:]])
    at = rng.randrange(len(text) + 1)
    return text[:at] + other + text[at:]


def interleave(rng: random.Random, text: str, other: str) -> str:
    """Mix the lines of two texts, each in its order."""
    lines, others = text.split("\n"), other.split("\n")
    order = [lines] * len(lines) + [others] * len(others)
    rng.shuffle(order)
    rest = {id(lines): iter(lines), id(others): iter(others)}
    return "\n".join(next(rest[id(source)]) for source in order)


LINE_MUTATIONS: tuple[Mutation, ...] = tuple(
    _on_lines(change)
    for change in (
        *(_drop, _duplicate, _swap, _join, _split, _prefix, _truncate, _shuffle, _insert_prose, _wrap, _indent),
    )
)
