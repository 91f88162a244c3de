"""`utf8`: letter case, categories and collation of code points, for Lua."""

from __future__ import annotations

import unicodedata

from box.data.collation import sort_key
from lua.bindings.binding import Binding, exported, text

_UNICODE, _UNICODE_CI = 1, 2
"""The ids of the collations that `utf8.cmp` and `utf8.casecmp` use."""


class Utf8Binding(Binding):
    """Python half of lua/modules/utf8.lua."""

    @exported("utf8_upper")
    def upper(self, value: bytes) -> bytes:
        """Convert to upper case."""
        return text(value).upper().encode("utf-8", "surrogateescape")

    @exported("utf8_lower")
    def lower(self, value: bytes) -> bytes:
        """Convert to lower case."""
        return text(value).lower().encode("utf-8", "surrogateescape")

    @exported("utf8_category")
    def category(self, code: float) -> bytes:
        """Return the general category of a code point, two letters."""
        return unicodedata.category(chr(int(code))).encode()

    @exported("utf8_key")
    def collation_key(self, value: bytes, ignore_case: bool) -> bytes:
        """Return bytes that compare as the texts do under the collation."""
        return sort_key(_UNICODE_CI if ignore_case else _UNICODE, text(value))
