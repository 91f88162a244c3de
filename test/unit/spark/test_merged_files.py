"""Snapshots and logs made by hand: a table equals the tuples after all changes, in every way of merging."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from box.data.codec import pack, unpack
from box.data.format import FieldDef, TupleFormat
from box.data.types import FieldType
from box.data.update import apply_update, apply_upsert
from box.journal.rows import encode_header
from box.journal.xlog import EOF_MARKER, BlockEncoder, Meta
from box.spark import change_runs
from box.spark.definitions import SPACE_ID, TRUNCATE_ID, index_of
from box.spark.reference import ReferenceDecoder
from box.wire.change import Request, decode_change
from box.wire.constants import Flag, RequestType
from box.wire.row import Row
from box.wire.vclock import VClock

from .files import GOODS, arrow_schema, write
from .test_as_of import decoders, open_table, rows_of

INSTANCE = UUID(int=7)
START = VClock({1: 7})
STAMP = b"\x04\xcb" + bytes(8)

TYPES = ["unsigned", "integer", "string", "varbinary", "uuid", "number", "scalar", "collated"]


def made_key(kind: str, number: int) -> Any:
    """Make a key part from a small number; some texts are beginnings of others, or contain zeros."""
    texts = ["", "a", "a\0", "a\0b", "ab", "\0", "\u00e9", "b" * 300]
    match kind:
        case "unsigned":
            return number if number % 3 else 2**64 - 1 - number
        case "integer":
            return (number - 8) * (2**40 if number % 2 else 1) if number else 2**63
        case "string" | "collated":
            return texts[number % 8] + str(number // 8) * (number // 8)
        case "varbinary":
            return made_key("string", number).encode()
        case "uuid":
            return UUID(int=number * 2**120 + 3)
        case "number":
            return [int, float, Decimal][number % 3](number // 3)
        case _:
            return [number, str(number), number / 4, bool(number % 2), b"%d" % number][number % 5]


class Files:
    """The content of files: a primary key of one or two parts, tuples, and changes in transactions."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.types = [draw.choice(TYPES) for _ in range(draw.choice([1, 1, 2]))]
        self.is_tree = draw.random() < 0.8
        kinds = [{"collated": "string"}.get(kind, kind) for kind in self.types]
        self.format: list[dict[str, Any]] = [{"name": "n", "type": "unsigned"}]
        self.format += [{"name": f"k{place}", "type": kind} for place, kind in enumerate(kinds)]
        parts = [{"field": place, "type": kind} for place, kind in enumerate(kinds, 1)]
        for part, kind in zip(parts, self.types, strict=True):
            if kind == "collated":
                part["collation"] = 2  # unicode_ci
        if draw.random() < 0.5:
            parts.reverse()
        self.index: list[Any] = [GOODS, 0, "pk", "tree" if self.is_tree else "hash", {"unique": True}, parts]
        self.keys = index_of(self.index).key_def()
        self.range = draw.choice([3, 12, 40, 120])
        self.changes_schema = draw.random() < 0.4

    def fields(self) -> list[Any]:
        return [self.draw.randrange(100), *(made_key(kind, self.draw.randrange(self.range)) for kind in self.types)]

    def tuples(self) -> list[list[Any]]:
        found = {self.keys.extract(fields): fields for fields in (self.fields() for _ in range(self.range))}
        order = sorted(found) if self.is_tree else self.draw.sample(list(found), len(found))
        return [found[key] for key in order]

    def key_of(self, fields: list[Any]) -> list[Any]:
        return [fields[part["field"]] for part in self.index[5]]

    def change(self) -> tuple[int, Request]:
        """Generate a space and a change of it."""
        fields = self.fields()
        name = self.format[0]["name"]
        operations = [[self.draw.choice("+="), self.draw.choice([0, name]), self.draw.randrange(5)]]
        dice = self.draw.random()
        if dice < 0.25:
            return GOODS, Request.replace(pack(fields))
        if dice < 0.35:
            return GOODS, Request.delete(self.key_of(fields))
        if dice < 0.6:
            return GOODS, Request.update(self.key_of(fields), operations, index_base=0)
        if dice < 0.9:
            if self.draw.random() < 0.2:  # would move the tuple, and so does nothing
                operations.append(["=", 1, self.fields()[1]])
            return GOODS, Request.upsert(pack(fields), operations, index_base=0)
        if dice < 0.94 or not self.changes_schema:
            return GOODS - 1, Request.replace(pack([self.draw.randrange(9)]))
        if dice < 0.98:
            self.format[0] = {"name": self.draw.choice(["n", "m", "o"]), "type": "unsigned"}
            return SPACE_ID, Request.replace(pack([GOODS, 1, "goods", "memtx", 0, {}, self.format]))
        return TRUNCATE_ID, Request.replace(pack([GOODS, self.draw.randrange(9)]))

    def transactions(self, count: int) -> list[list[Row]]:
        """Generate transactions of several instances, each row with its request."""
        clock = START.copy()
        found = []
        for _ in range(count):
            replica_id = self.draw.choice([1, 1, 2, 3])
            rows: list[Row] = []
            for _ in range(self.draw.choice([1, 1, 1, 4])):
                clock[replica_id] += 1
                space_id, request = self.change()
                row = Row(request.type, replica_id, clock[replica_id], tsn=rows[0].lsn if rows else clock[replica_id])
                row.body, row.is_commit = request.body(space_id), False
                rows.append(row)
            rows[-1].is_commit = True
            if self.draw.random() < 0.03:
                rows[-1].flags = int(Flag.WAIT_SYNC | Flag.WAIT_ACK)
            found.append(rows)
        return found


def write_log(directory: Path, transactions: Sequence[Sequence[Row]], draw: random.Random) -> None:
    """Write log files of a few transactions each, in small blocks."""
    files = [transactions]
    if len(transactions) > 3:
        middle = draw.randrange(1, len(transactions))
        files = [transactions[:middle], transactions[middle:]]
    clock, before = START.copy(), None
    for some in files:
        with (directory / f"{clock.signature:020d}.xlog").open("wb") as file:
            file.write(Meta("XLOG", INSTANCE, clock.copy(), before).encode())
            before = clock.copy()
            encoder = BlockEncoder()
            block = b""
            for rows in some:
                for row in rows:
                    block += encode_header(row, STAMP) + row.body
                    clock[row.replica_id] = row.lsn
                if draw.random() < 0.4:
                    file.write(encoder.encode(block))
                    block = b""
            if block:
                file.write(encoder.encode(block))
            file.write(EOF_MARKER)


def outcome(files: Files, tuples: Sequence[list[Any]], transactions: Sequence[Sequence[Row]]) -> list[bytes]:
    """Return the tuples after applying the rows one by one."""
    keys = files.keys
    found = {keys.extract(fields): pack(fields) for fields in tuples}
    fmt = TupleFormat([FieldDef("n", FieldType.UNSIGNED, True)])
    for row in (row for rows in transactions for row in rows):
        space_id, request = decode_change(row.type, row.body)
        if space_id == TRUNCATE_ID:
            found.clear()
        elif space_id == SPACE_ID:
            fmt = TupleFormat([FieldDef(unpack(request.tuple)[6][0]["name"], FieldType.UNSIGNED, True)])
        elif space_id == GOODS:
            key = keys.extract(unpack(request.tuple)) if request.tuple else keys.parse(request.key)
            old = found.pop(key, None)
            new = changed(request, old, fmt)
            if new is not None:
                found[key] = new if keys.extract(unpack(new)) == key or old is None else old
    return list(found.values())


def changed(request: Request, old: bytes | None, fmt: TupleFormat) -> bytes | None:
    if request.type == RequestType.DELETE:
        return None
    if request.type == RequestType.UPDATE:
        return None if old is None else apply_update(old, request.ops, fmt=fmt, index_base=0)
    if request.type == RequestType.UPSERT and old is not None:
        return apply_upsert(old, request.ops, fmt=fmt, index_base=0)
    return request.tuple


def cut_at(files: Files, transactions: Sequence[Sequence[Row]]) -> tuple[str, list[Sequence[Row]]]:
    """Generate a moment, with the transactions up to it."""
    draw = files.draw
    waiting = next((n for n, rows in enumerate(transactions) if rows[-1].flags), len(transactions))
    if draw.random() < 0.4:
        return "latest", list(transactions[:waiting])
    clock = START.copy()
    count = draw.randrange(len(transactions) + 1)
    for rows in transactions[:count]:
        clock[rows[-1].replica_id] = rows[-1].lsn
    counting = list(transactions[: min(count, waiting)])
    if draw.random() < 0.5:
        return str(clock.signature), counting
    if not files.changes_schema and waiting == len(transactions):
        for replica_id in (1, 2, 3):  # each one's history up to another place
            ends = [rows[-1].lsn for rows in transactions if rows[-1].replica_id == replica_id]
            clock[replica_id] = max(START[replica_id], draw.choice([0, *ends]))
        counting = [rows for rows in transactions if rows[-1].lsn <= clock[rows[-1].replica_id]]
    return str(clock), counting


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks, shares and batches small."""
    monkeypatch.setattr("box.journal.snapshot.BLOCK_SIZE", 200)
    monkeypatch.setattr("box.spark.blocks._WINDOW", 1 << 12)
    monkeypatch.setattr("box.spark.table._BYTES_A_SHARE", 1 << 9)
    monkeypatch.setattr("box.spark.snapshot._PIECE_MIN", 1 << 8)
    monkeypatch.setattr("box.spark.decoder._BATCH_BYTES", 1 << 9)


@pytest.mark.usefixtures("small")
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_a_table_is_what_the_changes_make_of_the_tuples(seed: int, is_spilled: bool) -> None:
    draw = random.Random(seed)
    files = Files(draw)
    tuples = files.tuples()
    columns = [dict(field) for field in files.format]
    transactions = files.transactions(draw.choice([0, 3, 30, 150]))
    moment, counting = cut_at(files, transactions)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        if is_spilled:
            patch.setattr(change_runs, "BUDGET", 300)
            patch.setattr(change_runs, "_PIECE_BYTES", 200)
            patch.setattr(change_runs, "_ROWS_HELD", 8)
            patch.setattr(change_runs, "_RUNS_A_LEVEL", 3)
        directory = Path(name)
        write(directory, tuples, START.signature, columns, indexes=[files.index], around=20, instance=INSTANCE)
        write_log(directory, transactions, draw)
        expected = outcome(files, tuples, counting)
        for decoder in decoders():
            table = open_table(
                directory, as_of=moment, decoder=decoder, partitions=draw.choice("159"), unsigned="decimal"
            )
            reference = ReferenceDecoder(GOODS, table.columns, arrow_schema(table.columns), ())
            wanted = [tuple(row.values()) for row in reference.raw_batch(expected).to_pylist()]
            assert sorted(rows_of(table), key=repr) == sorted(wanted, key=repr), (decoder, moment)
