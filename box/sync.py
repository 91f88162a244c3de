"""Embedded nodes for programs without an event loop, such as scripts and notebooks.

    from box.sync import Node

    with Node("data") as node:
        goods = node.schema.create_space("goods", format=["id", "name"], if_not_exists=True)
        goods.create_index("pk", if_not_exists=True)
        goods.replace({"id": 1, "name": "pear"})
        with node.transaction():
            goods.update(1, [["=", "name", "fig"]])
        for row in goods:
            print(row)

Every class stands for one of `box.embed` and has its methods, which wait for the outcome and raise the same errors. The
node has a thread and a loop of its own; calls may come from any thread, from several at once, but not from the node's
own: triggers and functions run there, and a blocking call in one of them raises RuntimeError. They may be coroutine
functions that use `Node.asynchronous`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from box.embed import Change, ChangeStream, IndexHandle, NamedRow, SchemaRequests, SpaceHandle, TransactionBlock
from box.embed import Node as AsynchronousNode
from box.embed.callables import PythonFunction, SpaceTrigger
from box.embed.declarations import NodeTrigger
from box.embed.handles import NO_LIMIT, Row
from box.embed.loop_thread import LoopThread
from box.embed.schema_requests import Format, GrantedPrivilege
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.index import IteratorType

T = TypeVar("T")
H = TypeVar("H")
F = TypeVar("F", bound=Callable[..., Any])

_CHUNK: Final = 256
"""Rows that an iteration fetches at once."""


class _Facade(Generic[H]):
    """Stands for an object of `box.embed`, which lives in the thread of the node."""

    def __init__(self, thread: LoopThread, asynchronous: H) -> None:
        self._thread = thread
        self.asynchronous = asynchronous
        """The object of `box.embed`, for coroutines on the loop of the node."""

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._thread.call(work)

    def _now(self, function: Callable[[], T]) -> T:
        async def work() -> T:
            return function()

        return self._thread.call(work)

    def _pairs(self, key: Any, options: Mapping[str, Any]) -> Iterator[NamedRow]:
        """Rows of an iteration, some hundreds with each call."""
        asynchronous: Any = self.asynchronous
        rows = asynchronous.pairs(key, **options)

        async def fetch() -> list[NamedRow]:
            chunk: list[NamedRow] = []
            async for row in rows:
                chunk.append(row)
                if len(chunk) == _CHUNK:
                    break
            return chunk

        while chunk := self._run(fetch):
            yield from chunk

    def __repr__(self) -> str:
        return repr(self.asynchronous)


class BlockingIndex(_Facade[IndexHandle]):
    """See `box.embed.IndexHandle`."""

    @property
    def name(self) -> str:
        """The name of the index."""
        return self.asynchronous.name

    @property
    def id(self) -> int:
        """The number of the index in its space."""
        return self._now(lambda: self.asynchronous.id)

    def pairs(self, key: Any = (), *, iterator: str | IteratorType | None = None) -> Iterator[NamedRow]:
        """See `box.embed.SpaceHandle.pairs`."""
        return self._pairs(key, {"iterator": iterator})

    def __iter__(self) -> Iterator[NamedRow]:
        return self.pairs()

    def get(self, key: Any) -> NamedRow | None:
        """See `box.embed.IndexHandle.get`."""
        return self._run(lambda: self.asynchronous.get(key))

    def select(
        self, key: Any = (), *, iterator: str | IteratorType | None = None, offset: int = 0, limit: int = NO_LIMIT
    ) -> list[NamedRow]:
        """See `box.embed.IndexHandle.select`."""
        return self._run(lambda: self.asynchronous.select(key, iterator=iterator, offset=offset, limit=limit))

    def update(self, key: Any, operations: Sequence[Sequence[Any]]) -> NamedRow | None:
        """See `box.embed.IndexHandle.update`."""
        return self._run(lambda: self.asynchronous.update(key, operations))

    def delete(self, key: Any) -> NamedRow | None:
        """See `box.embed.IndexHandle.delete`."""
        return self._run(lambda: self.asynchronous.delete(key))

    def count(self, key: Any = (), *, iterator: str | IteratorType | None = None) -> int:
        """See `box.embed.IndexHandle.count`."""
        return self._run(lambda: self.asynchronous.count(key, iterator=iterator))

    def min(self, key: Any = ()) -> NamedRow | None:
        """See `box.embed.IndexHandle.min`."""
        return self._run(lambda: self.asynchronous.min(key))

    def max(self, key: Any = ()) -> NamedRow | None:
        """See `box.embed.IndexHandle.max`."""
        return self._run(lambda: self.asynchronous.max(key))

    def random(self, seed: int) -> NamedRow | None:
        """See `box.embed.IndexHandle.random`."""
        return self._run(lambda: self.asynchronous.random(seed))

    def len(self) -> int:
        """See `box.embed.IndexHandle.len`."""
        return self._run(lambda: self.asynchronous.len())

    def alter(self, **options: Any) -> None:
        """See `box.embed.IndexHandle.alter`."""
        self._run(lambda: self.asynchronous.alter(**options))

    def rename(self, name: str) -> None:
        """See `box.embed.IndexHandle.rename`."""
        self._run(lambda: self.asynchronous.rename(name))

    def drop(self) -> None:
        """See `box.embed.IndexHandle.drop`."""
        self._run(lambda: self.asynchronous.drop())


class BlockingSpace(_Facade[SpaceHandle]):
    """See `box.embed.SpaceHandle`."""

    @property
    def name(self) -> str:
        """The name of the space."""
        return self.asynchronous.name

    @property
    def id(self) -> int:
        """The number of the space."""
        return self._now(lambda: self.asynchronous.id)

    @property
    def index(self) -> Mapping[str, BlockingIndex]:
        """The indexes by name, as they are now."""
        found = self._now(lambda: dict(self.asynchronous.index))
        return {name: BlockingIndex(self._thread, index) for name, index in found.items()}

    @property
    def format(self) -> list[dict[str, Any]]:
        """The fields of the space."""
        return self._now(lambda: self.asynchronous.format)

    def create_index(self, name: str, **options: Any) -> BlockingIndex:
        """See `box.embed.SpaceHandle.create_index`."""
        return BlockingIndex(self._thread, self._run(lambda: self.asynchronous.create_index(name, **options)))

    def pairs(
        self, key: Any = (), *, index: str | int = 0, iterator: str | IteratorType | None = None
    ) -> Iterator[NamedRow]:
        """See `box.embed.SpaceHandle.pairs`."""
        return self._pairs(key, {"index": index, "iterator": iterator})

    def __iter__(self) -> Iterator[NamedRow]:
        return self.pairs()

    def on_replace(self, function: PythonFunction) -> BlockingTrigger:
        """See `box.embed.SpaceHandle.on_replace`. It runs in the thread of the node."""
        return BlockingTrigger(self._thread, self._now(lambda: self.asynchronous.on_replace(function)))

    def before_replace(self, function: PythonFunction) -> BlockingTrigger:
        """See `box.embed.SpaceHandle.before_replace`. It runs in the thread of the node."""
        return BlockingTrigger(self._thread, self._now(lambda: self.asynchronous.before_replace(function)))

    def changes(self, limit: int = 10_000) -> BlockingChanges:
        """`for change in space.changes()` waits for each; see `box.embed.SpaceHandle.changes`."""
        return BlockingChanges(self._thread, self._now(lambda: self.asynchronous.changes(limit)))

    def insert(self, row: Row) -> NamedRow | None:
        """See `box.embed.SpaceHandle.insert`."""
        return self._run(lambda: self.asynchronous.insert(row))

    def replace(self, row: Row) -> NamedRow | None:
        """See `box.embed.SpaceHandle.replace`."""
        return self._run(lambda: self.asynchronous.replace(row))

    def update(self, key: Any, operations: Sequence[Sequence[Any]], index: str | int = 0) -> NamedRow | None:
        """See `box.embed.SpaceHandle.update`."""
        return self._run(lambda: self.asynchronous.update(key, operations, index))

    def upsert(self, row: Row, operations: Sequence[Sequence[Any]]) -> None:
        """See `box.embed.SpaceHandle.upsert`."""
        self._run(lambda: self.asynchronous.upsert(row, operations))

    def delete(self, key: Any, index: str | int = 0) -> NamedRow | None:
        """See `box.embed.SpaceHandle.delete`."""
        return self._run(lambda: self.asynchronous.delete(key, index))

    def get(self, key: Any, index: str | int = 0) -> NamedRow | None:
        """See `box.embed.SpaceHandle.get`."""
        return self._run(lambda: self.asynchronous.get(key, index))

    def select(
        self,
        key: Any = (),
        *,
        index: str | int = 0,
        iterator: str | IteratorType | None = None,
        offset: int = 0,
        limit: int = NO_LIMIT,
    ) -> list[NamedRow]:
        """See `box.embed.SpaceHandle.select`."""
        return self._run(
            lambda: self.asynchronous.select(key, index=index, iterator=iterator, offset=offset, limit=limit)
        )

    def count(self, key: Any = (), *, index: str | int = 0, iterator: str | IteratorType | None = None) -> int:
        """See `box.embed.SpaceHandle.count`."""
        return self._run(lambda: self.asynchronous.count(key, index=index, iterator=iterator))

    def min(self, key: Any = (), *, index: str | int = 0) -> NamedRow | None:
        """See `box.embed.SpaceHandle.min`."""
        return self._run(lambda: self.asynchronous.min(key, index=index))

    def max(self, key: Any = (), *, index: str | int = 0) -> NamedRow | None:
        """See `box.embed.SpaceHandle.max`."""
        return self._run(lambda: self.asynchronous.max(key, index=index))

    def random(self, seed: int, *, index: str | int = 0) -> NamedRow | None:
        """See `box.embed.SpaceHandle.random`."""
        return self._run(lambda: self.asynchronous.random(seed, index=index))

    def len(self) -> int:
        """See `box.embed.SpaceHandle.len`."""
        return self._run(lambda: self.asynchronous.len())

    def truncate(self) -> None:
        """See `box.embed.SpaceHandle.truncate`."""
        self._run(lambda: self.asynchronous.truncate())

    def set_format(self, fields: Format) -> None:
        """See `box.embed.SpaceHandle.set_format`."""
        self._run(lambda: self.asynchronous.set_format(fields))

    def rename(self, name: str) -> None:
        """See `box.embed.SpaceHandle.rename`."""
        self._run(lambda: self.asynchronous.rename(name))

    def drop(self) -> None:
        """See `box.embed.SpaceHandle.drop`."""
        self._run(lambda: self.asynchronous.drop())


class BlockingTrigger(_Facade[SpaceTrigger | NodeTrigger]):
    """A trigger that was set."""

    def remove(self) -> None:
        """Take the trigger away; again does nothing."""
        self._now(self.asynchronous.remove)


class BlockingChanges(_Facade[ChangeStream]):
    """An iterator over the changes of a space; see `box.embed.ChangeStream`."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        async def fetch() -> Change | None:
            return await anext(self.asynchronous, None)

        change = self._run(fetch)
        if change is None:
            raise StopIteration
        return change

    def close(self) -> None:
        """Stop watching; a thread that waits for a change goes on."""
        self._now(self.asynchronous.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingSpaces(_Facade[AsynchronousNode], Mapping[str, BlockingSpace]):
    """`node.space`: the user's spaces by name; see `box.embed.handles.Spaces`."""

    def __getitem__(self, name: str) -> BlockingSpace:
        """NO_SUCH_SPACE."""
        return BlockingSpace(self._thread, self._now(lambda: self.asynchronous.space[name]))

    def __contains__(self, name: object) -> bool:
        return self._now(lambda: name in self.asynchronous.space)

    def get(self, name: str, default: Any = None) -> Any:
        """The space, or `default` without one."""
        return default if name not in self else self.__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._now(lambda: list(self.asynchronous.space)))

    def __len__(self) -> int:
        return self._now(lambda: len(self.asynchronous.space))

    def __repr__(self) -> str:
        return repr(self.asynchronous.space)


class BlockingSchema(_Facade[SchemaRequests]):
    """`node.schema`; see `box.embed.SchemaRequests`."""

    def create_space(self, name: str, *, format: Format | None = None, **options: Any) -> BlockingSpace:
        """See `box.embed.SchemaRequests.create_space`."""
        made = self._run(lambda: self.asynchronous.create_space(name, format=format, **options))
        return BlockingSpace(self._thread, made)

    def create_user(self, name: str, *, password: str | None = None, if_not_exists: bool = False) -> None:
        """See `box.embed.SchemaRequests.create_user`."""
        self._run(lambda: self.asynchronous.create_user(name, password=password, if_not_exists=if_not_exists))

    def drop_user(self, name: str, *, if_exists: bool = False) -> None:
        """See `box.embed.SchemaRequests.drop_user`."""
        self._run(lambda: self.asynchronous.drop_user(name, if_exists=if_exists))

    def set_password(self, name: str, password: str) -> None:
        """See `box.embed.SchemaRequests.set_password`."""
        self._run(lambda: self.asynchronous.set_password(name, password))

    def users(self) -> list[str]:
        """See `box.embed.SchemaRequests.users`."""
        return self._run(lambda: self.asynchronous.users())

    def create_role(self, name: str, *, if_not_exists: bool = False) -> None:
        """See `box.embed.SchemaRequests.create_role`."""
        self._run(lambda: self.asynchronous.create_role(name, if_not_exists=if_not_exists))

    def drop_role(self, name: str, *, if_exists: bool = False) -> None:
        """See `box.embed.SchemaRequests.drop_role`."""
        self._run(lambda: self.asynchronous.drop_role(name, if_exists=if_exists))

    def roles(self) -> list[str]:
        """See `box.embed.SchemaRequests.roles`."""
        return self._run(lambda: self.asynchronous.roles())

    def grant(
        self,
        grantee: str,
        privileges: str,
        object_type: str | None = None,
        object_name: str | None = None,
        *,
        if_not_exists: bool = False,
    ) -> None:
        """See `box.embed.SchemaRequests.grant`."""
        self._run(
            lambda: self.asynchronous.grant(grantee, privileges, object_type, object_name, if_not_exists=if_not_exists)
        )

    def revoke(
        self,
        grantee: str,
        privileges: str,
        object_type: str | None = None,
        object_name: str | None = None,
        *,
        if_exists: bool = False,
    ) -> None:
        """See `box.embed.SchemaRequests.revoke`."""
        self._run(lambda: self.asynchronous.revoke(grantee, privileges, object_type, object_name, if_exists=if_exists))

    def grants(self, grantee: str) -> list[GrantedPrivilege]:
        """See `box.embed.SchemaRequests.grants`."""
        return self._run(lambda: self.asynchronous.grants(grantee))

    def create_function(self, name: str, **options: Any) -> None:
        """See `box.embed.SchemaRequests.create_function`."""
        self._run(lambda: self.asynchronous.create_function(name, **options))

    def drop_function(self, name: str, *, if_exists: bool = False) -> None:
        """See `box.embed.SchemaRequests.drop_function`."""
        self._run(lambda: self.asynchronous.drop_function(name, if_exists=if_exists))

    def functions(self) -> list[str]:
        """See `box.embed.SchemaRequests.functions`."""
        return self._run(lambda: self.asynchronous.functions())


class BlockingTransaction:
    """`with node.transaction() as tx`: see `box.embed.TransactionBlock`.

    It belongs to the thread that opens it, whose requests are part of it until its end; those of other threads are not.
    """

    def __init__(self, thread: LoopThread, asynchronous: TransactionBlock) -> None:
        self._thread = thread
        self.asynchronous = asynchronous

    @property
    def is_open(self) -> bool:
        """True between the begin and the commit or rollback."""
        return self.asynchronous.is_open

    def __enter__(self) -> Self:
        if self._thread.has_line:
            raise client_error(ErrorCode.ACTIVE_TRANSACTION)
        self._thread.open_line()
        try:
            self._thread.call(self.asynchronous.__aenter__)
        except BaseException:
            self._thread.close_line()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._thread.call(lambda: self.asynchronous.__aexit__(kind, error, trace))
        except BoxError:
            if error is None:
                raise  # else the block's own error is what the caller gets
        finally:
            self._thread.close_line()

    def commit(self) -> None:
        """Commit before the end of the block; later requests are not part of the transaction."""
        self._thread.call(self.asynchronous.commit)

    def rollback(self) -> None:
        """Roll back before the end of the block; later requests are not part of the transaction."""
        self._thread.call(self.asynchronous.rollback)

    def savepoint(self) -> BlockingSavepoint:
        """Mark this place in the transaction."""
        return BlockingSavepoint(self._thread, self.asynchronous)


class BlockingSavepoint:
    """A place in a transaction; as a context manager it rolls back to itself when the block raises."""

    def __init__(self, thread: LoopThread, transaction: TransactionBlock) -> None:
        self._thread = thread
        self._transaction = transaction

        async def mark() -> Any:
            return transaction.savepoint()

        self._savepoint = thread.call(mark)

    def rollback(self) -> None:
        """Undo the statements after this place. NO_TRANSACTION, NO_SUCH_SAVEPOINT."""

        async def undo() -> None:
            self._savepoint.rollback()

        self._thread.call(undo)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and self._transaction.is_open:
            self.rollback()


class BlockingNode:
    """A node for programs without a loop: `with Node(directory, **options) as node`; see `box.embed.Node`.

    Transactions need `memtx_use_mvcc_engine`, which is on unless the options say otherwise: between two blocking calls
    others have their turn. It may be started and stopped again.
    """

    def __init__(self, directory: str | PathLike[str] | None = None, **options: Any) -> None:
        options.setdefault("memtx_use_mvcc_engine", True)
        self._has_versions = bool(options["memtx_use_mvcc_engine"])
        self.asynchronous = AsynchronousNode(directory, **options)
        """The node of `box.embed`, for coroutines on its loop."""
        self._thread: LoopThread | None = None

    @property
    def _running(self) -> LoopThread:
        if self._thread is None:
            raise client_error(ErrorCode.LOADING)
        return self._thread

    @property
    def space(self) -> BlockingSpaces:
        """The spaces by name: `node.space["goods"]`."""
        return BlockingSpaces(self._running, self.asynchronous)

    @property
    def schema(self) -> BlockingSchema:
        """Makes and lists spaces, users, roles, grants and functions."""
        return BlockingSchema(self._running, self.asynchronous.schema)

    def start(self) -> None:
        """Start the node and its thread; `with` does it. ALREADY_RUNNING."""
        if self._thread is not None:
            raise client_error(ErrorCode.ALREADY_RUNNING, repr(self))
        thread = LoopThread("box")
        try:
            thread.call(self.asynchronous.start)
        except BaseException:
            thread.stop()
            raise
        self._thread = thread

    def stop(self) -> None:
        """Stop the node and its thread; safe to call again. Calls of other threads that wait get FiberIsCancelled."""
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.call(self.asynchronous.stop)
            finally:
                thread.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def transaction(self) -> BlockingTransaction:
        """`with node.transaction() as tx`: see `BlockingTransaction`. UNSUPPORTED without memtx_use_mvcc_engine."""
        if not self._has_versions:
            raise unsupported("box.sync.Node", "transactions without memtx_use_mvcc_engine")
        return BlockingTransaction(self._running, self.asynchronous.transaction())

    def eval(self, source: str, *args: Any) -> Any:
        """Run Lua source; see `box.embed.Node.eval`."""
        return self._running.call(lambda: self.asynchronous.eval(source, *args))

    def call(self, name: str, *args: Any) -> Any:
        """Call a Lua function by name; see `box.embed.Node.call`."""
        return self._running.call(lambda: self.asynchronous.call(name, *args))

    def configure(self, **options: Any) -> None:
        """Change options: `box.cfg{...}`."""
        self._running.call(lambda: self.asynchronous.configure(**options))

    def function(self, function: F) -> F:
        """Make a Python function a global of Lua; see `box.embed.Node.function`. It runs in the thread of the node."""

        async def declare() -> None:
            self.asynchronous.function(function)

        self._running.call(declare)
        return function

    @property
    def info(self) -> Mapping[str, Any]:
        """Status, ids, vclock and read-only mode, as in `box.info`."""

        async def look() -> Mapping[str, Any]:
            return self.asynchronous.info

        return self._running.call(look)


Node = BlockingNode

__all__ = [
    "BlockingChanges",
    "BlockingIndex",
    "BlockingNode",
    "BlockingSchema",
    "BlockingSpace",
    "BlockingSpaces",
    "BlockingTransaction",
    "Node",
]
