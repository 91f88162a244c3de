"""Checks the names of spaces, indexes, fields, users, functions, sequences and collations."""

from __future__ import annotations

from unicodedata import category

from box.errors import BoxError, ErrorCode, client_error
from box.schema.ids import NAME_MAX, SHOWN_NAME_MAX

_FORBIDDEN = frozenset(("Cn", "Cc", "Zl", "Zp", "Cs"))
"""Unicode's categories of unassigned and control characters, line and paragraph separators, and surrogates, which stand
for bytes that are not UTF-8."""


def check_identifier(name: str) -> None:
    """Raise IDENTIFIER unless the name is non-empty and printable."""
    if name and name.isascii() and name.isprintable():
        return
    if not name or any(category(char) in _FORBIDDEN or char == "\ufffd" for char in name):
        raise client_error(ErrorCode.IDENTIFIER, name.partition("\0")[0])


def check_name(name: str, error_code: int, what: str) -> None:
    """Check the length of a name in UTF-8 bytes, then its characters.

    A name that is too long raises `error_code` with the text `<what> name is too long`.
    """
    raw = name.encode("utf-8", "surrogateescape")
    if len(raw) > NAME_MAX:
        raise too_long(raw, error_code, what)
    check_identifier(name)


def too_long(raw: bytes, error_code: int, what: str) -> BoxError:
    """Return the error of a name that exceeds the limit; it shows the beginning of the name."""
    shown = raw[:SHOWN_NAME_MAX].decode("utf-8", "surrogateescape")
    return client_error(error_code, shown, f"{what} name is too long")
