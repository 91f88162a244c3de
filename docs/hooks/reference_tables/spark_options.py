"""Options of the Spark source, stream and writer: the tables in the docstrings of the modules that check them."""

from __future__ import annotations

from importlib import import_module

_MODULES = {
    "source": "box.spark.source_options",
    "stream": "box.spark.stream.stream_options",
    "writer": "box.spark.write.write_options",
}


def table(which: str) -> str:
    """The table of one of them. KeyError for another."""
    text = import_module(_MODULES[which]).__doc__ or ""
    lines = [_with_code(line) for line in text.splitlines() if line.startswith("|")]
    return "\n".join(lines)


def _with_code(line: str) -> str:
    """The names in the first cell as code."""
    start, first, rest = line.split("|", 2)
    if first.strip(" -") in ("", "option"):
        return line
    names = ", ".join(f"`{name.strip()}`" for name in first.split(","))
    return f"{start}| {names} |{rest}"
