"""Builds the cases of the fuzzer: each depends on the seed and its index alone."""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass, replace

from tests.fuzz.healthy_listings import HEALTHY, build_healthy_listing
from tests.fuzz.json_mutations import change_document
from tests.fuzz.line_mutations import LINE_MUTATIONS, interleave, paste_inside
from tests.fuzz.samples import Sample, choose_sample, cut_sample
from tests.fuzz.session_mutations import SESSION_MUTATIONS
from tests.fuzz.text_mutations import TEXT_MUTATIONS

# Names with a meaning for the readers, and names that people and tools give.
_NAMES = (
    *("paste.txt", "describe.txt", "topics.csv", "brokers.csv", "a.json", "x.jsonl", "no-suffix", "-option.txt"),
    *("replication-offset-checkpoint", "replication-offset-checkpoint.broker-2", "recovery-point-offset-checkpoint"),
    *(
        "two words.txt",
        "new\nline.txt",
        "escape\x1b[2J.txt",
        "caf\udce9.txt",
        "a=b.txt",
        "tab\t.txt",
        "ü€.txt",
        "'q\"`.txt",
    ),
    *("…" * 80, "x" * 250, "{}.txt", "%s%n.txt", "<b>.html", "kafka.log.gz", "$(id).txt", "\u202e.txt", "*"),
)
COMMANDS = ("inspect", "what-if", "assign", "hotspots", "plan")
_COMMAND_SHARE = 0.02  # cases that also run a whole command
_SESSION_SHARE = 0.1  # mutations of what stands around a listing
_HEALTHY_SHARE = 0.15  # cases that begin with the listing of a healthy cluster


@dataclass(frozen=True)
class InputFile:
    """A file of a case."""

    name: str
    data: bytes


@dataclass(frozen=True)
class FuzzCase:
    """The files of one source, and what is done with them."""

    files: tuple[InputFile, ...]
    is_folder: bool  # the source is the folder of the files, not its only file
    cluster: str | None = None  # NAME of NAME=PATH
    command: str | None = None  # a command that is run as well
    mutations: tuple[str, ...] = ()  # names, for the recipe

    def with_files(self, files: tuple[InputFile, ...]) -> FuzzCase:
        """Return the case with other files."""
        return replace(self, files=files)


def build_case(seed: int, index: int) -> FuzzCase:
    """Build the case of a seed and an index."""
    rng = random.Random(f"{seed}:{index}")
    count = rng.choices((1, 2, 3), (6, 3, 1))[0]
    chosen = [_cut(rng, choose_sample(rng)) for _ in range(count)]
    if rng.random() < _HEALTHY_SHARE:
        chosen = [build_healthy_listing(rng), *chosen[: rng.random() < 0.2]]
    names: list[str] = []
    if len(chosen) > 1 and rng.random() < 0.6:
        chosen = [_combine(rng, chosen, names)]
    is_folder = len(chosen) > 1 or rng.random() < 0.1
    texts = [_mutate(rng, sample, names) for sample in chosen]
    files: dict[str, InputFile] = {}
    for sample, text in zip(chosen, texts, strict=True):
        name = sample.name if rng.random() < 0.7 else rng.choice(_NAMES)
        files[name] = InputFile(name, _encode(rng, sample, text, names))
    return FuzzCase(
        files=tuple(sorted(files.values(), key=lambda file: file.name)),
        is_folder=is_folder,
        cluster=rng.choice(("c", "prod eu", "a\nb", "\x1b[31m")) if rng.random() < 0.05 else None,
        command=rng.choice(COMMANDS) if rng.random() < _COMMAND_SHARE else None,
        mutations=tuple(names),
    )


def _cut(rng: random.Random, sample: Sample) -> Sample:
    return sample._replace(text=cut_sample(rng, sample.text))


def _combine(rng: random.Random, samples: list[Sample], names: list[str]) -> Sample:
    """Put several samples into one file: one after the other, mixed, or one inside another."""
    text = samples[0].text
    for sample in samples[1:]:
        way = rng.randrange(4)
        names.append(("append", "append", "interleave", "paste_inside")[way] + f" {sample.name}")
        if way <= 1:
            text = text + rng.choice(("", "\n", "\n\n")) + sample.text
        else:
            text = (interleave if way == 2 else paste_inside)(rng, text, sample.text)
    return samples[0]._replace(text=text, raw=text.encode())


def _mutate(rng: random.Random, sample: Sample, names: list[str]) -> str:
    text = sample.text
    names.append(sample.name)
    is_healthy = sample.name == HEALTHY
    for _ in range(rng.choice((0, 1, 1, 1, 2) if is_healthy else (0, 1, 1, 1, 2, 2, 3, 5, 10))):
        kind = rng.random() * (0.5 if is_healthy else 1)
        has_json = "{" in text or "[" in text
        mutate = rng.choice(
            SESSION_MUTATIONS
            if kind < (0.3 if is_healthy else _SESSION_SHARE)
            else (change_document,)
            if has_json and kind < 0.35
            else LINE_MUTATIONS
            if kind < 0.68
            else TEXT_MUTATIONS
        )
        names.append(mutate.__name__)
        text = mutate(rng, text)
    return text


def _encode(rng: random.Random, sample: Sample, text: str, names: list[str]) -> bytes:
    """Return the bytes of a file: mostly UTF-8, at times damaged, zipped or in another encoding."""
    way = rng.random()
    data = text.encode("utf-8", errors="surrogatepass")
    if way < 0.88:
        return data
    names.append("bytes")
    if way < 0.90:
        return gzip.compress(data, mtime=0)
    if way < 0.92:
        encoding = rng.choice(("utf-8-sig", "utf-16", "utf-16-be", "utf-32", "cp1252"))
        return text.encode(encoding, errors="replace")
    if way < 0.94:
        return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\r\r\n")))
    if way < 0.95:
        data = sample.raw[:20_000]
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 10))):
        at = rng.randrange(len(changed) + 1)
        if rng.random() < 0.5 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        else:
            changed[at:at] = rng.choice(
                (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x80", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80", b"\r")
            )
    return bytes(changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.1 else changed)
