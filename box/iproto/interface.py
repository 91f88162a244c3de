"""What the binary server needs of a node, as protocols with as few members as possible.

The node of `box.instance.node` has all of them; tests serve clients with small stand-ins.
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
    from box.events import Events
    from box.index.long_read import LongRead
    from box.iproto.connection import ServerConnection
    from box.iproto.stats import Stats
    from box.net.network import Network
    from box.schema.access import Credentials, User
    from box.session import Context, RequestContext, Session, Sessions
    from box.sql.engine import Sql
    from box.txn.pending import Outcome, Pending
    from box.txn.reads import Page
    from box.txn.transaction import Transaction
    from box.wire.ballot import Ballot
    from box.wire.row import Row
    from box.wire.vclock import VClock


class SpaceLike(Protocol):
    """The part of a space that the server uses."""

    @property
    def has_triggers(self) -> bool:
        """True if a change runs user triggers, which may wait."""

    @property
    def on_replace(self) -> Sequence[Any]: ...

    @property
    def before_replace(self) -> Sequence[Any]: ...


class SchemaLike(Protocol):
    """The dictionary: spaces, users, functions, and the version that replies contain."""

    version: int

    @property
    def has_user_spaces(self) -> bool: ...

    def space(self, space_id: int) -> Any: ...

    def user_by_name(self, name: str) -> User: ...

    def function_by_name(self, name: str) -> Any: ...

    @property
    def guest(self) -> Credentials: ...


class ReadsLike(Protocol):
    """The reads of data."""

    def select(
        self, ctx: Context, space: Any, iid: int, iterator: int, offset: int, limit: int, key: list[Any]
    ) -> list[bytes]: ...

    def begin_long(
        self, ctx: Context, space: Any, iid: int, iterator: int, offset: int, limit: int, key: list[Any]
    ) -> LongRead | None:
        """Return a select that is spread over turns of the loop, or None for one that `select` does at once."""

    def page(
        self, ctx: Context, space: Any, iid: int, iterator: int, offset: int, limit: int, key: list[Any], after: bytes
    ) -> Page: ...

    def begin_long_page(
        self, ctx: Context, space: Any, iid: int, iterator: int, offset: int, limit: int, key: list[Any], after: bytes
    ) -> LongRead | None:
        """Return a page that is read over several turns of the loop, or None for a page that `page` reads at once."""

    def position(self, ctx: Context, space: Any, iid: int, fields: list[Any]) -> bytes: ...


class DmlLike(Protocol):
    """The changes of data. `counters` counts all requests by type, including those of other callers."""

    counters: list[int]

    @property
    def reads(self) -> ReadsLike: ...

    @property
    def refuses_writes(self) -> bool:
        """True if changes by users, outside of a transaction, get READONLY before any other check."""

    @property
    def store_now(self) -> Callable[..., Outcome]:
        """Changes a space: `store_now(ctx, space, kind, raw, request)`, without a request for a plain INSERT or
        REPLACE.
        """

    @property
    def commit_now(self) -> Callable[[Context], Transaction | None]:
        """Commits the open transaction."""


class TransactionsLike(Protocol):
    """The transaction manager: streams use it, and so does the clean-up after a function that left its transaction
    open.
    """

    def begin_limited(self, ctx: Context, timeout: float | None, isolation: int) -> Transaction: ...

    def on_yield(self, ctx: Context) -> None:
        """Handle that the line of execution is about to wait, perhaps with an open transaction."""

    def rollback(self, ctx: Context) -> None: ...

    def rollback_open(self, ctx: Context, txn: Transaction) -> None: ...


class CallerLike(Protocol):
    """The client of a wave."""

    @property
    def rooms(self) -> tuple[int, int]:
        """The number of requests that may still wait for something, and that of functions of this client."""

    @property
    def takes_calls(self) -> bool:
        """False if no further function shall run for now."""

    def functions_wait(self, count: int) -> None:
        """Count functions of a wave that have begun to wait."""

    def functions_ended(self, replies: bytes, count: int, largest: int) -> None:
        """Send the replies of functions that have waited; `largest` is the size of the largest one in bytes."""

    def function_ended(self, ctx: RequestContext, outcome: bytes | BoxError) -> None:
        """Reply to a function; `outcome` is its results as one encoded array, or its error."""

    def function_writes(self, sync: int, write: Pending) -> None:
        """Reply at the end of `write`, the last act of a function; `sync` is that of the function's request."""


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

    def take_late(self) -> None: ...

    def run(
        self, client: CallerLike, session: Session, data: bytes, start: int, seconds: float
    ) -> tuple[int, bytes | BoxError | None]: ...

    @property
    def is_behind(self) -> bool: ...

    def fail(self, ctx: RequestContext, error: BoxError, ended: Callable[[BoxError], None]) -> None: ...


class FunctionsLike(Protocol):
    """Runs CALL and EVAL after checking privileges. Arguments and results are one encoded array each.

    `ctx` belongs to this request alone, or to a stream, whose transaction may be open. A refusal is raised. `ended` is
    called once with the results or the error, immediately or later.
    """

    @property
    def wave(self) -> CallWaveLike | None: ...

    def call(
        self, ctx: Context, name: str, args: bytes, ended: Callable[[bytes | BoxError], None], is_16: bool = False
    ) -> None:
        """Run a CALL. A CALL_16 has a single tuple as its result in an array of its own."""

    def eval(self, ctx: Context, expression: str, args: bytes, ended: Callable[[bytes | BoxError], None]) -> None: ...


class ReplicationLike(Protocol):
    """The replication of the node."""

    @property
    def requests(self) -> ReplicaRequestsLike: ...


class ReplicaRequestsLike(Protocol):
    """The server side of replication."""

    def ballot(self) -> Ballot: ...

    async def handle(self, connection: ServerConnection, row: Row) -> None:
        """Serve JOIN, SUBSCRIBE, REGISTER or FETCH_SNAPSHOT.

        `connection.detach()` gives the socket away and `attach` takes it back. While the connection has its socket, an
        error becomes an ordinary reply and the connection goes on. A socket that is not given back ends the connection.
        """


class ConfigLike(Protocol):
    """The options of `box.cfg`."""

    def __getitem__(self, name: str) -> Any: ...


class LogLike(Protocol):
    """The log of the node."""

    def problem(self, error: BoxError) -> None: ...

    def of_cord(self, origin: str) -> LogLike: ...

    def of_fiber(self, name: str) -> LogLike: ...

    def error(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def info(self, text: str) -> None: ...


class StateLike(Protocol):
    """The identity and the vclock of the instance. `is_configured` becomes true when `box.cfg` has finished."""

    @property
    def is_configured(self) -> bool: ...

    @property
    def instance_uuid(self) -> UUID: ...

    @property
    def vclock(self) -> VClock: ...


class NodeLike(Protocol):
    """The part of the node that the server uses."""

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
        """The functions of the node, or None if it has no Lua."""

    @property
    def errinj(self) -> ErrorInjections: ...

    @property
    def random(self) -> Random: ...

    @property
    def events(self) -> Events: ...

    @property
    def network(self) -> Network: ...

    @property
    def monotonic(self) -> Callable[[], float]:
        """A clock in seconds that never jumps and is finer than the loop's."""

    @property
    def replication(self) -> ReplicationLike: ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def stats(self) -> Stats: ...

    @property
    def state(self) -> StateLike: ...
