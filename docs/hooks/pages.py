"""The hooks of mkdocs: they insert tables that are generated from the code."""

from __future__ import annotations

from typing import Any

from reference_tables import expand


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the text of a page with its tables inserted."""
    return expand(markdown)
