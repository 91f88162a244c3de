"""The languages of statements at a console; every part that offers or refuses one asks this module."""

from __future__ import annotations

from typing import Final

LANGUAGES: Final[tuple[str, ...]] = ("lua",)
"""The values of `\\set language`. SQL will follow when `box.execute` works; until then the console refuses it."""
