"""Fast path for EXECUTE of statements that concern one row by its key: no task, and for prepared ones no dispatcher.

```
body       82 43 ce <u32 statement id> 41 <array of parameters>
```

Other bodies come here on the general path (`Dispatcher`), which finds the statement.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from box.data.codec import unpack
from box.data.marks import FIXMAP, UINT32
from box.errors import BoxError, ErrorCode
from box.iproto.sql_requests import changed_body, rows_head
from box.txn.pending import Pending
from box.wire.constants import Key, RequestType
from box.wire.reply import reply_body

if TYPE_CHECKING:
    from box.iproto.connection import ServerConnection
    from box.iproto.requester import Requester
    from box.iproto.server import IprotoServer
    from box.sql.point_statements import Point, PointChange

_PREPARED: Final = bytes((FIXMAP | 2, Key.STMT_ID, UINT32))
"""The beginning of the body. Ids are hashes of 32 bits, so nearly all of them take four bytes."""
_BIND: Final = int(Key.SQL_BIND)
_ID_AT: Final = len(_PREPARED)
_BIND_AT: Final = _ID_AT + 4


class ServedStatements:
    """The point statements of all connections of one server."""

    def __init__(self, server: IprotoServer) -> None:
        self._server = server

    def serve(self, connection: ServerConnection, sync: int, data: bytes, at: int, stop: int) -> bool:
        """Serve an EXECUTE whose body is at `at`. Returns False, having done nothing, if the request needs the general
        path.
        """
        bind_at = at + _BIND_AT
        if bind_at >= stop or data[bind_at] != _BIND or data[at : at + _ID_AT] != _PREPARED:
            return False
        statement_id = int.from_bytes(data[at + _ID_AT : bind_at], "big")
        point = self._server.node.sql.known_point(connection.ctx, statement_id)
        if point is None:
            return False
        try:
            params = unpack(data[bind_at + 1 : stop])
            return type(params) is list and self.run(connection, sync, point, params)
        except BoxError as error:
            if error.code == ErrorCode.INVALID_MSGPACK:
                return False
            self._server.node.sessions.tell_denied(connection.ctx, error)
            connection.reply_error(sync, error)
        except Exception as bug:
            connection.reply_error(sync, self._server.dispatcher.unexpected(bug))
        return True

    def run(self, connection: Requester, sync: int, point: Point, params: list[Any]) -> bool:
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

    def _change(self, connection: Requester, sync: int, point: PointChange, params: list[Any]) -> bool:
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
