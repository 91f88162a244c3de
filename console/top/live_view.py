"""The live view of a replica set on a full screen."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition, Filter
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.output import ColorDepth, Output

from console.interactive.printer import is_unicode
from console.interactive.styles import style_of
from console.top.overview import FIBER_ORDERS, SPACE_ORDERS, Choice, heading, overview
from console.top.sampling import ClusterSample, ClusterWatch
from lua.text_console.text_table import ASCII, UNICODE, cut

_FASTEST, _SLOWEST = 0.25, 60.0
"""The bounds, in seconds, between which the keys + and - change the interval."""
_KEYS: Final = "space hold  q quit  PgDn  + - speed"


class LiveView:
    """Samples the instances repeatedly and shows them."""

    def __init__(
        self,
        watch: ClusterWatch,
        interval: float,
        style: str = "default",
        *,
        source: Input | None = None,
        sink: Output | None = None,
    ) -> None:
        self._watch = watch
        self._interval = interval
        self._choice = Choice(most=1000)
        self._sample: ClusterSample | None = None
        self._before: ClusterSample | None = None
        self._is_held = self._is_filtering = False
        self._top = 0
        self._wakeup = asyncio.Event()
        self._application: Application[None] = Application(
            layout=Layout(
                HSplit(
                    [
                        Window(FormattedTextControl(self._head), height=1, style="class:top.head"),
                        Window(FormattedTextControl(self._body), wrap_lines=False),
                        Window(FormattedTextControl(self._foot), height=1, style="class:top.foot"),
                    ]
                )
            ),
            key_bindings=self._bindings(),
            full_screen=True,
            style=style_of(style),
            color_depth=ColorDepth.DEPTH_1_BIT if style == "mono" else None,
            input=source,
            output=sink,
        )

    async def run(self) -> None:
        """Show the view until the user leaves."""
        task = asyncio.get_running_loop().create_task(self._look(), name="top")
        try:
            await self._application.run_async()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _look(self) -> None:
        while True:
            if not self._is_held:
                sample = await self._watch.sample()
                if not self._is_held:
                    self._before, self._sample = self._sample, sample
                    self._application.invalidate()
            self._wakeup.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._wakeup.wait()

    # -- content --------------------------------------------------------------------------------------------------

    def _head(self) -> StyleAndTextTuples:
        note = "held" if self._is_held else f"every {self._interval:g} s"
        text = heading(self._sample, note) if self._sample else "connecting"
        return [("bold", cut(f"lunabox top  {text}", self._width))]

    def _body(self) -> StyleAndTextTuples:
        if self._sample is None:
            return []
        text = overview(self._sample, self._before, self._choice, self._width, UNICODE if is_unicode() else ASCII)
        lines = text.split("\n")
        self._top = max(0, min(self._top, len(lines) - self._height))
        shown: StyleAndTextTuples = []
        for line in lines[self._top : self._top + self._height]:
            style = "bold" if line in ("instances", "replication", "spaces", "fibers") else ""
            shown.append((style, line + "\n"))
        return shown

    def _foot(self) -> StyleAndTextTuples:
        if self._is_filtering:
            return [("", cut(f"/{self._choice.text}", self._width))]
        orders = f"s spaces by {self._choice.spaces}  f fibers by {self._choice.fibers}"
        chosen = f" {self._choice.text!r}" if self._choice.text else ""
        return [("class:hint", cut(f"{orders}  / filter{chosen}  {_KEYS}", self._width))]

    @property
    def _width(self) -> int:
        return self._application.output.get_size().columns

    @property
    def _height(self) -> int:
        return max(1, self._application.output.get_size().rows - 2)

    # -- keys --------------------------------------------------------------------------------------------------------

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        filtering = Condition(lambda: self._is_filtering)
        self._bind_commands(bindings, ~filtering)
        self._bind_filter(bindings, filtering)

        @bindings.add("c-c")
        def _(event: KeyPressEvent) -> None:
            event.app.exit()

        return bindings

    def _bind_commands(self, bindings: KeyBindings, usual: Filter) -> None:
        @bindings.add("q", filter=usual)
        def _(event: KeyPressEvent) -> None:
            event.app.exit()

        @bindings.add(" ", filter=usual)
        def _(event: KeyPressEvent) -> None:
            self._is_held = not self._is_held
            self._wakeup.set()

        @bindings.add("s", filter=usual)
        def _(event: KeyPressEvent) -> None:
            self._choice.spaces = _next(SPACE_ORDERS, self._choice.spaces)

        @bindings.add("f", filter=usual)
        def _(event: KeyPressEvent) -> None:
            self._choice.fibers = _next(FIBER_ORDERS, self._choice.fibers)

        @bindings.add("/", filter=usual)
        def _(event: KeyPressEvent) -> None:
            self._is_filtering = True

        for key, factor in (("+", 0.5), ("-", 2.0)):

            @bindings.add(key, filter=usual)
            def _(event: KeyPressEvent, factor: float = factor) -> None:
                self._interval = min(_SLOWEST, max(_FASTEST, self._interval * factor))
                self._wakeup.set()

        for key, lines in (("up", -1), ("down", 1), ("pageup", -20), ("pagedown", 20)):

            @bindings.add(key, filter=usual)
            def _(event: KeyPressEvent, lines: int = lines) -> None:
                self._top = max(0, self._top + lines)

    def _bind_filter(self, bindings: KeyBindings, filtering: Condition) -> None:
        @bindings.add("<any>", filter=filtering)
        def _(event: KeyPressEvent) -> None:
            if event.data.isprintable():
                self._choice.text += event.data

        @bindings.add("backspace", filter=filtering)
        def _(event: KeyPressEvent) -> None:
            self._choice.text = self._choice.text[:-1]

        @bindings.add("enter", filter=filtering)
        def _(event: KeyPressEvent) -> None:
            self._is_filtering = False

        @bindings.add("escape", filter=filtering)
        def _(event: KeyPressEvent) -> None:
            self._is_filtering, self._choice.text = False, ""


def _next(orders: tuple[str, ...], present: str) -> str:
    return orders[(orders.index(present) + 1) % len(orders)]
