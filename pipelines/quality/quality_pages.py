"""Write the results of Great Expectations as pages that load nothing from servers and run no scripts."""

import contextlib
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from great_expectations import ExpectationSuite
from great_expectations.render.renderer.page_renderer import ExpectationSuitePageRenderer, ValidationResultsPageRenderer
from great_expectations.render.view.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, DictLoader

_MAX_ATTEMPTS = 20
_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Quality of the tables</title>
<style>
body { font: 15px/1.5 sans-serif; margin: 0 auto; max-width: 75em; padding: 1em; color: #222; background: #fff; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #ccc; padding: .4em .6em; text-align: left; vertical-align: top; }
ul { list-style: none; padding: 0; }
h1, h2, h3, h4, h5, h6 { margin: .8em 0 .3em; font-size: 1.2em; }
.fa-check-circle::before { content: "\\2714"; color: #087f23; }
.fa-times::before { content: "\\2718"; color: #b00020; }
.fa-exclamation-triangle::before { content: "\\26A0"; color: #b00020; }
</style>
</head>
<body>
"""
# In the place of the templates of GX with these names, which load scripts and styles from servers.
_TEMPLATES = {
    "page.j2": _HEAD
    + """{% for section in sections %}{% set section_loop = loop %}{% include "section.j2" %}{% endfor %}
</body>
</html>
""",
    "index_page.j2": _HEAD
    + """<h1>Quality of the tables</h1>
<table>
<tr><th>table</th><th>result</th><th>expectations</th><th>failed</th><th>pages</th></tr>
{% for table, failed, expectations, place in tables %}
<tr><td>{{ table }}</td>
<td><i class="fa-{{ "times" if failed else "check-circle" }}"></i> {{ "failed" if failed else "succeeded" }}</td>
<td>{{ expectations }}</td><td>{{ failed }}</td>
<td><a href="validations/{{ place }}">results</a>, <a href="expectations/{{ place }}">expectations</a></td></tr>
{% endfor %}
</table>
</body>
</html>
""",
}


class CheckedSuite(NamedTuple):
    """The expectations of a table, and the results of Great Expectations."""

    suite: ExpectationSuite
    results: Any


def write_pages(checked: Sequence[CheckedSuite], folder: Path) -> None:
    """Write the pages of all tables beside the folder, then replace it, so that no reader sees half of them."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        _write_site(checked, site := Path(scratch, "new"))
        for attempt in count():
            with contextlib.suppress(FileNotFoundError):
                folder.rename(Path(scratch, f"outdated-{attempt}"))
            try:
                site.rename(folder)
                return
            except OSError:  # another run has written its pages meanwhile
                if attempt == _MAX_ATTEMPTS:
                    raise


def _write_site(checked: Sequence[CheckedSuite], site: Path) -> None:
    view: Any = DefaultJinjaPageView()
    view.env.loader = ChoiceLoader([DictLoader(_TEMPLATES), view.env.loader])
    render_suite: Any = ExpectationSuitePageRenderer().render
    tables = []
    for suite, results in checked:
        place = f"{suite.name}.html"
        pages = {"validations": ValidationResultsPageRenderer().render(results), "expectations": render_suite(suite)}
        for kind, page in pages.items():
            (site / kind).mkdir(parents=True, exist_ok=True)
            (site / kind / place).write_text(view.render(page), encoding="utf-8")
        tables.append((suite.name, sum(not result.success for result in results.results), len(results.results), place))
    index = view.env.get_template("index_page.j2").render(tables=tables)
    (site / "index.html").write_text(index, encoding="utf-8")
