"""Options of the Spark source, stream and writer: the tables in the docstrings of the modules that check them."""

from __future__ import annotations

import ast
from pathlib import Path

_MODULES = {
    "source": "box/spark/source_options.py",
    "stream": "box/spark/stream/stream_options.py",
    "writer": "box/spark/write/write_options.py",
}
_ROOT = Path(__file__).parents[3]


def table(which: str) -> str:
    """Return the table of the source, the stream or the writer.

    Raises:
        KeyError: `which` is none of them.
    """
    # Parsed, not imported: the modules need pyarrow, which `make docs` does not install.
    text = ast.get_docstring(ast.parse((_ROOT / _MODULES[which]).read_text())) or ""
    lines = [_with_code(line) for line in text.splitlines() if line.startswith("|")]
    return "\n".join(lines)


def _with_code(line: str) -> str:
    """Return a row of the table with the names in its first cell set as code."""
    start, first, rest = line.split("|", 2)
    if first.strip(" -") in ("", "option"):
        return line
    names = ", ".join(f"`{name.strip()}`" for name in first.split(","))
    return f"{start}| {names} |{rest}"
