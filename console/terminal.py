"""The terminal of an interactive session, as the session sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lua.text_console.text_table import Lines


class Terminal(Protocol):
    """Reads statements of an interactive session and shows its answers."""

    @property
    def compiles(self) -> bool:
        """Whether statements may become machine code, which Ctrl-C cannot end."""

    @property
    def output(self) -> str:
        """The format that answers have at first: yaml, lua or table."""

    @property
    def table_rows(self) -> int:
        """The number of rows of a table that are shown, 0: all."""

    @property
    def table_width(self) -> int:
        """Columns for tables, 0: no limit."""

    @property
    def table_lines(self) -> Lines:
        """Characters that tables are drawn with."""

    async def read(self, prompt: str, *, delimiter: str, language: str, completion: bool) -> str | None:
        """One statement, or None at the end of the input."""

    def write(self, text: str) -> None:
        """Show what is pushed before an answer."""

    def answer(self, text: str) -> None:
        """Show an answer. May wait for its reader."""

    def failed(self, stack: str, position: str) -> None:
        """The statement has failed; its answer follows."""

    def is_quick(self, text: str) -> bool:
        """Whether `answer` will not wait, as far as one can know."""
