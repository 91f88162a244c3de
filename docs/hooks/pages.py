"""Adds pages that lie directly in docs/ to the navigation: each part of the product brings its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Pages of docs/ that `nav` does not name, by name, before the reference."""
    own = sorted(path.name for path in Path(config["docs_dir"]).glob("*.md") if path.name != "index.md")
    if own:
        config["nav"].insert(-1, {"More": own})
    return config
