"""Regular expressions that a test pushes over its own output."""

from __future__ import annotations

import re


class Filters:
    """Substitutions for every line of output, applied in the order of their definition.

    They work on bytes, as in Tarantool's runner: `.` matches one byte, and `\\w` only letters of ASCII.
    """

    def __init__(self) -> None:
        self._rules: list[tuple[re.Pattern[bytes], bytes]] = []

    def push(self, pattern: str, replacement: str) -> None:
        """Add a substitution. Raises ValueError if `pattern` is not a regular expression."""
        try:
            self._rules.append((re.compile(_bytes(pattern)), _bytes(replacement)))
        except re.error as error:
            raise ValueError(f"bad filter {pattern!r}: {error}") from error

    def pop(self) -> None:
        """Remove the newest substitution. Raises ValueError if there is none."""
        if not self._rules:
            raise ValueError("no filter to pop")
        self._rules.pop()

    def clear(self) -> None:
        self._rules.clear()

    def apply(self, text: str) -> str:
        """Return `text` with every line filtered; a line that becomes blank is dropped."""
        if not self._rules:
            return text
        lines = _bytes(text).splitlines(keepends=True)
        return b"".join(self._apply_line(line) for line in lines).decode(errors="surrogateescape")

    def _apply_line(self, line: bytes) -> bytes:
        blank_before = not line.strip()
        for pattern, replacement in self._rules:
            line = pattern.sub(replacement, line)
            if not blank_before and not line.strip():
                return b""
        return line


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
