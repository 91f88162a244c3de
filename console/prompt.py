"""The interactive session's terminal: prompt-toolkit on a tty, plain lines elsewhere.

Enter ends the statement if it is complete and opens another line if not; pasted statements run one after the other.
Ctrl-C drops the input, Ctrl-D on an empty input ends the session. The parts are in `console.interactive`.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TextIO, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app_session
from prompt_toolkit.auto_suggest import ConditionalAutoSuggest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, completion_is_selected, emacs_mode, is_searching, vi_navigation_mode
from prompt_toolkit.history import History
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.processors import HighlightMatchingBracketProcessor
from prompt_toolkit.lexers import DynamicLexer, Lexer
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.patch_stdout import patch_stdout

from console import streams
from console.interactive.completer import Ask, StatementCompleter
from console.interactive.helpbar import HelpBar
from console.interactive.pasted import PastedStatements
from console.interactive.printer import is_dumb, is_error, terminal_size
from console.interactive.progress_line import Progress, ProgressLine
from console.interactive.session_terminal import Interrupts, SessionTerminal
from console.interactive.settings import TerminalSettings, load
from console.interactive.statement_history import SuggestedFromHistory, default_history
from console.interactive.styles import style_of
from console.interactive.tab import bind_tab
from console.plain_terminal import PlainTerminal
from console.syntax import Syntax
from console.terminal import Terminal
from console.terminal_stream import own_stream
from lua.standard_output import OUTPUT
from lua.text_console.text_table import UNICODE

_MENU_LINES = 8  # lines that are kept free below the statement, so that a menu opens without moving it


class PromptTerminal(SessionTerminal):
    """A session terminal on a tty.

    `ask` questions the node; `source` and `sink` replace the process's streams, for tests.
    """

    def __init__(
        self,
        ask: Ask,
        history: History | None = None,
        *,
        settings: TerminalSettings | None = None,
        interrupts: Interrupts | None = None,
        progress: Progress | None = None,
        source: Input | None = None,
        sink: Output | None = None,
    ) -> None:
        super().__init__(settings, interrupts, ask)
        self._completer = StatementCompleter(ask)
        self._bar = HelpBar(ask, self._redraw)
        self._progress = ProgressLine(progress or (lambda: None), self._redraw)
        self._pasted = PastedStatements(self._remember)
        self._session: PromptSession[str] = PromptSession(
            history=history or default_history(),
            lexer=DynamicLexer(self._lexer),
            key_bindings=self._bindings(),
            multiline=True,
            prompt_continuation=lambda width, _line, _wraps: " " * width,
            auto_suggest=ConditionalAutoSuggest(SuggestedFromHistory(), Condition(lambda: self.settings.suggestions)),
            input_processors=[HighlightMatchingBracketProcessor()],
            include_default_pygments_style=False,
            tempfile_suffix=".lua",
            input=source or _own_terminal(),
            output=sink or _own_output(),
        )
        self._session.app.before_render += lambda _: self._fit_menu()
        buffer = self._session.default_buffer
        buffer.on_text_changed += self._on_change
        buffer.on_cursor_position_changed += self._on_change
        self._apply()

    async def read(self, prompt: str, *, delimiter: str, language: str, completion: bool) -> str | None:
        """Read one statement; None after Ctrl-D and without a terminal."""
        self._delimiter, self._language = delimiter, language
        self._completer.language = language
        await self._progress.stop()
        if self._interrupts is not None:
            self._interrupts.release()
        while True:
            text = self._pasted.next(prompt) or await self._read_line(prompt, completion)
            self._bar.forget()
            if text is None or self._leaves(text):
                return None
            if not await self.commands.take(text):
                break
        if self._interrupts is not None:
            self._interrupts.capture(self._abandon)
        self._progress.start()
        return text

    async def _read_line(self, prompt: str, completion: bool) -> str | None:
        chosen = self.settings.completion
        while True:
            try:
                with patch_stdout(raw=True), self._progress.below_prompt():
                    text: str = await self._session.prompt_async(
                        [("class:prompt", f"{prompt}> ")],
                        completer=self._completer if completion and chosen != "off" else None,
                        complete_while_typing=chosen == "typing",
                        handle_sigint=False,  # keeps the program's own handler
                    )
                    return text
            except KeyboardInterrupt:
                continue
            except (EOFError, OSError):  # Ctrl-D, or the terminal is gone
                return None

    def answer(self, text: str) -> None:
        super().answer(text)
        if is_error(text) and "interrupted" in text:
            self._pasted.clear()

    def _abandon(self) -> None:
        """Drop the rest of the answer and the pasted statements after it, for Ctrl-C while no statement runs."""
        self.printer.abandon()
        self._pasted.clear()

    # -- details -----------------------------------------------------------------------------------------------------

    def _erase(self) -> None:
        self._progress.erase()

    def _remember(self, statement: str) -> None:
        self._session.history.append_string(statement)

    def _apply(self) -> None:
        session = self._session
        session.style = style_of(self.settings.style)
        session.editing_mode = EditingMode.VI if self.settings.editing == "vi" else EditingMode.EMACS
        if self.settings.style == "mono":
            session.color_depth = ColorDepth.DEPTH_1_BIT
        else:
            session.color_depth = None

    def _lexer(self) -> Lexer | None:
        """Return the lexer of the language, or None for a backslash command.

        Without text it is None as well, so that the prompt does not wait for the import of a lexer.
        """
        text = self._session.default_buffer.text
        if not text or text.startswith("\\"):
            return None
        return _sql_lexer() if self._language == "sql" else _lua_lexer()

    def _fit_menu(self) -> None:
        """Limit the menu to the lines that a low terminal has beside the statement and the bar."""
        self._session.reserve_space_for_menu = max(0, min(_MENU_LINES, terminal_size()[1] - 2))

    def _on_change(self, buffer: Buffer) -> None:
        if not buffer.text:
            self._pasted.forget_note()
        if self.settings.help and self._language == "lua" and self._session.app.is_running:
            self._bar.update(buffer.document.text_before_cursor)

    def _redraw(self) -> None:
        """Redraw the bar, or remove it if it has nothing to show."""
        line = self._progress.shown() or (self._bar.shown(terminal_size()[0]) if self.settings.help else None)
        self._session.bottom_toolbar = line
        if self._session.app.is_running:
            self._session.app.invalidate()

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        bind_tab(bindings)

        @bindings.add("enter", filter=~completion_is_selected & ~is_searching)
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            first = self._pasted.first(buffer.text, self._is_complete)
            if first is not None:
                buffer.document = Document(first)
                buffer.validate_and_handle()
            elif self._is_complete(buffer.text):
                buffer.validate_and_handle()
            else:
                buffer.newline()

        @bindings.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            event.current_buffer.insert_text(text)
            self._pasted.note(text)

        @bindings.add("enter", filter=completion_is_selected)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.complete_state = None

        @bindings.add("c-x", "c-e", filter=emacs_mode)
        @bindings.add("v", filter=vi_navigation_mode)
        def _(event: KeyPressEvent) -> None:
            self._open_editor(event.current_buffer)

        return bindings

    def _open_editor(self, buffer: Buffer) -> None:
        """Open $VISUAL or $EDITOR on the statement; Ctrl-C is for the editor meanwhile."""
        if self._interrupts is not None:
            self._interrupts.capture(lambda: None)
        self._hold(True)

        def closed(_task: object) -> None:
            self._hold(False)
            if self._interrupts is not None:
                self._interrupts.release()

        buffer.open_in_editor().add_done_callback(closed)


@cache
def _lua_lexer() -> Lexer:
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.scripting import LuaLexer

    return PygmentsLexer(LuaLexer)


@cache
def _sql_lexer() -> Lexer:
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    return PygmentsLexer(SqlLexer)


def _own_terminal() -> Input | None:
    """Open the terminal of standard input with status flags of its own; None if the terminal's file is out of reach.

    The event loop makes its input non-blocking, and standard input and output of a terminal usually share their flags.
    Output that does not fit the terminal's buffer would then be lost.
    """
    try:
        descriptor = os.open(os.ttyname(sys.stdin.fileno()), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    return create_input(open(descriptor))  # stays open as long as the session


def _own_output() -> Output | None:
    """Open the terminal of standard output, drawn by a thread; None if there is none."""
    stream = own_stream()
    if stream is None:
        return None
    output = create_output(stdout=cast(TextIO, stream))
    # Output above the prompt uses it too. `create_app_session` would set it for one context only, but a prompt runs in
    # several.
    get_app_session()._output = output
    return output


class LineTerminal:
    """A terminal for standard input that is not a tty: it reads statements of as many lines as they need. With
    `echoes` it shows prompts and the lines behind them, as Tarantool does.
    """

    def __init__(self, *, echoes: bool = False) -> None:
        self._lines = streams.InputLines()
        self._syntax = Syntax()
        self._echoes = echoes

    async def read(self, prompt: str, *, delimiter: str, language: str, completion: bool) -> str | None:
        """Read one statement; None at the end of the input. If lines are echoed, an unfinished statement at the end is
        dropped, as in Tarantool.
        """
        text: str = ""
        shown = prompt
        while True:
            self._echo(f"{shown}> ")
            line = await self._lines.next()
            if not line:
                return None if self._echoes else text or None
            text += line.rstrip("\n")
            self._echo(line.rstrip("\n") + "\n")
            if self._syntax.is_complete(text, delimiter=delimiter, language=language):
                return text
            text += "\n"
            shown = " " * len(prompt)

    def _echo(self, text: str) -> None:
        if self._echoes:
            streams.write(text)

    def write(self, text: str) -> None:
        """Print text that a statement pushes."""
        streams.write(text)

    def answer(self, text: str) -> None:
        """Print an answer."""
        streams.write(text)

    def is_quick(self, text: str) -> bool:
        """Return whether `answer` returns without waiting."""
        return OUTPUT.takes_at_once(len(text))

    def failed(self, stack: str, position: str) -> None:
        """Do nothing: only the interactive terminal offers the stack of an error."""

    name = "tarantool"
    output = "yaml"
    compiles = True  # true, so that Ctrl-C ends a program without a terminal
    table_rows = 0
    table_width = 0
    table_lines = UNICODE


def open_terminal(ask: Ask, interrupts: Interrupts | None = None, progress: Progress | None = None) -> Terminal:
    """Open the process's terminal, and print what is wrong with the user's settings file."""
    if not sys.stdin.isatty():
        return LineTerminal(echoes=True)
    settings, problems = load()
    for problem in problems:
        streams.complain(problem)
    return typed_terminal(ask, settings, interrupts, progress)


def typed_terminal(
    ask: Ask, settings: TerminalSettings, interrupts: Interrupts | None, progress: Progress | None = None
) -> PromptTerminal | PlainTerminal:
    """Return the terminal for a person, as good as the device allows."""
    if is_dumb():
        return PlainTerminal(ask, settings, interrupts)
    return PromptTerminal(ask, settings=settings, interrupts=interrupts, progress=progress)
