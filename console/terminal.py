"""The terminal of an interactive session, as the session sees it."""

from __future__ import annotations

from typing import Protocol


class Terminal(Protocol):
    """Reads statements of an interactive session and shows its answers."""

    async def read(self, prompt: str, *, delimiter: str, language: str, completion: bool) -> str | None:
        """One statement, or None at the end of the input."""

    def write(self, text: str) -> None:
        """Show an answer."""
