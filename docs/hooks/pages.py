"""What mkdocs asks for while it builds the site: the tables that are made from the code."""

from __future__ import annotations

from typing import Any

from reference_tables import expand


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The text of a page with its tables."""
    return expand(markdown)
