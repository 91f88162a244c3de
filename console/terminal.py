"""The terminal's interface for an interactive session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lua.text_console.text_table import Lines


class Terminal(Protocol):
    """Reads statements of an interactive session and shows its answers."""

    @property
    def compiles(self) -> bool:
        """True if statements may become machine code, which Ctrl-C cannot end."""

    @property
    def name(self) -> str:
        """The prompt of a session on this node: programs that read a session wait for that of Tarantool."""

    @property
    def output(self) -> str:
        """The initial format of answers: yaml, lua or table."""

    @property
    def table_rows(self) -> int:
        """The number of table rows to show; 0 means all."""

    @property
    def table_width(self) -> int:
        """The number of columns for tables; 0 means no limit."""

    @property
    def table_lines(self) -> Lines:
        """The characters that draw tables."""

    async def read(self, prompt: str, *, delimiter: str, language: str, completion: bool) -> str | None:
        """Read one statement; None at the end of the input."""

    def write(self, text: str) -> None:
        """Show text that a statement pushes before its answer."""

    def answer(self, text: str) -> None:
        """Show an answer. May wait for its reader."""

    def failed(self, stack: str, position: str) -> None:
        """Note that the statement has failed; its answer follows."""

    def is_quick(self, text: str) -> bool:
        """Return whether `answer` will probably not wait."""
