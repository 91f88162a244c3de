"""The languages of statements at a console; every part that offers or refuses one asks this module."""

from __future__ import annotations

from typing import Final

LANGUAGES: Final[tuple[str, ...]] = ("lua",)
"""Values of `\\set language`. Add "sql" when `box.execute` works; until then the console refuses it."""
