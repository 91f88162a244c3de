"""A plain session terminal: prompts and lines without escape sequences."""

from __future__ import annotations

import asyncio

from console import streams
from console.interactive.completer import Ask
from console.interactive.session_terminal import Interrupts, SessionTerminal
from console.interactive.settings import TerminalSettings


class PlainTerminal(SessionTerminal):
    """Prompts and lines, nothing else."""

    def __init__(
        self, ask: Ask, settings: TerminalSettings | None = None, interrupts: Interrupts | None = None
    ) -> None:
        super().__init__(settings, interrupts, ask)
        self._lines = streams.InputLines()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._line: asyncio.Future[str] | None = None
        self._dropped: asyncio.Future[None] | None = None

    async def read(self, prompt: str, *, delimiter: str, language: str, completion: bool) -> str | None:
        """Read one statement; None at the end of the input."""
        self._delimiter, self._language = delimiter, language
        self._loop = asyncio.get_running_loop()
        if self._interrupts is not None:
            self._interrupts.capture(self._on_interrupt)
        while True:
            text = await self._read_statement(prompt)
            if text is None or self._leaves(text):
                return None
            if not await self.commands.take(text):
                break
        if self._interrupts is not None:
            self._interrupts.capture(self.printer.abandon)
        return text

    async def _read_statement(self, prompt: str) -> str | None:
        text, shown = "", prompt
        while True:
            streams.write(f"{shown}> ")
            line = await self._next_line()
            if line is None:
                streams.write("\n")  # after the ^C that the terminal shows
                text, shown = "", prompt
                continue
            if not line:
                streams.write("\n")
                return None
            text += line.rstrip("\n")
            if self._is_complete(text):
                return text
            text += "\n"
            shown = " " * len(prompt)

    async def _next_line(self) -> str | None:
        """Read a line with its end; empty at the end of the input, None after Ctrl-C."""
        if self._line is None:
            self._line = asyncio.ensure_future(self._lines.next())
        self._dropped = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._line, self._dropped), return_when=asyncio.FIRST_COMPLETED)
        if not self._line.done():
            return None
        line, self._line = self._line.result(), None
        return line

    def _on_interrupt(self) -> None:
        """Handle Ctrl-C in the thread that reads signals."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._drop)

    def _drop(self) -> None:
        """Drop a line that was being typed, after Ctrl-C; the terminal has forgotten it already."""
        if self._dropped is not None and not self._dropped.done():
            self._dropped.set_result(None)
