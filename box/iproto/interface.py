"""The needs of the binary server: the smallest set of a node's attributes, as protocols.

The node of `box.instance.node` has all of them; tests serve clients with a few lines of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

if TYPE_CHECKING:
    from random import Random

    from box.errinj import ErrorInjections
    from box.errors import BoxError
    from box.index.long_read import LongRead
    from box.iproto.connection import ServerConnection
    from box.iproto.stats import Stats
    from box.net.network import Network
    from box.schema.access import Credentials, User
    from box.session import Context, RequestContext, Session, Sessions
    from box.sql.engine import Sql
    from box.txn.pending import Outcome
    from box.txn.transaction import Transaction
    from box.wire.ballot import Ballot
    from box.wire.change import Request
    from box.wire.row import Row
    from box.wire.vclock import VClock


class SpaceLike(Protocol):
    """A space as the server sees it."""

    @property
    def has_triggers(self) -> bool:
        """True if a change runs user triggers, which may wait."""

    @property
    def on_replace(self) -> Sequence[Any]: ...

    @property
    def before_replace(self) -> Sequence[Any]: ...


class SchemaLike(Protocol):
    """The dictionary: spaces, users, functions and the version that replies carry."""

    version: int

    def space(self, space_id: int) -> Any: ...

    def user_by_name(self, name: str) -> User: ...

    def function_by_name(self, name: str) -> Any: ...

    @property
    def guest(self) -> Credentials: ...


class ReadsLike(Protocol):
    """Reads of data."""

    def select(
        self, ctx: Context, space: Any, iid: int, iterator: int, offset: int, limit: int, key: list[Any]
    ) -> list[bytes]: ...

    def begin_long(
        self, ctx: Context, space: Any, iid: int, iterator: int, offset: int, limit: int, key: list[Any]
    ) -> LongRead | None:
        """A select that takes some turns of the loop; None for one that `select` does at once."""


class DmlLike(Protocol):
    """Data changes. `counters` counts requests by type, whoever makes them."""

    counters: list[int]

    @property
    def reads(self) -> ReadsLike: ...

    def write(self, ctx: Context, space: Any, request: Request) -> Outcome: ...

    @property
    def refuses_writes(self) -> bool:
        """Whether users' changes outside of a transaction get READONLY before anything else is looked at."""

    def store(self, ctx: Context, space: Any, kind: int, raw: bytes) -> Outcome: ...


class TransactionsLike(Protocol):
    """The transaction manager, for a function that forgot its transaction."""

    def rollback(self, ctx: Context) -> None: ...

    def rollback_open(self, ctx: Context, txn: Transaction) -> None: ...


class CallWaveLike(Protocol):
    """Runs the functions of many requests at once; see `lua.bindings.call_wave`."""

    @property
    def context(self) -> RequestContext | None: ...

    @property
    def position(self) -> int: ...

    @property
    def kind(self) -> int: ...

    @property
    def sync(self) -> int: ...

    def take_replies(self) -> bytes: ...

    def run(
        self, session: Session, data: bytes, start: int, seconds: float
    ) -> tuple[int, bytes | BoxError | int | None]: ...

    def tell_end(self, number: int, ended: Callable[[bytes | BoxError], None]) -> None: ...


class FunctionsLike(Protocol):
    """Runs CALL and EVAL, after a check of privileges: arguments and results are one encoded array each.

    `ctx` is of this request alone. A refusal is raised; `ended` is told once of the results or the error, now or later.
    """

    @property
    def wave(self) -> CallWaveLike | None: ...

    def call(self, ctx: Context, name: str, args: bytes, ended: Callable[[bytes | BoxError], None]) -> None: ...

    def eval(self, ctx: Context, expression: str, args: bytes, ended: Callable[[bytes | BoxError], None]) -> None: ...


class ReplicationLike(Protocol):
    """Replication of the node."""

    @property
    def requests(self) -> ReplicaRequestsLike: ...


class ReplicaRequestsLike(Protocol):
    """The server's side of replication."""

    def ballot(self) -> Ballot: ...

    async def handle(self, connection: ServerConnection, row: Row) -> None:
        """Serve JOIN, SUBSCRIBE, REGISTER or FETCH_SNAPSHOT.

        `connection.detach()` gives the socket away and `attach` takes it back; an error becomes an ordinary reply
        then, and the connection goes on. A socket that does not come back ends the connection.
        """


class ConfigLike(Protocol):
    """The options of `box.cfg`."""

    def __getitem__(self, name: str) -> Any: ...


class LogLike(Protocol):
    """The node's log."""

    def error(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def info(self, text: str) -> None: ...


class StateLike(Protocol):
    """The identity and the position of the instance. `is_configured` becomes true when `box.cfg` has finished."""

    @property
    def is_configured(self) -> bool: ...

    @property
    def instance_uuid(self) -> UUID: ...

    @property
    def vclock(self) -> VClock: ...


class NodeLike(Protocol):
    """The node."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def dml(self) -> DmlLike: ...

    @property
    def txns(self) -> TransactionsLike: ...

    @property
    def sql(self) -> Sql: ...

    @property
    def schema(self) -> SchemaLike: ...

    @property
    def config(self) -> ConfigLike: ...

    @property
    def log(self) -> LogLike: ...

    @property
    def functions(self) -> FunctionsLike | None:
        """None for a node without Lua."""

    @property
    def errinj(self) -> ErrorInjections: ...

    @property
    def random(self) -> Random: ...

    @property
    def network(self) -> Network: ...

    @property
    def monotonic(self) -> Callable[[], float]:
        """A clock that never jumps, finer than the loop's."""

    @property
    def replication(self) -> ReplicationLike: ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def stats(self) -> Stats: ...

    @property
    def state(self) -> StateLike: ...
