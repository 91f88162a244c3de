"""Progress of long work: a line below the prompt, or below the statement that waits for it.

    box.cfg{}
    recovery: 340,000 of 2,000,000 rows, 17 %  (3 s)

Work of less than a second is not shown, nor any work without a terminal.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from prompt_toolkit.formatted_text import StyleAndTextTuples

from console import streams
from console.interactive.printer import is_dumb, is_terminal, terminal_size
from lua.text_console.text_table import cut

Progress = Callable[[], str | None]
"""Returns the text about an operation that has taken longer than a second, None if there is none."""

_INTERVAL: Final = 0.25
"""The seconds between two looks at the progress."""
_ERASE: Final = "\r\x1b[K"


class ProgressLine:
    """Draws the progress of the current work a few times a second while it is visible."""

    def __init__(self, look: Progress, redraw: Callable[[], None]) -> None:
        self._look = look
        self._redraw = redraw
        self._task: asyncio.Task[None] | None = None
        self._text: str | None = None
        self._is_drawn = False
        self._is_below_prompt = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin to draw, because a statement runs."""
        if self._task is None and is_terminal() and not is_dumb():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="progress")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.erase()

    @contextmanager
    def below_prompt(self) -> Iterator[None]:
        """Show progress in the bar while the prompt is there."""
        self._is_below_prompt = True
        self.start()
        try:
            yield
        finally:
            self._is_below_prompt, self._text = False, None
            if self._task is not None:
                self._task.cancel()
                self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL)
            text = self._look()
            if self._is_below_prompt:
                if text != self._text:
                    self._text = text
                    self._redraw()
            elif text is not None:
                self._draw(text)
            else:
                self.erase()

    def _draw(self, text: str) -> None:
        with self._lock:
            self._is_drawn = True
            streams.write(_ERASE + cut(text, terminal_size()[0] - 1))

    def erase(self) -> None:
        """Erase the line before something else is written there; for any thread."""
        with self._lock:
            if self._is_drawn:
                self._is_drawn = False
                streams.write(_ERASE)

    def shown(self) -> StyleAndTextTuples | None:
        """Return the progress as text for the bar, or None."""
        return None if self._text is None else [("class:bar.progress", cut(self._text, terminal_size()[0] - 1))]
