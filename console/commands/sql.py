"""`lunabox sql DIR STATEMENT`: queries over the files of a directory, without a node."""

from __future__ import annotations

import argparse
import asyncio
import csv
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from box.errors import BoxError
from box.exit_status import INTERRUPTED
from console import streams

_EPILOG: Final = """\
The data is that of the newest snapshot and the log behind it. Nothing is written, and a node may run on the
directory. Changes are refused. Without STATEMENT it is read from standard input.

With --master Spark plans and runs the query, in its own dialect and on all cores: for large directories, and for those
whose tuples do not fit in memory. Its tables are the spaces by name.

exit codes: 0 fine, 1 the statement failed or the files cannot be read, 2 wrong command line

examples:
  lunabox sql data 'SELECT * FROM "goods" WHERE "price" < 3'
  lunabox sql data 'SELECT "name", COUNT(*) FROM "orders" GROUP BY "name"' --format csv > names.csv
  lunabox sql data 'SELECT name, count(*) FROM orders GROUP BY name' --master 'local[*]'
"""
_SLICE: Final = 1000
"""The number of rows that are formatted at once."""

Columns = Sequence[tuple[str, bool]]
"""Names of columns, and whether their values are numbers."""
Rows = Iterable[Sequence[Any]]


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    options = argparse.ArgumentParser(
        prog="lunabox sql",
        description="Run a query of SQL over the files of a directory, without a node.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("directory", metavar="DIR", help="directory with snapshots, or one .snap file")
    options.add_argument("statement", metavar="STATEMENT", nargs="?", help="one statement that returns rows")
    options.add_argument("--format", choices=tuple(_FORMATS), default="table", help="form of the rows")
    options.add_argument("--log", metavar="DIR", help="directory of the log files, if it is another one")
    options.add_argument("--skip-corrupt", action="store_true", help="leave damaged blocks out and report them")
    options.add_argument("--master", metavar="URL", help="run the query with Spark: local[*], spark://host:7077, ...")
    return options


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    try:
        options = parser().parse_intermixed_args(arguments)
    except SystemExit as end:
        return 2 if end.code else 0
    if options.statement is None:
        if sys.stdin.isatty():
            streams.complain("lunabox sql: STATEMENT is missing")
            return 2
        options.statement = sys.stdin.read()
    try:
        if options.master is not None:
            return _run_on_spark(options)
        return asyncio.run(_run_here(options))
    except BoxError as error:
        text = str(error).replace("run with 'force_recovery = true'", "run with --skip-corrupt")
        streams.complain("\n".join([f"lunabox sql: {text}", *getattr(error, "__notes__", ())]))
    except ModuleNotFoundError as error:
        if options.master is None or (error.name or "").partition(".")[0] in ("box", "console", "lua"):
            raise
        streams.complain(f"lunabox sql: {error.name} is not installed: pip install '.[spark]' in a clone of Lunabox")
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    return 1


async def _run_here(options: argparse.Namespace) -> int:
    from box.embed.files_node import FilesNode

    node = FilesNode(options.directory, log=options.log, warn=_warn, skips_corrupt=options.skip_corrupt)
    async with node:
        result = await node.execute(options.statement)
    if result.columns:
        columns = [(column.name, column.type in _NUMBERS) for column in result.columns]
        _FORMATS[options.format](columns, result)
    return 0


def _warn(text: str) -> None:
    streams.complain(f"lunabox sql: {text}")


def _run_on_spark(options: argparse.Namespace) -> int:
    from box.spark.directory_queries import Failed, run_query

    try:
        with run_query(
            options.directory,
            options.statement,
            master=options.master,
            log=options.log,
            skips_corrupt=options.skip_corrupt,
        ) as (columns, rows):
            _FORMATS[options.format](columns, rows)
    except Failed as error:
        streams.complain(f"lunabox sql: {error}")
        return 1
    return 0


# --- forms ------------------------------------------------------------------------------------------------------------

_NUMBERS: Final = frozenset(("unsigned", "integer", "number", "double", "decimal"))


def _write_table(columns: Columns, rows: Rows) -> None:
    from lua.text_console.text_table import RowGroup, render

    cells = tuple(tuple(None if value is None else _cell(value) for value in row) for row in rows)
    names, are_numbers = tuple(name for name, _ in columns), tuple(is_number for _, is_number in columns)
    streams.write(render([RowGroup(names, are_numbers, cells, len(cells))]))


def _cell(value: Any) -> str:
    if type(value) is str:
        return value
    text = _json(value)
    return text[1:-1] if text.startswith('"') else text


def _json(value: Any) -> str:
    from box.spark.values import to_json

    return to_json(value)


def _write_csv(columns: Columns, rows: Rows) -> None:
    """Write the names and the rows as CSV by RFC 4180; nil becomes an empty field."""
    pages = [[name for name, _ in columns]]
    for row in rows:
        pages.append(["" if value is None else _cell(value) for value in row])
        if len(pages) >= _SLICE:
            _write_lines(pages)
            pages = []
    _write_lines(pages)


def _write_lines(lines: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    streams.write(text.getvalue())


def _write_json(columns: Columns, rows: Rows) -> None:
    """Write a JSON object for each row, one a line, with a value for each column."""
    names = _distinct([name for name, _ in columns])
    lines: list[str] = []
    for row in rows:
        lines.append(_json(dict(zip(names, row, strict=True))))
        if len(lines) >= _SLICE:
            streams.write("\n".join(lines) + "\n")
            lines = []
    if lines:
        streams.write("\n".join(lines) + "\n")


def _distinct(names: list[str]) -> list[str]:
    """Return names without repetitions: a repeated name gets a number, because a JSON object has each name once."""
    found: list[str] = []
    for name in names:
        number, distinct = 1, name
        while distinct in found:
            number += 1
            distinct = f"{name}_{number}"
        found.append(distinct)
    return found


def _write_yaml(columns: Columns, rows: Rows) -> None:
    """Write the rows as a YAML list, in the format of the console."""
    names = _distinct([name for name, _ in columns])
    streams.write("---\n")
    empty = True
    for row in rows:
        empty = False
        pairs = (f"{_json(name)}: {_json(value)}" for name, value in zip(names, row, strict=True))
        streams.write(f"- {{{', '.join(pairs)}}}\n")
    streams.write("- []\n...\n" if empty else "...\n")


_FORMATS: Final[dict[str, Callable[[Columns, Rows], None]]] = {
    "table": _write_table,
    "csv": _write_csv,
    "json": _write_json,
    "yaml": _write_yaml,
}
