"""The languages of statements at a console; every part that offers or refuses one asks this module."""

from __future__ import annotations

from typing import Final

LANGUAGES: Final[tuple[str, ...]] = ("lua", "sql")
"""Values of `\\set language`."""
