"""A program that uses every public call, for a type checker (`test_typing.py`); lines with `# mistake` are wrong.

It never runs.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import box
from box import (
    AccessDeniedError,
    AlreadyExistsError,
    BoxError,
    BoxSystemError,
    Change,
    ChangesLost,
    ChangeStream,
    ClientError,
    ConfigError,
    CryptoError,
    CustomError,
    DataError,
    Datetime,
    DiskWriteError,
    DuplicateKeyError,
    ErrorCode,
    FiberIsCancelled,
    GrantedPrivilege,
    IllegalParams,
    IndexHandle,
    Interval,
    LuajitError,
    NamedRow,
    Node,
    NodeInfo,
    NodeOptions,
    NoSuchIndexError,
    NoSuchSpaceError,
    NotReadyError,
    OutOfMemory,
    PreparedStatement,
    QuorumTimeoutError,
    ReadOnlyError,
    RequestTimeoutError,
    RowPage,
    SchemaError,
    SchemaRequests,
    SequenceHandle,
    SessionInfo,
    SocketError,
    SpaceHandle,
    SqlColumn,
    SqlResult,
    TimedOut,
    TransactionBlock,
    TransactionConflictError,
    TransactionError,
    TransactionYieldError,
    UnsupportedError,
    dbapi,
)
from box import TimeoutError as BoxTimeoutError
from box.sync import BlockingSpace
from box.sync import Node as BlockingNode
from box.testing import Cluster, KillableNode


class Goods(NamedTuple):
    """A row as an immutable object."""

    id: int
    name: str
    price: float


@dataclass
class Job:
    """A row as a mutable object."""

    id: int
    text: str


async def lives(directory: str) -> None:
    """Make nodes with options, and read their information."""
    node = Node(directory, listen=3301, wal_mode="write", memtx_use_mvcc_engine=True, replication=["127.0.0.1:3302"])
    await node.start()
    await node.configure(read_only=False, checkpoint_count=3, listen=None)
    info: NodeInfo = node.info
    uuid: str = info["uuid"]
    lsn: int = info["vclock"][info["id"]] + info["lsn"]
    options: NodeOptions = {"listen": 3301, "wal_mode": "none"}
    await node.configure(**options)
    print(uuid, lsn, info["cluster"]["uuid"], info["status"], info["ro"], info["listen"], node.is_running)
    await node.stop()
    Node(listn=3301)  # mistake: call-arg
    Node(wal_mode="fsynced")  # mistake: arg-type
    await node.configure(read_onli=True)  # mistake: call-arg
    print(info["uid"])  # mistake: typeddict-item


async def dictionary(node: Node) -> None:
    """Create spaces, sequences, users, roles and functions."""
    schema: SchemaRequests = node.schema
    goods: SpaceHandle[Goods] = await schema.create_space("goods", row=Goods, if_not_exists=True)
    await schema.create_function("positive", body="function(x) return x > 0 end", is_deterministic=True)
    await schema.create_function("ordered", language="SQL_EXPR", body="a > b", is_deterministic=True)
    await schema.create_space("a", constraint="ordered", foreign_key={"space": "goods", "field": {"id": "id"}})
    await schema.create_space("b", constraint=["ordered"], foreign_key={"k": {"space": 1, "field": {1: "id", "n": 2}}})
    await schema.create_space("c", constraint={"rule": "ordered"}, foreign_key={"field": {"id": "id"}})
    await schema.create_space("d", constraint=1)  # mistake: call-overload
    await schema.create_space("e", foreign_key="goods")  # mistake: call-overload
    plain: SpaceHandle[NamedRow] = await schema.create_space("plain", format=[("id", "unsigned"), "text"])
    pk: IndexHandle[Goods] = await goods.create_index("pk", parts=["id"], unique=True, sequence="ids")
    await pk.alter(parts=["id"])
    await pk.rename("primary")
    await pk.drop()
    print(goods.id, goods.name, goods.format, pk.id, pk.name, len(goods.index), goods.index.pk, goods.index["pk"])
    await plain.set_format(["id", ("text", "string")])
    await plain.rename("other")
    await plain.drop()
    ids: SequenceHandle = await schema.create_sequence("ids", start=1, min=1, max=10, step=1, cycle=False)
    first: int = await ids.next() + await ids.current()
    await ids.set(first)
    await ids.reset()
    await ids.drop()
    await schema.sequence("ids").next()
    names: list[str] = [
        *await schema.users(),
        *await schema.roles(),
        *await schema.functions(),
        *await schema.sequences(),
    ]
    await schema.create_user("ann", password="x", if_not_exists=True)
    await schema.set_password("ann", "y")
    await schema.create_role("clerk")
    await schema.grant("ann", "read,write", "space", "goods", if_not_exists=True)
    await schema.revoke("ann", "read,write", "space", "goods", if_exists=True)
    granted: list[GrantedPrivilege] = await schema.grants("ann")
    await schema.create_function("f", body="function() end", is_deterministic=True)
    await schema.drop_function("f", if_exists=True)
    await schema.drop_role("clerk", if_exists=True)
    await schema.drop_user("ann", if_exists=True)
    print(granted[0].object_type, granted[0].object_name)
    print(names, granted[0].privileges, list(node.space), len(node.space), "goods" in node.space)
    await schema.create_space("x", formt=[])  # mistake: call-overload


async def requests(node: Node, goods: SpaceHandle[Goods]) -> None:
    """Make every request of a space."""
    stored: Goods | None = await goods.insert(Goods(1, "pear", 2.5))
    await goods.replace([2, "fig", 0.5])
    await goods.replace({"id": 3, "name": "kiwi", "price": 1})
    count: int = await goods.insert_many([Goods(4, "plum", 1)], batch=100) + await goods.replace_many([[5, "nut", 1]])
    changed: Goods | None = await goods.update(1, {"price": 3})
    await goods.update("fig", [["+", "price", 1], ["=", 2, "figs"]], index="by_name")
    await goods.upsert([1, "pear", 2], [["+", "price", 1]])
    removed: Goods | None = await goods.delete(1, index=0)
    row = await goods.get(2)
    if row is not None:
        price: float = row.price
        print(price)
    rows: list[Goods] = await goods.select(1, index="pk", iterator="GE", offset=1, limit=10)
    rows += await goods.index["by_name"].select("a", iterator="ge", limit=None)
    page: RowPage[Goods] = await goods.page(iterator="GE", limit=10)
    where: str | None = page.position
    print(where)
    following = await goods.index["by_name"].page(after=(await goods.index["by_name"].page(limit=10)).position)
    rows += page.rows + following.rows
    async for one in goods.pairs(iterator="ALL"):
        print(one.name)
    async for one in goods:
        print(one.name)
    ends: list[Goods | None] = [await goods.min(), await goods.max(), await goods.random(7)]
    count += await goods.count(1, iterator="LT") + await goods.len()
    by_name = goods.index.by_name
    count += await by_name.count() + await by_name.len()
    ends += [await by_name.get("x"), await by_name.min(), await by_name.max(), await by_name.random(1)]
    ends += [await by_name.update("x", {"price": 1}), await by_name.delete("x")]
    async for one in by_name.pairs("x"):
        print(one.price)
    async for one in by_name:
        print(one.price)
    await goods.truncate()
    jobs: SpaceHandle[Job] = node.space.jobs.rows_as(Job)
    await jobs.insert(Job(1, "x"))
    first: NamedRow | None = await node.space["goods"].get(1)
    print(stored, changed, removed, rows, ends, first and first.name, count)
    await goods.get(1, "by_name")  # mistake: call-arg
    await goods.select(1, iterator="GTE")  # mistake: arg-type
    await goods.select(limit="3")  # mistake: arg-type
    await goods.update(1, 3)  # mistake: arg-type
    if row is not None:
        print(row.prise)  # mistake: attr-defined
    goods.delete(1)  # mistake: unused-coroutine
    await goods.insert_many(5)  # mistake: arg-type


async def transactions(node: Node, goods: SpaceHandle[Goods]) -> None:
    """Use transactions, triggers, changes, functions and errors."""
    try:
        async with node.transaction() as tx:
            block: TransactionBlock = tx
            tx.on_commit(lambda changes: print(len(changes)))
            tx.on_rollback(lambda changes: print(len(changes)))
            with tx.savepoint() as before:
                await tx.space.goods.delete(1)
                before.rollback()
            await tx.commit()
            await tx.rollback()
            print(block.is_open)
    except DuplicateKeyError as error:
        print(error.code is ErrorCode.TUPLE_FOUND, error.message, error.type, error.name, error.errno, error.prev)
    except (TransactionConflictError, NoSuchSpaceError, ChangesLost):
        pass
    except BoxError as error:
        print(error.kode)  # mistake: attr-defined

    def see(old: Goods | None, new: Goods | None) -> None:
        print(old, new)

    goods.on_replace(see).remove()
    goods.before_replace(lambda old, new: new).remove()
    watched: ChangeStream[Goods] = goods.changes(start={1: 5}, limit=10, max_bytes=1000)
    async with watched as stream:
        async for change in stream:
            told: Change[Goods] = change
            print(told.new and told.new.price, told.old, told.lsn, told.replica_id, told.is_truncation, stream.position)
    goods.changes().close()

    @node.function
    def double(number: int) -> int:
        return 2 * number

    @node.function("shop.discount")
    async def discount(price: float) -> float:
        return price / 2

    def connected(session: SessionInfo) -> None:
        print(session.id, session.type, session.user, session.peer)

    node.on_connect(connected).remove()
    node.on_disconnect(connected).remove()
    node.on_shutdown(lambda: None).remove()
    print(double(1), await discount(1), await node.eval("return ...", 1), await node.call("double", 2), box.__version__)


def moments(row: NamedRow) -> None:
    """Use points in time and intervals, with those of the standard library."""
    exact = Datetime(1_700_000_000, nsec=5, tzoffset=60, tz="Europe/Berlin")
    print(exact.epoch, exact.nsec, exact.tzoffset, exact.tzindex, exact.tz, exact < datetime.now(UTC), exact == row[0])
    month = Interval(year=0, month=1, week=0, day=0, hour=0, min=0, sec=0, nsec=0, adjust="last")
    print(month.year, month.month, month.week, month.day, month.hour, month.min, month.sec, month.nsec, month.adjust)
    Datetime("2026-01-01")  # mistake: arg-type
    Interval(months=1)  # mistake: call-arg


def errors(error: BoxError) -> None:
    """Catch every exception, and read the attributes of errors."""
    kinds: tuple[type[BoxError], ...] = (
        *(AccessDeniedError, AlreadyExistsError, BoxSystemError, ClientError, ConfigError, CryptoError, CustomError),
        *(DataError, DiskWriteError, DuplicateKeyError, FiberIsCancelled, IllegalParams, LuajitError, NoSuchIndexError),
        *(NotReadyError, OutOfMemory, QuorumTimeoutError, ReadOnlyError, RequestTimeoutError, SchemaError, SocketError),
        *(TimedOut, BoxTimeoutError, TransactionError, TransactionYieldError, UnsupportedError),
    )
    print(isinstance(error, kinds), error.fields, error.file, error.line, error.custom_type, error.log_text)
    print(error.is_system, error.log_parts)


def database(directory: str) -> None:
    """Use DB-API 2.0."""
    with dbapi.connect(directory, autocommit=True, wal_mode="none") as connection:
        connection.autocommit = False
        opened: dbapi.DatabaseConnection = connection
        with opened.cursor() as cursor:
            used: dbapi.DatabaseCursor = cursor
            used.execute("SELECT id FROM goods WHERE id = ?", (1,)).setinputsizes([1])
            used.setoutputsize(1, 1)
            row: NamedRow | None = used.fetchone()
            rows: list[NamedRow] = [*used.fetchmany(2), *used.fetchall(), *used]
            print(row, rows, used.description, used.rowcount, used.lastrowid, used.arraysize, used.connection)
        opened.cursor().executemany("INSERT INTO goods VALUES (?)", [(1,), (2,)]).close()
        opened.commit()
        opened.rollback()
        print(opened.in_transaction, dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle)
        print(dbapi.Binary(b"x"), dbapi.Date(2026, 1, 2), dbapi.Time(1, 2, 3), dbapi.Timestamp(2026, 1, 2, 3, 4, 5))
        print(dbapi.DateFromTicks(1), dbapi.TimeFromTicks(1), dbapi.TimestampFromTicks(1))
        print(dbapi.STRING, dbapi.BINARY, dbapi.NUMBER, dbapi.DATETIME, dbapi.ROWID)
        opened.close()
        opened.cursor().execute("SELECT ?", 1)  # mistake: arg-type
        dbapi.connect(directory, wall_mode="none")  # mistake: call-arg
    for kind in (dbapi.Error, dbapi.InterfaceError, dbapi.DatabaseError, dbapi.DataError, dbapi.OperationalError):
        print(kind.code)
    print(dbapi.IntegrityError, dbapi.InternalError, dbapi.ProgrammingError, dbapi.NotSupportedError, dbapi.Warning)


async def statements(node: Node) -> None:
    """Run statements of SQL."""
    found: SqlResult = await node.execute("SELECT id FROM goods WHERE id > ? AND name = :name", [1, {":name": "pear"}])
    column: SqlColumn = found.columns[0]
    row: NamedRow = found[0]
    print(row.ID, row["ID"], row[0], column.name, column.type, column.is_nullable, found.row_count + len(found))
    ids: list[int] = (await node.execute("INSERT INTO goods VALUES (NULL, :name)", {"name": "fig"})).autoincrement_ids
    async with await node.prepare("SELECT ?") as statement:
        kept: PreparedStatement = statement
        print(ids, await kept.execute([1]), kept.text, kept.parameters, kept.columns)
    await statement.close()
    print((await node.arrow("SELECT ?", [1])).num_rows)
    await node.execute(5)  # mistake: arg-type
    await node.execute("SELECT ?", 5)  # mistake: arg-type


def blocking(directory: str) -> None:
    """Use a node, its spaces, transactions and statements without a loop."""
    with BlockingNode(directory, wal_mode="none") as node:
        goods: BlockingSpace[Goods] = node.schema.create_space("goods", row=Goods)
        goods.create_index("pk", parts=["id"])
        row = goods.insert(Goods(1, "pear", 2.5))
        if row is not None:
            print(row.price)
        with node.transaction() as tx:
            goods.insert_many([[2, "fig", 1]])
            with tx.savepoint() as before:
                before.rollback()
        for one in goods.pairs(iterator="GE"):
            print(one.name)
        rows: list[Goods] = goods.select(index="pk", limit=3)
        with goods.changes(start={}) as changes:
            print(next(changes).new, changes.position)
        jobs: BlockingSpace[Job] = node.space.jobs.rows_as(Job)
        print(rows, jobs.index.pk.get(1), node.info["uuid"], node.schema.create_sequence("ids").next())
        names: list[str] = [row.NAME for row in node.execute("SELECT name FROM jobs WHERE id = ?", [1])]
        print(node.arrow("SELECT 1").column_names)
        with node.prepare("SELECT 1") as statement:
            print(names, statement.execute().columns, statement.text, statement.parameters, statement.columns)
        statement.close()
        goods.select(iterator="ge", limt=1)  # mistake: call-arg


async def clusters() -> None:
    """Use clusters for tests."""
    async with Cluster(3, synchronous=True, wal_mode="none") as cluster:
        leader: KillableNode = cluster.leader
        await cluster.partition(leader, cluster.followers)
        await cluster.kill(leader)
        print((await cluster.wait_leader(timeout=5)).address, cluster[0].name, len(cluster), leader.term)
        await cluster.start(leader)
        leader.change_options(read_only=False)
        print(leader.is_writable)
        await cluster.promote(leader)
        await cluster.heal()
        await cluster.wait_synced()
    Cluster(3, synchronus=True)  # mistake: call-arg


asyncio.run(lives("data"))
