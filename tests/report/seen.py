"""A page as Chromium shows it, and what it did meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


# Nothing of Chromium's own asks the network, which may be closed.
_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium_found() -> str | None:
    """Where this machine's Chromium is."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def launched(chromium: str) -> Iterator[Browser]:
    """That Chromium, running."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_QUIET))
        yield browser
        browser.close()


@dataclass
class Seen:
    """What a page did."""

    page: Page
    faults: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@contextmanager
def opened(
    browser: Browser, file: Path, width: int = 1280, scheme: Any = "light", height: int = 900, scale: float = 1
) -> Iterator[Seen]:
    """The page, as it is after it has drawn. width, height: CSS pixels.   scale: device pixels to one of these."""
    window: Any = {"width": width, "height": height}
    context = browser.new_context(viewport=window, color_scheme=scheme, device_scale_factor=scale)
    seen = Seen(context.new_page())
    seen.page.on("console", lambda message: seen.faults.append(message.text))
    seen.page.on("pageerror", lambda error: seen.faults.append(str(error)))
    seen.page.on("request", lambda request: seen.asked.append(request.url))
    seen.page.goto(file.as_uri())
    yield seen
    context.close()


def unfold(page: Page) -> None:
    """Open every cluster and section, and have every chart drawn, as printing does."""
    page.evaluate(
        """() => {
          document.querySelectorAll("details.cluster, details.part").forEach((one) => { one.open = true; });
          window.dispatchEvent(new Event("beforeprint"));
        }"""
    )


def counted(page: Page) -> dict[str, int]:
    """How many charts there are, are drawn, and show something other than a sentence."""
    found: dict[str, int] = page.evaluate(
        """() => {
          const charts = [...document.querySelectorAll("[data-chart]")];
          const broken = [...document.querySelectorAll("[data-chart] svg *")].filter((one) =>
            [...one.attributes].some((attribute) => /NaN|Infinity|undefined/.test(attribute.value)));
          const lines = [...document.querySelectorAll('[data-chart="trend"] svg [aria-label="line"] path')];
          return {
            broken: broken.length,
            lines: lines.filter((one) => /^M[\\d.].*L/.test(one.getAttribute("d"))).length,
            charts: charts.length,
            drawn: charts.filter((one) => one.dataset.drawn).length,
            pictures: charts.filter((one) => one.querySelector("svg, canvas")).length,
            beyond: document.documentElement.scrollWidth - innerWidth,
          };
        }"""
    )
    return found
