"""Records a terminal as text and as SVG: a console session, and `lunabox top` of a replica set.

python docs/record_console.py [DIRECTORY]    console-session.txt, console-session.svg, top.txt, top.svg
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from test.unit.console.emulator import LUNABOX, PROMPT, Emulator  # noqa: E402 - from this tree

COLUMNS, LINES = 92, 40
STATEMENTS = (
    "box.cfg{log = 'node.log'}",
    "s = box.schema.space.create('goods', {format = {{'id', 'unsigned'}, {'name', 'string'}}})",
    "_ = s:create_index('pk')",
    "\\set output table",
    "s:insert{1, 'pear'}, s:insert{2, 'crème brûlée'}",
    "s:insert{1, 'apple'}",
)
TYPED = "box.space.goods:in"
PORTS = ("3301", "3302", "3303")
MEMBER = """\
local port = arg[1]
box.cfg{
    listen = port, work_dir = port, log = 'node.log', read_only = port ~= '3301',
    replication = {'localhost:3301', 'localhost:3302', 'localhost:3303'},
}
if port == '3301' then
    box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
    local goods = box.schema.space.create('goods', {format = {'id', 'name'}})
    goods:create_index('pk')
    local orders = box.schema.space.create('orders', {is_sync = true})
    orders:create_index('pk')
    for i = 1, 2000 do goods:insert{i, 'name ' .. i} end
    require('fiber').create(function()
        require('fiber').name('writer')
        for i = 1, 1e9 do goods:replace{i, 'name'} require('fiber').sleep(0.01) end
    end)
end
"""
TOP_COLUMNS, TOP_LINES = 132, 40
COLOURS = {"default": "#d8d8d8", "red": "#ff6b6b", "green": "#7bd88f", "cyan": "#5ad4e6", "magenta": "#d99cf0"}
WIDTH, HEIGHT = 8.4, 18


def record(directory: Path) -> Emulator:
    """Return the terminal after the statements, with the menu of completions open."""
    terminal = Emulator(directory, columns=COLUMNS, lines=LINES)
    for statement in STATEMENTS:
        terminal.enter(statement)
    terminal.wait_prompt()
    terminal.type(TYPED)
    terminal.wait("add a tuple; an error if its key is taken")
    terminal.wait(lambda _: terminal.cursor_line.startswith(PROMPT + TYPED))
    return terminal


@contextmanager
def replica_set(directory: Path) -> Iterator[None]:
    """Run three instances, of which the first writes without end, within this context."""
    (directory / "member.lua").write_text(MEMBER)
    processes = []
    try:
        for port in PORTS:
            (directory / port).mkdir()
            processes.append(subprocess.Popen([*LUNABOX, "member.lua", port], cwd=directory, env=_environment()))
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=60)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def record_top(directory: Path) -> Emulator:
    """Return the terminal with the live view, once all replicas follow each other and the rates are known."""
    command = [*LUNABOX, "top", "--interval", "1", *(f"localhost:{port}" for port in PORTS)]
    terminal = Emulator(directory, command, columns=TOP_COLUMNS, lines=TOP_LINES)
    terminal.wait(lambda text: text.count("follow") >= 12 and "goods" in text and "writer" in text, seconds=120)
    terminal.wait(lambda text: "+" in text.partition("rows/s")[2].partition("fibers")[0], seconds=60)
    return terminal


def picture(terminal: Emulator) -> str:
    """Return the screen as an SVG picture: one text element for each run of cells with one colour."""
    columns = terminal.screen.columns
    lines = 1 + max(number for number, line in enumerate(terminal.screen.display) if line.strip())
    rows = []
    for number, line in enumerate(terminal.screen.display):
        if not line.strip():
            continue
        cells = terminal.screen.buffer[number]
        runs: list[tuple[int, str, str]] = []
        for column in range(columns):
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
    size = f'width="{columns * WIDTH + 24:.0f}" height="{lines * HEIGHT + 24}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="14">'
    return "\n".join([head, '<rect width="100%" height="100%" rx="8" fill="#1c1c1c"/>', *rows, "</svg>", ""])


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="lb-") as directory:
        keep(record(Path(directory)), target, "console-session")
    with tempfile.TemporaryDirectory(prefix="lb-") as directory, replica_set(Path(directory)):
        keep(record_top(Path(directory)), target, "top")


def keep(terminal: Emulator, target: Path, name: str) -> None:
    """Write a recording as text and as a picture, and close the terminal."""
    try:
        (target / f"{name}.txt").write_text(terminal.text + "\n", encoding="utf-8")
        (target / f"{name}.svg").write_text(picture(terminal), encoding="utf-8")
    finally:
        terminal.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
