"""Make the Data Docs of Great Expectations complete in themselves: they load nothing, and run no scripts."""

import re
import shutil
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

# Their own styles stay; those and the scripts that they load from servers go, and what only these make useful.
_REMOVED = re.compile(
    r"<script\b.*?</script\s*>|<link\b[^>]*>|<img\b[^>]*>|<button\b.*?</button\s*>|<footer\b.*?</footer\s*>"
    r"|<div class=\"btn-group\b.*?</div\s*>",
    re.DOTALL | re.IGNORECASE,
)
_LOADED_IMAGE = re.compile(r"[\w-]+\s*:\s*url\(\s*['\"]?https?:[^)]*\)\s*[^;}]*;?", re.IGNORECASE)
_OUTSIDE_LINK = re.compile(r"(<a\b[^>]*?)\s+href=\"(?:https?:)?//[^\"]*\"", re.IGNORECASE)
_HEAD = """<head>
<meta charset="UTF-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body { font: 15px/1.5 sans-serif; margin: 0 auto; max-width: 75em; padding: 1em; color: #222; background: #fff; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #ccc; padding: .4em .6em; text-align: left; vertical-align: top; }
ul { list-style: none; padding: 0; }
h1, h2, h3, h4, h5, h6 { margin: .8em 0 .3em; font-size: 1.2em; }
.fa-check-circle::before { content: "\\2714"; color: #087f23; }
.fa-times::before { content: "\\2718"; color: #b00020; }
.fa-exclamation-triangle::before { content: "\\26A0"; color: #b00020; }
</style>"""
_INDEX = """<!DOCTYPE html>
<html lang="en">
{head}
<title>Quality of the tables</title>
</head>
<body>
<h1>Quality of the tables</h1>
<table>
<tr><th>table</th><th>result</th><th>expectations</th><th>failed</th><th>pages</th></tr>
{rows}
</table>
</body>
</html>
"""


def make_offline(site: Path, results: Mapping[str, Sequence[bool]]) -> None:
    """Rewrite the pages of a site so that they load nothing, with an index that needs no scripts.

    results: for each table, whether each of its expectations holds.
    """
    for page in site.rglob("*.html"):
        page.write_text(_remove_loaded(page.read_text(encoding="utf-8")), encoding="utf-8")
    rows = [_make_row(site, table, successes) for table, successes in results.items()]
    (site / "index.html").write_text(_INDEX.format(head=_HEAD, rows="\n".join(rows)), encoding="utf-8")
    shutil.rmtree(site / "static", ignore_errors=True)  # fonts and pictures that no page shows


def _remove_loaded(page: str) -> str:
    page = _LOADED_IMAGE.sub("", _REMOVED.sub("", page))
    return _OUTSIDE_LINK.sub(r"\1", page).replace("<head>", _HEAD, 1)


def _make_row(site: Path, table: str, successes: Sequence[bool]) -> str:
    place = table.replace(".", "/")
    pages = {"results": sorted((site / "validations" / place).rglob("*.html"))}
    pages["expectations"] = [site / "expectations" / f"{place}.html"]
    links = ", ".join(
        f'<a href="{quote(str(page.relative_to(site)))}">{name}</a>'
        for name, files in pages.items()
        for page in files
        if page.is_file()
    )
    failed = sum(not success for success in successes)
    mark = "times" if failed else "check-circle"
    result = f'<i class="fa-{mark}"></i> {"failed" if failed else "succeeded"}'
    return (
        f"<tr><td>{escape(table)}</td><td>{result}</td><td>{len(successes)}</td><td>{failed}</td><td>{links}</td></tr>"
    )
