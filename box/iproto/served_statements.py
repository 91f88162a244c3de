"""Fast path for EXECUTE of statements that concern one row by its key: no task, and for prepared ones no dispatcher.

```
body       82 43 ce <u32 statement id> 41 <array of parameters>
```

Requests of one read that follow each other and execute the same prepared statement are served as a run: their headers
are looked at, their parameters decoded and their replies made together, but each is executed, counted and answered by
itself. Other bodies come here on the general path (`Dispatcher`), which finds the statement.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from box.data.codec import unpack, unpack_many
from box.data.marks import FIXMAP, UINT32
from box.errors import BoxError
from box.iproto.sql_requests import changed_body, rows_head
from box.txn.pending import Pending
from box.wire.constants import Key, RequestType
from box.wire.reply import reply_bodies, reply_body, reply_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from box.iproto.connection import ServerConnection
    from box.iproto.requester import Requester
    from box.iproto.server import IprotoServer
    from box.session import Context
    from box.sql.point_changes import PointChange
    from box.sql.point_select import PointSelect
    from box.sql.point_statements import Point

_PREPARED: Final = bytes((FIXMAP | 2, Key.STMT_ID, UINT32))
"""The beginning of the body. Ids are hashes of 32 bits, so nearly all of them take four bytes."""
_BIND: Final = int(Key.SQL_BIND)
_ID_AT: Final = len(_PREPARED)
_BIND_AT: Final = _ID_AT + 4
_EXECUTE: Final = int(RequestType.EXECUTE)
_COUNTS: Final = {int}
"""The types of outcomes if all changes are complete."""
_RUN: Final = 16
"""The number of requests of a run, after which the connection looks at the clock."""
_SYNC_AT: Final = 9
"""The place of the first byte of the sync in a usual header; see `headers.py`."""


def _shapes() -> dict[int, tuple[Callable[[bytes, int], tuple[Any, ...]], int, bytes]]:
    """Return how to read a usual header and the beginning of the body: for each mark of a sync a reader, the size of
    what it reads, and the bytes of the header between the length and the number.
    """
    found: dict[int, tuple[Callable[[bytes, int], tuple[Any, ...]], int, bytes]] = {}
    # The marks of uint 8 to uint 64.
    for mark, form in {0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q"}.items():
        usual = bytes((FIXMAP | 2, Key.REQUEST_TYPE, RequestType.EXECUTE, Key.SYNC, mark))
        reader = struct.Struct(f">BI{len(usual)}s{form}{_BIND_AT + 1}s")
        found[mark] = (reader.unpack_from, reader.size, usual)
    return found


_SHAPES: Final = _shapes()


class ServedStatements:
    """The point statements of all connections of one server."""

    def __init__(self, server: IprotoServer) -> None:
        self._server = server

    def serve(
        self, connection: ServerConnection, sync: int, data: bytes, pos: int, start: int, stop: int
    ) -> tuple[int, int]:
        """Serve an EXECUTE, whose packet is at `pos` and whose body is from `start` to `stop`, and those behind it that
        execute the same statement.

        Returns the position after the served packets, and their number: 0 if the first one needs the general path.
        """
        bind_at = start + _BIND_AT
        if bind_at >= stop or data[bind_at] != _BIND or data[start : start + _ID_AT] != _PREPARED:
            return pos, 0
        server = self._server
        statement_id = int.from_bytes(data[start + _ID_AT : bind_at], "big")
        point = server.node.sql.known_point(connection.ctx, statement_id)
        if point is None:
            return pos, 0
        syncs, stops, raws = [sync], [stop], [data[bind_at + 1 : stop]]
        limit = min(_RUN, server.limit - server.in_flight + 1)
        if stop < len(data) and limit > 1:
            _gather(data, data[start : bind_at + 1], limit, syncs, stops, raws)
        many = _decoded(raws)
        if not many:
            return pos, 0
        try:
            if point.is_query:
                served = self._query(connection, syncs, point, many)
            else:
                served = self._change_all(connection, syncs, point, many)
        except Exception as bug:
            connection.reply_error(sync, server.dispatcher.unexpected(bug))
            return stop, 1
        return (stops[served - 1], served) if served else (pos, 0)

    def _query(self, connection: ServerConnection, syncs: list[int], point: PointSelect, many: list[list[Any]]) -> int:
        """Run a query for each list of parameters, up to the first that needs the general path, and reply. Returns the
        number of queries.
        """
        server, ctx = self._server, connection.ctx
        outcomes = point.packed_many(ctx, many)
        if isinstance(outcomes, BoxError):
            connection.reply(self._refusal(ctx, syncs[0], outcomes))
            return 1
        if outcomes:
            server.node.sql.counted(ctx, 0, len(outcomes))
            connection.reply(reply_bodies(syncs, server.schema.version, rows_head(point.fields), outcomes))
        return len(outcomes)

    def _change_all(
        self, connection: ServerConnection, syncs: list[int], point: PointChange, many: list[list[Any]]
    ) -> int:
        """Run a change for each list of parameters, up to the first that needs the general path, and reply, now or when
        the log has it. Returns the number of changes.
        """
        server, ctx = self._server, connection.ctx
        outcomes = point.run_many(ctx, many)
        version, counted = server.schema.version, server.node.sql.counted
        if set(map(type, outcomes)) == _COUNTS:
            counts = cast("list[int]", outcomes)
            counted(ctx, counts[-1], len(counts))
            connection.reply(reply_bodies(syncs, version, b"", list(map(changed_body, counts))))
            return len(counts)
        for sync, outcome in zip(syncs, outcomes, strict=False):
            if isinstance(outcome, int):
                counted(ctx, outcome)
                connection.reply(reply_body(sync, version, changed_body(outcome)))
            elif isinstance(outcome, tuple):
                count, pending = outcome
                server.in_flight += 1
                packet = reply_body(sync, version, changed_body(count))
                pending.on_done(partial(self._changed, connection, sync, count, packet))
            else:
                connection.reply(self._refusal(ctx, sync, outcome))
        return len(outcomes)

    def _refusal(self, ctx: Context, sync: int, error: Exception) -> bytes:
        """Return the reply to a statement that has failed, and count it."""
        server = self._server
        if not isinstance(error, BoxError):
            error = server.dispatcher.unexpected(error)
        server.stats.collect(_EXECUTE)
        server.stats.count_error(error)
        server.node.sessions.tell_denied(ctx, error)
        return reply_error(sync, server.schema.version, error)

    def run(self, connection: Requester, sync: int, point: Point, params: Sequence[Any]) -> bool:
        """Run a statement and reply. Returns False, having done nothing, for values that need the general path.

        Raises:
            BoxError: see `Sql.execute`.
        """
        server, ctx = self._server, connection.ctx
        sql = server.node.sql
        try:
            if point.is_query:
                key = point.key(params)
                if key is None:
                    return False
                body = rows_head(point.fields) + point.packed_rows(ctx, key)
                sql.counted(ctx, 0)
                connection.reply(reply_body(sync, server.schema.version, body))
                return True
            return self._change(connection, sync, point, params)
        except BoxError:
            server.stats.collect(RequestType.EXECUTE)
            raise

    def _change(self, connection: Requester, sync: int, point: PointChange, params: Sequence[Any]) -> bool:
        server, ctx = self._server, connection.ctx
        written = point.run(ctx, params)
        if written is None:
            return False
        count, outcome = written
        packet = reply_body(sync, server.schema.version, changed_body(count))
        if isinstance(outcome, Pending):
            server.in_flight += 1
            outcome.on_done(partial(self._changed, connection, sync, count, packet))
            return True
        server.node.sql.counted(ctx, count)
        connection.reply(packet)
        return True

    def _changed(self, connection: Requester, sync: int, count: int, packet: bytes, ended: Pending) -> None:
        """Reply to a change after its end: it is in the log, or it has failed."""
        server = self._server
        server.leave()
        if ended.error is not None:
            server.stats.collect(RequestType.EXECUTE)
            connection.reply_error(sync, ended.error)
        else:
            server.node.sql.counted(connection.ctx, count)
            connection.reply(packet)


def _gather(data: bytes, head: bytes, limit: int, syncs: list[int], stops: list[int], raws: list[bytes]) -> None:
    """Add the requests behind the first one whose bodies begin with `head` too, until there are `limit` of them: their
    syncs, the ends of their packets and their encoded parameters. Their syncs have the width of the first one.
    """
    pos, end = stops[0], len(data)
    shape = _SHAPES.get(data[pos + _SYNC_AT]) if pos + _SYNC_AT < end else None
    if shape is None:
        return
    read, size, usual = shape
    while len(syncs) < limit and (params_at := pos + size) < end:
        mark, length, keys, sync, begin = read(data, pos)
        stop = pos + 5 + length
        if mark != UINT32 or keys != usual or begin != head or not params_at < stop <= end:
            return
        syncs.append(sync)
        stops.append(stop)
        raws.append(data[params_at:stop])
        pos = stop


def _decoded(raws: list[bytes]) -> list[list[Any]]:
    """Decode the parameters of requests, up to the first that are no array."""
    many = unpack_many(raws) if len(raws) > 1 else None
    if many is not None and set(map(type, many)) == {list}:
        return many
    found: list[list[Any]] = []
    for raw in raws:
        try:
            params = unpack(raw)
        except BoxError:
            break
        if type(params) is not list:
            break
        found.append(params)
    return found
