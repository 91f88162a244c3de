"""Recording of a console session as it is seen on a terminal: console-session.txt and console-session.svg.

python docs/record_console.py [DIRECTORY]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from test.unit.console.emulator import PROMPT, Emulator  # noqa: E402 - from this tree

COLUMNS, LINES = 92, 40
STATEMENTS = (
    "box.cfg{log = 'node.log'}",
    "s = box.schema.space.create('goods', {format = {{'id', 'unsigned'}, {'name', 'string'}}})",
    "_ = s:create_index('pk')",
    "\\set output table",
    "s:insert{1, 'pear'}, s:insert{2, '日本語'}",
    "s:insert{1, 'apple'}",
)
TYPED = "box.space.goods:in"
COLOURS = {"default": "#d8d8d8", "red": "#ff6b6b", "green": "#7bd88f", "cyan": "#5ad4e6", "magenta": "#d99cf0"}
WIDTH, HEIGHT = 8.4, 18


def record(directory: Path) -> Emulator:
    """The terminal after the statements, with the menu of completions open."""
    terminal = Emulator(directory, columns=COLUMNS, lines=LINES)
    for statement in STATEMENTS:
        terminal.enter(statement)
    terminal.wait_prompt()
    terminal.type(TYPED)
    terminal.wait("add a tuple; an error if its key is taken")
    terminal.wait(lambda _: terminal.cursor_line.startswith(PROMPT + TYPED))
    return terminal


def picture(terminal: Emulator) -> str:
    """The screen as SVG."""
    rows = []
    for number, line in enumerate(terminal.screen.display):
        if not line.strip():
            continue
        cells = terminal.screen.buffer[number]
        runs: list[tuple[int, str, str]] = []
        for column in range(COLUMNS):
            cell = cells[column]
            colour = COLOURS.get(cell.fg, "#9a9a9a" if cell.fg != "default" else COLOURS["default"])
            if runs and runs[-1][2] == colour and runs[-1][0] + len(runs[-1][1]) == column:
                runs[-1] = (runs[-1][0], runs[-1][1] + (cell.data or " "), colour)
            else:
                runs.append((column, cell.data or " ", colour))
        rows += [
            f'<text x="{12 + column * WIDTH:.1f}" y="{26 + number * HEIGHT}" fill="{colour}" '
            f'xml:space="preserve">{escape(text.rstrip())}</text>'
            for column, text, colour in runs
            if text.strip()
        ]
    size = f'width="{COLUMNS * WIDTH + 24:.0f}" height="{LINES * HEIGHT + 24}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="14">'
    return "\n".join([head, '<rect width="100%" height="100%" rx="8" fill="#1c1c1c"/>', *rows, "</svg>", ""])


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="lb-") as directory:
        terminal = record(Path(directory))
        try:
            (target / "console-session.txt").write_text(terminal.text + "\n", encoding="utf-8")
            (target / "console-session.svg").write_text(picture(terminal), encoding="utf-8")
        finally:
            terminal.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
