"""Statements of SQL in a transaction: with and without a `TransactionWriter` they leave the same behind."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from box.data.codec import unpack
from box.errors import BoxError
from box.instance.node import Instance
from box.journal.directory import LogDirectory, LogKind
from box.journal.reader import LogReader
from box.journal.storage import MemoryStorage
from box.txn.dml import Dml
from box.txn.transaction_writes import TransactionWriter
from box.wire.vclock import VClock

_TABLES = (
    "CREATE TABLE one (id INT PRIMARY KEY, name TEXT, price NUMBER NOT NULL)",
    "CREATE TABLE two (a TEXT, id INT, n NUMBER NOT NULL, PRIMARY KEY (id, a))",
    "CREATE INDEX two_n ON two (n)",
    "CREATE TABLE three (id INT PRIMARY KEY, code TEXT UNIQUE)",
    "CREATE TABLE four (id INTEGER PRIMARY KEY AUTOINCREMENT, n NUMBER NOT NULL CHECK (n > 2), code TEXT UNIQUE)",
)
_STATEMENTS = (
    ("INSERT INTO one VALUES (?, ?, 5)", "it"),
    ("REPLACE INTO one VALUES (?, ?, ?)", "itn"),
    ("UPDATE one SET price = ?, name = ? WHERE id = ?", "nti"),
    ("DELETE FROM one WHERE id = ?", "i"),
    ("INSERT INTO two VALUES (?, ?, ?)", "tin"),
    ("REPLACE INTO two VALUES (?, ?, ?)", "tin"),
    ("UPDATE two SET n = ? WHERE a = ? AND id = ?", "nti"),
    ("DELETE FROM two WHERE id = ? AND a = ?", "it"),
    ("INSERT INTO three VALUES (?, ?)", "it"),
    ("UPDATE three SET code = ? WHERE id = ?", "ti"),
    ("DELETE FROM three WHERE id = ?", "i"),
    ("INSERT INTO four (n, code) SELECT price, name FROM one WHERE id >= ?", "i"),
    ("INSERT OR IGNORE INTO four VALUES (?, ?, ?)", "int"),
    ("INSERT OR FAIL INTO four SELECT NULL, price, name FROM one", ""),
    ("INSERT OR REPLACE INTO four VALUES (?, ?, ?)", "int"),
    ("REPLACE INTO four SELECT id, price, name FROM one WHERE id >= ?", "i"),
    ("REPLACE INTO three SELECT id, name FROM one", ""),
    ("UPDATE four SET n = n - ? WHERE id < ?", "ni"),
    ("DELETE FROM four WHERE n > ?", "n"),
    ("SAVEPOINT s", ""),
    ("ROLLBACK TO SAVEPOINT s", ""),
)


def _params(rng: random.Random, kinds: str) -> list[Any]:
    makers = {
        "i": lambda: rng.randrange(6),
        "t": lambda: rng.choice(["x", "y", "\u0436", "y" * (1100000 if rng.random() < 0.05 else 2)]),
        "n": lambda: rng.choice([1, 2.5, 7, None if rng.random() < 0.2 else 3]),
    }
    return [makers[kind]() for kind in kinds]


async def _left_behind(seed: int, *, mvcc: bool, is_shared: bool, wal_mode: str) -> tuple[Any, ...]:
    """Run transactions with random statements. Returns their outcomes, the contents, the log and the counters."""
    rng, disk = random.Random(seed), MemoryStorage()
    node = Instance(disk=disk)
    await node.configure({"log_level": 1, "wal_mode": wal_mode, "memtx_use_mvcc_engine": mvcc})
    ctx, found = node.new_context(), []

    async def run(text: str, params: list[Any]) -> Any:
        try:
            return repr(await node.sql.execute(ctx, text, params))
        except BoxError as error:
            return error.code, error.message

    try:
        for text in _TABLES:
            await node.sql.execute(ctx, text, [])
        for _ in range(12):
            txn = node.txns.begin_lone(ctx)
            if is_shared:
                node.txns.share(txn)
            for _ in range(rng.randrange(1, 30)):
                text, kinds = rng.choice(_STATEMENTS)
                found.append(await run(text, _params(rng, kinds)))
            found.append(await run(rng.choice(["COMMIT", "COMMIT", "ROLLBACK"]), []))
        spaces = [space for space in node.schema.spaces.values() if space.id > 511]
        contents = [
            [repr(unpack(raw)) for raw in node.dml.reads.select(ctx, space, iid, 0, 0, 1000, [])]
            for space in spaces
            for iid in space.indexes
        ]
    finally:
        await node.close()
    reader, rows = LogReader(LogDirectory(disk, ".", LogKind.XLOG), VClock()), []
    while wal_mode != "none" and (part := reader.next_rows()) is not None:
        rows += [(row.lsn, row.type, row.body, row.flags) for row in part]
    reader.close()
    return found, contents, rows, node.dml.counters


@pytest.mark.parametrize("wal_mode", ["none", "write"])
@pytest.mark.parametrize("kind", ["plain", "lone", "versions"])
@pytest.mark.parametrize("seed", range(4))
def test_a_writer_changes_nothing(monkeypatch: pytest.MonkeyPatch, seed: int, kind: str, wal_mode: str) -> None:
    """Equal results, errors, contents of all indexes, rows of the log and counters of `box.stat()`."""
    options: Any = {"mvcc": kind != "plain", "is_shared": kind == "versions", "wal_mode": wal_mode}
    used: list[TransactionWriter] = []
    change = TransactionWriter._change

    def watched(self: TransactionWriter, *args: Any) -> None:
        used.append(self)
        change(self, *args)

    monkeypatch.setattr(TransactionWriter, "_change", watched)
    with_writer = asyncio.run(_left_behind(seed, **options))
    assert len(used) > 20
    monkeypatch.setattr(Dml, "point_writer", lambda *_: None)
    monkeypatch.setattr(Dml, "row_writer", lambda *_: None)
    used.clear()
    assert with_writer == asyncio.run(_left_behind(seed, **options))
    assert not used
