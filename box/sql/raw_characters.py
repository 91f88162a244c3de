"""The characters of texts, also of those that are not UTF-8.

Tarantool takes the length of a character from its first byte alone. So a byte 0xE0 and the two bytes after it are one
character, whatever these are, and a byte from 0x80 to 0xC1 is one of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOT_UTF8: Final = re.compile("[\ud800-\udfff]")
_CHARACTERS: Final = re.compile(rb"[\xc2-\xdf].?|[\xe0-\xef].{0,2}|[\xf0-\xff].{0,3}|.", re.DOTALL)


def is_utf8(text: str) -> bool:
    """Return whether all bytes of a text are UTF-8. Python shows others as halves of surrogate pairs."""
    return raw_place(text) is None


def raw_place(text: str) -> int | None:
    """Return the place of the first character that is a byte, not UTF-8; None if there is none."""
    found = None if text.isascii() else _NOT_UTF8.search(text)
    return None if found is None else found.start()


def characters(text: str) -> Sequence[str]:
    """Return the characters of a text: the text itself, or a list."""
    if is_utf8(text):
        return text
    raw = text.encode("utf-8", "surrogateescape")
    return [found.decode("utf-8", "surrogateescape") for found in _CHARACTERS.findall(raw)]
