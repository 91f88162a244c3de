"""Several statements pasted at once: they run one by one, as if each had been typed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from console import streams


class PastedStatements:
    """Pasted statements that wait for their turn. `remember` puts one into the history."""

    def __init__(self, remember: Callable[[str], None]) -> None:
        self._remember = remember
        self._is_noted = False
        self._waiting: deque[str] = deque()

    def note(self, text: str) -> None:
        """Note that a text was pasted into the input."""
        self._is_noted = self._is_noted or "\n" in text.strip("\n")

    def forget_note(self) -> None:
        """Note that the input is empty again."""
        self._is_noted = False

    def first(self, text: str, is_complete: Callable[[str], bool]) -> str | None:
        """Return the first of several statements in the input, and keep the others for `next`.

        None if nothing of several lines was pasted, or the last statement is not complete: the input stays as it is.
        """
        if not self._is_noted:
            return None
        statements = split(text, is_complete)
        if len(statements) < 2 or not is_complete(statements[-1]):
            return None
        self._waiting.extend(statements[1:])
        return statements[0]

    def next(self, prompt: str) -> str | None:
        """Return the next waiting statement, or None.

        The statement is printed after a prompt, as if it had been typed.
        """
        if not self._waiting:
            return None
        statement = self._waiting.popleft()
        self._remember(statement)
        indent = " " * (len(prompt) + 2)
        streams.write(f"{prompt}> " + statement.replace("\n", "\n" + indent) + "\n")
        return statement

    def clear(self) -> None:
        """Drop the waiting statements."""
        self._waiting.clear()


def split(text: str, is_complete: Callable[[str], bool]) -> list[str]:
    """Split a text into statements, each with as many lines as it needs. The last one may be incomplete."""
    statements: list[str] = []
    lines: list[str] = []
    for line in text.split("\n"):
        if not lines and not line.strip():
            continue
        lines.append(line)
        if is_complete("\n".join(lines)):
            statements.append("\n".join(lines))
            lines = []
    if lines:
        statements.append("\n".join(lines))
    return statements
