"""Prepared statements that are sent together get the replies of statements that are sent one by one."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.errors import BoxError
from box.instance.node import Instance
from box.iproto import served_statements
from box.journal.storage import MemoryStorage
from box.schema.ids import SpaceId
from box.sql.result import Changed
from box.wire.change import Request
from box.wire.constants import Key, RequestType
from box.wire.row import Row

from .serving import RawClient, request

_TABLES = (
    "CREATE TABLE a (id INT PRIMARY KEY, name TEXT, price DOUBLE)",
    "CREATE TABLE b (k1 TEXT, k2 UNSIGNED, flag BOOLEAN NOT NULL, v SCALAR, PRIMARY KEY (k2, k1))",
    "CREATE TABLE c (id UNSIGNED PRIMARY KEY, code TEXT UNIQUE, n NUMBER NOT NULL)",
    "CREATE INDEX by_name ON b (flag)",
)
_IDS = (0, 1, 2, 3, 500)
_NAMES = ("x", "y", "", "\u00e9", None)
_STATEMENTS: tuple[tuple[str, tuple[tuple[Any, ...], ...]], ...] = (
    ("SELECT * FROM a WHERE id = ?", (_IDS,)),
    ("SELECT price, name FROM a WHERE id = ?", (_IDS,)),
    ("SELECT v FROM b WHERE k1 = ? AND k2 = ?", (("x", "y"), _IDS)),
    ("INSERT INTO a VALUES (?, ?, ?)", (_IDS, _NAMES, (1.5, 2, None, float("nan")))),
    ("REPLACE INTO a VALUES (?, ?, ?)", (_IDS, _NAMES, (1.5, 2.5))),
    ("REPLACE INTO a (price, id) VALUES (?, ?)", ((1.5, None), (-1, *_IDS))),
    ("INSERT INTO b VALUES (?, ?, ?, ?)", (("x", "y"), _IDS, (True, False, None), (1, "z", None))),
    ("REPLACE INTO b VALUES (?, ?, ?, ?)", (("x", "y"), _IDS, (True, False), (1, "z", b"b", 1.5))),
    ("INSERT INTO c VALUES (?, ?, ?)", (_IDS, ("p", "q", None), (1, 2.5))),
    ("UPDATE a SET name = ?, price = ? WHERE id = ?", (_NAMES, (3.5, None), _IDS)),
    ("UPDATE b SET flag = ? WHERE k2 = ? AND k1 = ?", ((True, False, None), _IDS, ("x", "y"))),
    ("UPDATE c SET code = ?, n = 7 WHERE id = ?", (("p", "q", "r", None), _IDS)),
    ("DELETE FROM a WHERE id = ?", (_IDS,)),
    ("DELETE FROM b WHERE k1 = ? AND k2 = ?", (("x", "y"), _IDS)),
    ("DELETE FROM c WHERE id = ?", (_IDS,)),
)
_ODD = (b"\x91\xa1x", b"\x91\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00", b"\x90", b"\x93\x01", b"\x01", b"\x91\x81\xa1?\x01")
"""Parameters that need the general path: other types, too few, malformed, no array, named."""


def _program(rng: random.Random) -> list[list[tuple[int, bytes]]]:
    """Generate stretches of statements: the numbers of statements and their encoded parameters. Only the last one of a
    stretch may need the general path, which runs as a task of its own.
    """
    found = []
    for _ in range(60):
        stretch: list[tuple[int, bytes]] = []
        while len(stretch) < rng.choice((1, 3, 40)):
            number = rng.randrange(len(_STATEMENTS))
            columns = _STATEMENTS[number][1]
            for _ in range(rng.choice((1, 2, 20))):
                stretch.append((number, pack([rng.choice(values) for values in columns])))
        if rng.random() < 0.3:
            stretch.append((rng.randrange(len(_STATEMENTS)), rng.choice(_ODD)))
        found.append(stretch)
    return found


async def _node(wal_mode: str) -> Instance:
    node = Instance(disk=MemoryStorage())
    await node.configure({"log_level": 0, "wal_mode": wal_mode, "listen": "127.0.0.1:0"})
    ctx = node.new_context()
    grant = [1, 0, "universe", 0, 0xFFFFFFFF]
    await node.dml.execute(ctx, node.schema.space(SpaceId.PRIV), Request.replace(pack(grant)))
    for table in _TABLES:
        await node.sql.execute(ctx, table, [])
    return node


async def _answers(program: list[list[tuple[int, bytes]]], wal_mode: str, *, together: bool) -> list[Any]:
    """Return all replies by sync, the contents of the tables, the counters and the position in the log."""
    node = await _node(wal_mode)
    client = await RawClient.connect(node.iproto.bound_address or "")
    replies: dict[int, tuple[int, bytes]] = {}

    async def take(count: int) -> None:
        for _ in range(count):
            reply: Row = await client.read_row()
            replies[reply.sync] = (reply.type, reply.body)

    try:
        ids = []
        for text, _ in _STATEMENTS:
            reply = await client.ask(request(int(RequestType.PREPARE), 1, {int(Key.SQL_TEXT): text}))
            ids.append(unpack(reply.body)[Key.STMT_ID])
        for statement_id, (_, columns) in zip(ids, _STATEMENTS, strict=True):  # makes each known
            params = [values[0] for values in columns]
            client.send(request(int(RequestType.EXECUTE), 2, {Key.STMT_ID: statement_id, Key.SQL_BIND: params}))
            await take(1)
        sync = 200
        for stretch in program:
            packets = []
            for number, params in stretch:
                sync += 1
                body = b"\x82\x43\xce" + ids[number].to_bytes(4, "big") + b"\x41" + params
                packets.append(request(int(RequestType.EXECUTE), sync, body))
            if together:
                client.send(b"".join(packets))
                await take(len(packets))
            else:
                for one in packets:
                    client.send(one)
                    await take(1)
        ctx = node.new_context()
        contents = [
            [unpack(raw) for raw in node.dml.reads.select(ctx, node.schema.space_by_name(name), 0, 0, 0, 1000, [])]
            for name in "ABC"
        ]
        return [replies, repr(contents), node.dml.counters, node.stats.box.totals, dict(node.state.vclock)]
    finally:
        await client.close()
        await node.close()


@pytest.mark.parametrize("wal_mode", ["none", "write"])
@pytest.mark.parametrize("seed", range(2))
def test_runs_are_answered_as_single_statements(monkeypatch: pytest.MonkeyPatch, wal_mode: str, seed: int) -> None:
    program = _program(random.Random(seed))
    alone = asyncio.run(_answers(program, wal_mode, together=False))
    sizes: list[int] = []
    gather = served_statements._gather

    def counted(data: bytes, head: bytes, limit: int, syncs: list[int], *lists: Any) -> None:
        gather(data, head, limit, syncs, *lists)
        sizes.append(len(syncs))

    monkeypatch.setattr(served_statements, "_gather", counted)
    together = asyncio.run(_answers(program, wal_mode, together=True))
    assert together == alone
    assert max(sizes) > 10


def test_a_user_without_rights_is_refused_each_time() -> None:
    """A run of statements of a user who may not read the table gets ACCESS_DENIED for each."""

    async def body() -> None:
        node = await _node("none")
        client = await RawClient.connect(node.iproto.bound_address or "")
        try:
            text = "SELECT * FROM a WHERE id = ?"
            reply = await client.ask(request(int(RequestType.PREPARE), 1, {int(Key.SQL_TEXT): text}))
            statement_id = unpack(reply.body)[Key.STMT_ID]
            execute = {int(Key.STMT_ID): statement_id, int(Key.SQL_BIND): [1]}
            assert (await client.ask(request(int(RequestType.EXECUTE), 2, execute))).type == RequestType.OK
            priv = node.schema.space(SpaceId.PRIV)
            version = node.schema.version
            await node.dml.execute(node.new_context(), priv, Request.delete([0, "universe", 0]))
            usage = [1, 0, "universe", 0, 0x18]
            await node.dml.execute(node.new_context(), priv, Request.replace(pack(usage)))
            assert node.schema.version == version
            client.send(b"".join(request(int(RequestType.EXECUTE), sync, execute) for sync in range(300, 320)))
            for sync in range(300, 320):
                refused = await client.read_row()
                assert (refused.sync, refused.type) == (sync, 0x8000 | 42)
        finally:
            await client.close()
            await node.close()

    asyncio.run(body())


@pytest.mark.parametrize("fails", [False, True])
def test_a_replaced_row_is_one_transaction_of_two_rows(fails: bool) -> None:
    """REPLACE of an existing row logs a DELETE and a REPLACE as one transaction; if the write fails the row stays."""

    async def body() -> None:
        node = await _node("write")
        ctx = node.new_context()
        try:
            await node.sql.execute(ctx, "INSERT INTO a VALUES (1, 'old', 1.5)", [])
            before = node.state.vclock.signature
            seen: list[Any] = []
            submit = node.journal.submit

            def submitted(entry: Any) -> None:
                submit(entry)
                seen.append(entry)

            node.journal.submit = submitted  # type: ignore[method-assign]
            node.errinj.set("ERRINJ_WAL_WRITE", fails)
            replace = node.sql.execute(ctx, "REPLACE INTO a VALUES (?, ?, ?)", [1, "new", 2.5])
            if fails:
                with pytest.raises(BoxError, match="Failed to write to disk"):
                    await replace
            else:
                assert await replace == Changed(2)
            space = node.schema.space_by_name("A")
            row = [1, "old", 1.5] if fails else [1, "new", 2.5]
            assert [unpack(raw) for raw in node.dml.reads.select(ctx, space, 0, 0, 0, 9, [])] == [row]
            [entry] = seen
            assert [row.type for row in entry.rows] == [RequestType.DELETE, RequestType.REPLACE]
            assert node.state.vclock.signature == before + (0 if fails else 2)
            if not fails:
                first, second = entry.rows
                assert (first.tsn, first.is_commit) == (first.lsn, False)
                assert (second.tsn, second.is_commit) == (first.lsn, True)
        finally:
            node.errinj.set("ERRINJ_WAL_WRITE", False)
            await node.close()

    asyncio.run(body())
