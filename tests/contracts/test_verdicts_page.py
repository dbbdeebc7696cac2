"""docs/verdicts.md lists every sentence that a verdict may have, and each of them is said somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from pipelines.verdict import judgement, risk_findings
from pipelines.verdict.statements import STATEMENTS
from pipelines.verdict.verdicts_page import render_page

PAGE = Path(__file__).parents[2] / "docs" / "verdicts.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_page(), "run `make docs`"


def test_every_sentence_is_listed_and_used() -> None:
    modules = (judgement, risk_findings, risk_findings, risk_findings, judgement)
    page, code = render_page(), "".join(Path(module.__file__).read_text(encoding="utf-8") for module in modules)
    assert len(STATEMENTS) > 25
    for name, statement in STATEMENTS.items():
        assert statement.condition in page, name
        assert re.search(rf"\b(source_)?statements\.{name.upper()}\b", code), f"{name} is never said"
