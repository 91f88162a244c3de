"""Links inside the repository lead to files, and to headings in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.unit.docs.walkthrough import ROOT

_PLACES = ("*.md", "docs/**/*.md", "examples/**/*.md", "test/*/*.md")
PAGES = sorted(path for place in _PLACES for path in ROOT.glob(place))
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "hooks"))


def text_of(page: Path) -> str:
    """Return the page with its generated tables, without code."""
    from reference_tables import expand

    return _FENCE.sub("", expand(page.read_text()) if "hooks" not in page.parts else "")


def anchors(page: Path) -> set[str]:
    """Return the anchors that mkdocs and GitHub make of headings: lower case letters, digits, underscores, hyphens for
    spaces.
    """
    headings = _HEADING.findall(text_of(page))
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    for link in _LINK.findall(text_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Here\n\n[a](#here) [b](#there) [c](missing.md) [d](https://example.org/)\n")
    assert list(broken_links(page)) == ["#there", "missing.md"]
