"""Find words that the project does not use: in identifiers, texts, columns, views, settings and options.

`python -m tests.contracts.language [FILE...]` prints every hit as file:line. docs/glossary.md has the words to use.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Words that no identifier contains, as regular expressions for one of its parts.
PARTS = re.compile(
    r"deaths?|die[sd]?|dead|dying|kill(s|ed|ing|er)?|heirs?|told|tells?|teller|nobody|whose|parcels?|wish(es)?|drafts?"
    r"|giants?|liquids?|crippled|odds|receivers?|contradict\w*|refus\w*|alive|living|lest|knobs?"
)
# Words that are no identifier: participles and pronouns. They may be part of one, as in `rows_found`.
WHOLE = words("""
    asked brought carried found given held kept made mine of ours said shown taken theirs want wanted wants
""")
# Names that have been replaced; none of them comes back.
MODULES = words("""
    what_fails stage_list schedule view_makers replay_run replay_stream conf_files closing deaths plan_words
    plan_lines plan_steps plan_table plan_compiling as_json questions settle verdicts faults shapes asked stored
    documents state begin shown differences in_order told page words head facts figures outcomes held heirs parcels
    shares spread failure_sums fewer_sets wishes sense against hard covering heavy zero_byte choice certify planned
    story teller carry answers together
""")
NAMES = words("""
    Wishes Problem Draft Asked Knobs Effort Want Begin Held Told Said World Own Body nonsense without_crippled
    brought even_heirs keep_views find_views _insist holds_less starts_here trier coupler can_i_lose
    one_failure_from_offline not_as_kafka_placed topics_on_one_broker hotspot_odds leaders_worst_over_mean
    worst_survivor_max_over_mean worst_survivor_max_over_mean_ratio worst_survivor_leaders at_one_replica
    at_one_replica_after messages_at_stake random_draws most_pairs target_least small_bytes share_bytes scheme_sums
    replay_state one_stream
""")
# Phrases that no text contains.
TEXTS = (
    r"\bdeaths?\b|\bdie[sd]?\b|\bdead\b|\bdying\b|\bheirs?\b|\btold\b|\btells\b|\bnobody\b|\bparcels?\b|\bwish(?:es)?\b",
    r"\bgiants?\b|\bliquid\b|\bcrippled\b|\bodds\b|\bat stake\b|\breceivers?\b|\bcontradict(?:s|ed|ion|ions)?\b",
    r"\brefus(?:e|es|ed|al|als|ing)\b|\balive\b|\bliving\b|\bmade-up\b|\bmade up\b|\bleft aside\b|\bleft alone\b",
    r"\bof no use here\b|\bof use here\b|\blest\b|\bbe it\b|\bleads? nothing\b|(?-i:\bNothing; )",
    r"\bLook at it\b|\bhardly\b|\bthere is no saying\b|\bwere (?:it|they) to\b|\bare so already\b",
    r"\bwho only\b|\bnot understood\b",
    r"\bask\.\w+|\b(?:silver|gold)\.(?:entities|scheme_sums|planned|replayed|replay_state)\b",
    r"\binsights\.(?:changed|over_time)\b",
    r"\bfailures\.(?:lists|work)\b|\bhotspots\.work\b|\bdurability\.(?:steps|trials|failures)\b",
    r"(?<![\w-])--(?:led|as|above|one-stream)(?![\w-])",
)
TEXT = re.compile("|".join(TEXTS) + "|" + "|".join(rf"\b{name}\b" for name in sorted(NAMES) if "_" in name[1:]), re.I)
KILL = re.compile(r"\bkill(?:s|ed|ing)?\b(?! [-$])", re.I)  # not the command of a shell
KILLED_PROCESS = re.compile(
    r"\b(process|processes|run|runs|command|signal|SIGKILL|JVM|worker|workers|job|jobs)\b", re.I
)
# Not ours: states of consumer groups and of brokers in other tools, and names of the folders of captures.
FOREIGN = re.compile(r'\bDead\b|\bDEAD\b|\bALIVE\b|"alive"|\bkafka-\d[\d.]*-[\w-]+')
FOREIGN_NAMES = frozenset({"DEAD"})
# Python's, numpy's and other libraries' names.
LIBRARY_NAMES = frozenset({"kill", "killpg", "is_alive", "SIGKILL"})

PACKAGES = ("pipelines", "udfs", "jobs", "notebooks")
TEXT_SUFFIXES = {".md", ".toml", ".yml", ".yaml", ".sh", ".html", ".js", ".css", ".properties"}


@dataclass(frozen=True, order=True)
class Hit:
    """A word that the project does not use.

    Attributes:
        file: Where it is, from the top of the tree.
        line: Number of the line, from 1.
        word: The word.
        kind: What contains it.
    """

    file: str
    line: int
    word: str
    kind: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}: {self.word}"


def list_files() -> list[Path]:
    """List the files that are checked: code, notebooks, jobs, settings, pages and docs, but no library's."""
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md", ROOT / "Makefile"]
    for folder in (*PACKAGES, "docs", "conf"):
        files += [file for file in (ROOT / folder).rglob("*") if file.suffix in {".py", *TEXT_SUFFIXES}]
    return sorted(file for file in files if file.is_file() and not file.name.endswith(".min.js"))


def find_hits(files: Sequence[Path]) -> list[Hit]:
    """Find the words in files."""
    hits: list[Hit] = []
    for file in files:
        place = str(file.relative_to(ROOT))
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".py":
            if file.stem in MODULES:
                hits.append(Hit(place, 1, file.stem, "module"))
            tree = ast.parse(text)
            hits += [Hit(place, line, name, "identifier") for line, name in list_identifiers(tree) if is_banned(name)]
            for line, part in list_texts(text):
                hits += check_text(place, line, part)
        else:
            hits += check_text(place, 1, text)
            if file.suffix == ".js":
                for match in re.finditer(r"\b(?:const|let|var|function)\s+(\w+)", text):
                    if is_banned(match[1]):
                        hits.append(Hit(place, text.count("\n", 0, match.start()) + 1, match[1], "identifier"))
    return sorted(set(hits))


def is_banned(name: str) -> bool:
    """Whether an identifier is banned, or contains a banned word."""
    if name in FOREIGN_NAMES | LIBRARY_NAMES:
        return False
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return name in NAMES or name.strip("_").lower() in WHOLE or any(PARTS.fullmatch(part.lower()) for part in parts)


def list_identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything that the code names: classes, functions, parameters, variables, attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name


def list_texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and source of every string, docstring and comment."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            yield token.start[0], token.string


def check_text(place: str, first_line: int, text: str) -> Iterator[Hit]:
    """Find the banned phrases of a text that begins in a line of a file."""
    own = re.sub(FOREIGN.pattern, lambda match: "_" * len(match[0]), text)
    for match in TEXT.finditer(own):
        yield Hit(place, first_line + own.count("\n", 0, match.start()), match[0], "text")
    for match in KILL.finditer(own):
        around = own[max(0, match.start() - 80) : match.end() + 80]
        if not KILLED_PROCESS.search(around):
            yield Hit(place, first_line + own.count("\n", 0, match.start()), match[0], "text")


def list_public_names() -> Iterator[tuple[str, str]]:
    """Kind and name of every table, column, view, setting and option."""
    import typer.main

    from pipelines.cli import app
    from pipelines.config.setting_sections import Settings
    from pipelines.spark.views import VIEWS
    from pipelines.tables import TABLES

    for table in TABLES.values():
        yield "table", table.name
        yield from (("column", name) for name in table.column_names)
    yield from (("view", view.name) for view in VIEWS)
    for section, field in Settings.model_fields.items():
        keys = getattr(field.annotation, "model_fields", {})
        yield from (("setting", f"{section}.{key}") for key in keys)
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for command in commands.values():
        yield from (("option", option) for parameter in command.params for option in parameter.opts)


def find_public_hits() -> list[str]:
    """Find the words in names of tables, columns, views, settings and options."""
    return sorted(
        {
            f"{kind}: {name}"
            for kind, name in list_public_names()
            if TEXT.search(name) or (kind != "option" and any(map(is_banned, name.split("."))))
        }
    )


if __name__ == "__main__":
    named = [Path(name).resolve() for name in sys.argv[1:]]
    chosen = [file for file in list_files() if not named or any(file.is_relative_to(one) for one in named)]
    found = [*map(str, find_hits(chosen)), *([] if named else find_public_hits())]
    print(*found, f"{len(found)} hits", sep="\n")
    sys.exit(bool(found))
