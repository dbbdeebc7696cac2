"""Every link and picture of the pages leads somewhere, and pictures are small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
OTHERS = [ROOT / "data_samples" / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "jobs").glob("*.md"))]


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_page_is_reached_from_the_readme() -> None:
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached or not page.exists():
            continue
        reached.add(page)
        if page.suffix == ".md":
            links = LINK.findall(page.read_text(encoding="utf-8"))
            ahead += [(page.parent / target).resolve() for target in links if "://" not in target]
    assert set(PAGES) <= reached


def test_pictures_are_small_and_used_or_shown() -> None:
    pictures = sorted((ROOT / "docs" / "images").glob("*"))
    assert pictures
    for picture in pictures:
        assert picture.read_bytes()[:4] in (b"\x89PNG", b"<svg"), picture
        assert picture.stat().st_size < 300_000, picture
        assert any(picture.name in page.read_text(encoding="utf-8") for page in PAGES), picture


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
