"""The command `lunabox-cat FILE...`: prints the rows of .snap and .xlog files as YAML, JSON lines or a table."""

from __future__ import annotations

import argparse
import datetime
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TextIO

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode
from box.exit_status import INTERRUPTED, after_closed_pipe, after_lost_output
from box.journal.rows import decode_rows
from box.journal.xlog_errors import XlogError
from box.spark.blocks import BlockFile
from box.spark.definitions import SPACE_ID, USER_SPACES, Definitions
from box.spark.paths import snapshots_in
from box.spark.snapshot import read_definitions
from box.spark.values import to_json
from box.version import VERSION
from box.wire.change import decode_row
from box.wire.constants import DML_TYPES, KEY_NAMES, Key, RaftKey, RequestType
from box.wire.row import Row


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lunabox-cat", description="Print the rows of snapshots and logs; a log may be one that a node writes."
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help=".snap or .xlog file, or its URL")
    parser.add_argument(
        "--format", choices=tuple(_FORMATS), default="yaml", help="how a row is printed (default: %(default)s)"
    )
    parser.add_argument(
        "--space", action="append", metavar="NAME|ID", help="print only rows of this space; may be repeated"
    )
    parser.add_argument("--show-system", action="store_true", help="print rows of system spaces, too")
    parser.add_argument(
        "--from", dest="first", type=int, default=0, metavar="LSN", help="print only rows from this LSN on"
    )
    parser.add_argument("--to", dest="last", type=int, metavar="LSN", help="print only rows up to this LSN")
    parser.add_argument(
        "--replica", action="append", type=int, metavar="ID", help="print only rows of this replica; may be repeated"
    )
    parser.add_argument(
        "--operation",
        action="append",
        metavar="NAME",
        type=_operation,
        help="print only this operation: insert, delete, ...; may be repeated",
    )
    parser.add_argument("--skip-corrupt", action="store_true", help="leave damaged blocks out and report them")
    parser.add_argument(
        "--version", action="version", version=f"{parser.prog} {VERSION}", help="print the version and exit"
    )
    return parser


def _operation(name: str) -> int:
    try:
        return int(RequestType[name.upper()])
    except KeyError:
        known = ", ".join(kind.name.lower() for kind in sorted(DML_TYPES)[1:])
        raise argparse.ArgumentTypeError(f"'{name}' is none of: {known}, confirm, rollback, promote, raft") from None


@dataclass(slots=True)
class PrintedRow:
    """A row with the id of its space (-1 for none) and the name of the space ("" if it is unknown)."""

    row: Row
    space_id: int
    space: str


class RowChoice:
    """The filter for rows that the options of the command line describe."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args

    def passes(self, item: PrintedRow) -> bool:
        """Return whether the options select this row."""
        args, row = self._args, item.row
        if row.lsn < args.first or (args.last is not None and row.lsn > args.last):
            return False
        if args.replica is not None and row.replica_id not in args.replica:
            return False
        if args.operation is not None and row.type not in args.operation:
            return False
        if args.space is not None:
            return item.space_id >= 0 and (item.space in args.space or str(item.space_id) in args.space)
        return bool(args.show_system) or not 0 <= item.space_id < USER_SPACES


def rows_of(path: str, *, skips_corrupt: bool = False) -> Iterator[PrintedRow]:
    """Return all rows of a file with the names of their spaces.

    The names come from the rows of `_space` in the file and, for a log file, from the newest snapshot before it in the
    same directory, if there is one.

    Raises:
        XlogError: a block cannot be read and `skips_corrupt` is false, or a snapshot is cut off.
        BoxError: SYSTEM, the file cannot be opened.
    """
    with BlockFile(path, file_type=None, is_open=True, on_skip=_report if skips_corrupt else None) as file:
        names = _names_before(file)
        for block in file.blocks(file.data):
            try:
                rows = decode_rows(block.rows)
            except XlogError as error:
                if not skips_corrupt:
                    raise XlogError(f"{path}: {error.message} in the block at {block.position}") from None
                _report(path, block.position, 0, error.message)
                continue
            for row in rows:
                yield _printed(row, names)
        if file.is_cut_off and file.meta.file_type == "SNAP":
            raise XlogError(f"{path}: no EOF marker at {file.size}: the file is cut off or still being written")


def _report(path: str, position: int, size: int, reason: str) -> None:
    print(f"lunabox-cat: {path}: skipped the block at {position}: {reason}", file=sys.stderr)


def _names_before(file: BlockFile) -> dict[int, str]:
    """Return the names of the spaces before the first row of the file, by id."""
    if file.meta.file_type == "SNAP":
        return {}
    directory = file.path.rpartition("/")[0] or "."
    definitions = Definitions()
    try:
        for path in reversed(snapshots_in(directory)):
            with BlockFile(path) as snapshot:
                if file.meta.vclock.covers(snapshot.meta.vclock):
                    definitions = read_definitions(snapshot)
                    break
    except BoxError:
        pass  # Names are a convenience: without a snapshot, rows are shown with the ids of their spaces.
    return {space.id: space.name for space in definitions.spaces()}


def _printed(row: Row, names: dict[int, str]) -> PrintedRow:
    if row.type not in DML_TYPES or not row.body:
        return PrintedRow(row, -1, "")
    try:
        space_id, request = decode_row(row)
        if space_id == SPACE_ID and request.tuple:
            fields = unpack(request.tuple)
            names[fields[0]] = str(fields[2])
    except (BoxError, IndexError):
        return PrintedRow(row, -1, "")
    return PrintedRow(row, space_id, names.get(space_id, ""))


# --- forms ------------------------------------------------------------------------------------------------------------


def _header(row: Row) -> dict[str, Any]:
    """Return the fields of the header by name, without those that are zero."""
    values = {"lsn": row.lsn, "replica_id": row.replica_id, "type": _type_name(row.type), "timestamp": row.tm}
    values |= {"group_id": row.group_id, "flags": row.flags}
    values["tsn"] = row.tsn if row.tsn != row.lsn else 0
    return {name: value for name, value in values.items() if value}


def _type_name(row_type: int) -> str:
    try:
        return RequestType(row_type).name
    except ValueError:
        return str(row_type)


def _body(item: PrintedRow) -> dict[str, Any]:
    """Return the fields of the body by name; a body that is not a map is returned as bytes."""
    row = item.row
    try:
        values = unpack(row.body) if row.body else {}
    except BoxError:
        values = None
    if not isinstance(values, dict):
        return {"bytes": row.body}
    names = {int(key): key.name.lower() for key in RaftKey} if row.type == RequestType.RAFT else _BODY_NAMES
    body = {names.get(key, str(key)): value for key, value in values.items()}
    return ({"space": item.space} if item.space else {}) | body


_BODY_NAMES: Final = {key: name.replace(" ", "_") for key, name in KEY_NAMES.items()}


def _yaml(item: PrintedRow) -> str:
    lines = ["---", "HEADER:", *(f"  {name}: {to_json(value)}" for name, value in _header(item.row).items())]
    body = _body(item)
    if body:
        lines += ["BODY:", *(f"  {name}: {to_json(value)}" for name, value in body.items())]
    return "\n".join([*lines, "..."])


def _json(item: PrintedRow) -> str:
    return to_json({"HEADER": _header(item.row), "BODY": _body(item)})


def _table(item: PrintedRow) -> str:
    row = item.row
    time = datetime.datetime.fromtimestamp(row.tm, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    body = _body(item)
    hidden = ("space", _BODY_NAMES[Key.SPACE_ID])
    rest = " ".join(f"{name}={to_json(value)}" for name, value in body.items() if name not in hidden)
    space = item.space or (str(item.space_id) if item.space_id >= 0 else "-")
    return f"{row.lsn:>10} {row.replica_id:>3} {time} {_type_name(row.type):<8} {space:<16} {rest}"


_FORMATS: Final[dict[str, Callable[[PrintedRow], str]]] = {"yaml": _yaml, "json": _json, "table": _table}
_HEADING: Final = f"{'lsn':>10} {'id':>3} {'time':<24} {'type':<8} {'space':<16} body"


def print_rows(args: argparse.Namespace, out: TextIO) -> None:
    """Print the rows of all files that the options select.

    Raises:
        BoxError: a file cannot be read.
    """
    chosen, form = RowChoice(args), _FORMATS[args.format]
    if args.format == "table":
        print(_HEADING, file=out)
    unseen = set(args.space or ())
    for path in args.files:
        if os.path.isdir(path):
            pattern = os.path.join(path, "*.snap")
            raise BoxError(ErrorCode.SYSTEM, f"{path} is a directory: name files in it, such as {pattern}")
        for item in rows_of(path, skips_corrupt=args.skip_corrupt):
            if unseen:
                unseen -= {item.space, str(item.space_id)}
            if chosen.passes(item):
                print(form(item), file=out)
    out.flush()
    for name in sorted(unseen):
        hint = "" if name.isdigit() else "; a log alone has ids only, a snapshot beside it has the names of spaces"
        print(f"lunabox-cat: no row of a space {name!r}{hint}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code: 0, or 1 after an error message on standard error."""
    args = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Text that is not UTF-8 is shown as \udcXX, an escape that JSON and YAML can read.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print_rows(args, sys.stdout)
    except BoxError as error:
        sys.stdout.flush()
        print(f"lunabox-cat: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return after_closed_pipe()
    except OSError as error:
        return after_lost_output("lunabox-cat", error)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
