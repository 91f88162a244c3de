"""Runs requests: one method for each type. Everything here is the general way; `ServerConnection` has a shortcut
for requests that look like an earlier one.

Order of checks, as in Tarantool: the packet, the request's body, schema version, space or user, the operation.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode, client_error, illegal_params, unsupported
from box.iproto import sql_requests
from box.iproto.plans import BodyPlan
from box.schema.access import EMPTY_PASSWORD, HASH_SIZE, Privilege, check_session, check_universe, decode_hash
from box.schema.ids import UserId
from box.session import Context, RequestContext
from box.wire.auth import SCRAMBLE_SIZE, is_right_scramble
from box.wire.change import Request, decode_change
from box.wire.constants import DML_TYPES, Key, RequestType
from box.wire.reply import reply_body, reply_ok
from box.wire.request import (
    AuthRequest,
    SqlRequest,
    decode_auth,
    decode_call,
    decode_select,
    decode_sql,
    results_as_tuples,
)
from box.wire.row import Row, decode_header, is_msgpack, sync_of_broken_header

if TYPE_CHECKING:
    from box.iproto.connection import ServerConnection
    from box.iproto.server import IprotoServer
    from box.schema.access import User

_ITERATOR_MAX: Final = 12
_DELAY: Final = 0.001
_DELAYED_SHARE: Final = 0.1
"""The delays of ERRINJ_IPROTO_TX_DELAY: seconds, and the share of data requests that wait so long."""
_NO_PASSWORD: Final = frozenset({bytes(HASH_SIZE), decode_hash(EMPTY_PASSWORD)})
Handler = Callable[["ServerConnection", Row], None]


def _invalid(what: str) -> BoxError:
    return client_error(ErrorCode.INVALID_MSGPACK, what)


def _check_body(row: Row) -> None:
    if row.body and not is_msgpack(row.body):
        raise _invalid("packet body")


class Dispatcher:
    """Runs requests of all connections of one server."""

    def __init__(self, server: IprotoServer) -> None:
        self._server = server
        self._node = server.node
        self._schema = server.schema
        self._dml = server.dml
        self._handlers: dict[int, Handler] = {
            RequestType.SELECT: self._select,
            RequestType.INSERT: self._store,
            RequestType.REPLACE: self._store,
            RequestType.UPDATE: self._change,
            RequestType.DELETE: self._change,
            RequestType.UPSERT: self._change,
            RequestType.CALL: self._call,
            RequestType.CALL_16: self._call,
            RequestType.EVAL: self._call,
            RequestType.AUTH: self._auth,
            RequestType.EXECUTE: self._sql,
            RequestType.PREPARE: self._sql,
            RequestType.PING: self._ping,
            RequestType.VOTE: self._vote,
            RequestType.VOTE_DEPRECATED: self._vote,
            RequestType.JOIN: self._replicate,
            RequestType.SUBSCRIBE: self._replicate,
            RequestType.FETCH_SNAPSHOT: self._replicate,
            RequestType.REGISTER: self._replicate,
        }
        self._without_body = (self._ping, self._vote, self._replicate)
        """Handlers that do not decode the body, so that its well-formedness is checked for them."""

    def dispatch(self, connection: ServerConnection, packet: bytes) -> None:
        """Run the request of a whole packet (without its length). Every failure becomes a reply."""
        try:
            row, body_at = decode_header(packet)
        except BoxError as error:
            self._node.log.error(error.log_text)
            connection.reply_error(sync_of_broken_header(packet), error)
            return
        row.body = packet[body_at:]
        self.run(connection, row)

    def run(self, connection: ServerConnection, row: Row) -> None:
        """Run the request of a decoded header and a raw body. Every failure becomes a reply.

        The type is the lower byte of what the header says, as in Tarantool.
        """
        row.type &= 0xFF
        if self._server.is_delayed and row.type in DML_TYPES and self._node.random.random() < _DELAYED_SHARE:
            self._server.loop.call_later(_DELAY, self._run, connection, row)
        else:
            self._run(connection, row)

    def _run(self, connection: ServerConnection, row: Row) -> None:
        try:
            handler = self._handlers.get(row.type)
            if handler is None or handler in self._without_body:
                _check_body(row)
            if handler is None:
                raise client_error(ErrorCode.UNKNOWN_REQUEST_TYPE, row.type)
            handler(connection, row)
        except BoxError as error:
            if error.code in (ErrorCode.INVALID_MSGPACK, ErrorCode.UNKNOWN_REQUEST_TYPE):
                self._node.log.error(error.log_text)
            self._node.sessions.tell_denied(connection.ctx, error)
            connection.reply_error(row.sync, error)
        except Exception as bug:
            connection.reply_error(row.sync, self.unexpected(bug))

    def unexpected(self, bug: Exception) -> BoxError:
        """The error that a client gets for a failure of the node itself, which says nothing of Python: the log does."""
        self._node.log.error("".join(traceback.format_exception(bug)).rstrip())
        if isinstance(bug, MemoryError):
            return BoxError(ErrorCode.MEMORY_ISSUE, "not enough memory", type="OutOfMemory")
        return BoxError(ErrorCode.UNKNOWN, "internal error, see the log")

    def _check(self, row: Row) -> None:
        """The checks of data requests and functions: the schema version the client knows, and that there is one."""
        self._check_schema(row)
        if not self._node.state.is_configured:
            raise client_error(ErrorCode.LOADING)

    def _check_schema(self, row: Row) -> None:
        expected = row.schema_version & 0xFFFFFFFF  # larger ones lose their upper bits, as in Tarantool
        if expected and expected != self._schema.version:
            raise client_error(ErrorCode.WRONG_SCHEMA_VERSION, expected, self._schema.version)

    def _count(self, request_type: int) -> None:
        self._server.stats.collect(request_type)

    def _suspendable(self, connection: ServerConnection, sync: int, work: Coroutine[Any, Any, bytes]) -> None:
        """Run work that makes a whole reply and may have to wait."""
        self._server.in_flight += 1
        self._server.spawn(self._finish(connection, sync, work))

    async def _finish(self, connection: ServerConnection, sync: int, work: Coroutine[Any, Any, bytes]) -> None:
        try:
            connection.reply(await work)
        except BoxError as error:
            connection.reply_error(sync, error)
        except Exception as bug:
            connection.reply_error(sync, self.unexpected(bug))
        finally:
            self._server.leave()

    # -- data -------------------------------------------------------------------------------------------------

    def _select(self, connection: ServerConnection, row: Row) -> None:
        request = decode_select(row.body)
        self._check(row)
        if request.iterator >= _ITERATOR_MAX:
            raise illegal_params("Invalid iterator type")
        space = self._schema.space(request.space_id)
        plan = BodyPlan(space, request.index_id, request.iterator, request.offset, request.limit)
        key = unpack(request.key)
        read = self._dml.reads.begin_long(connection.ctx, *plan, key)
        if read is None:
            connection.reply_rows(row.sync, self._dml.reads.select(connection.ctx, *plan, key))
        else:
            connection.reply_read(row.sync, read)
        self._learn(row, Key.KEY, request.key, plan)

    def _store(self, connection: ServerConnection, row: Row) -> None:
        _check_body(row)  # decoding leaves the tuple alone
        space_id, request = decode_change(row.type, row.body)
        self._check(row)
        space, raw = self._schema.space(space_id), request.tuple
        self._write(connection, row, space, request)
        self._learn(row, Key.TUPLE, raw, BodyPlan(space))

    def _change(self, connection: ServerConnection, row: Row) -> None:
        space_id, request = decode_change(row.type, row.body)
        self._check(row)
        self._write(connection, row, self._schema.space(space_id), request)

    def _write(self, connection: ServerConnection, row: Row, space: Any, request: Request) -> None:
        """A trigger may wait, and its context with it."""
        ctx = RequestContext(connection.session, row.sync) if space.has_triggers else connection.ctx
        connection.finish_write(row.sync, self._dml.write(ctx, space, request))

    def _learn(self, row: Row, last_key: Key, last_value: bytes, plan: BodyPlan) -> None:
        """Remember the body up to the last value, if the request's own value is the last one."""
        beginning = row.body[: len(row.body) - len(last_value)]
        if beginning[-1:] == bytes((last_key,)) and row.body.endswith(last_value):
            self._server.plans.learn(self._schema.version, row.type, beginning, plan)

    # -- functions --------------------------------------------------------------------------------------------

    def _call(self, connection: ServerConnection, row: Row) -> None:
        request = decode_call(row.type, row.body)
        self._check(row)
        self._count(RequestType.EVAL if row.type == RequestType.EVAL else RequestType.CALL)
        ctx = RequestContext(connection.session, row.sync)
        connection.session.sync = row.sync
        functions = self._node.functions
        is_eval = row.type == RequestType.EVAL
        if functions is None:
            self._refuse_function(ctx, request.text, is_eval)
        connection.look_soon()
        ended = partial(self._function_ended, connection, row.type, ctx)
        (functions.eval if is_eval else functions.call)(ctx, request.text, request.args, ended)
        if not ctx.has_ended:
            ctx.has_waited = True
            self._server.in_flight += 1
            connection.call_waits()

    def _function_ended(
        self, connection: ServerConnection, request_type: int, ctx: RequestContext, outcome: bytes | BoxError
    ) -> None:
        """Take the outcome of CALL or EVAL. Raises nothing: the request has left, and is answered here or never."""
        ctx.has_ended = True
        if ctx.has_waited:
            self._server.leave()
        try:
            self._answer_call(connection, request_type, ctx, outcome)
        except BoxError as error:
            connection.reply_error(ctx.sync, error)
        except Exception as bug:
            connection.reply_error(ctx.sync, self.unexpected(bug))
        if ctx.has_waited:
            connection.call_ended(len(outcome) if isinstance(outcome, bytes) else 0)

    def _answer_call(
        self, connection: ServerConnection, request_type: int, ctx: RequestContext, outcome: bytes | BoxError
    ) -> None:
        """Reply. A transaction that is still open is rolled back, and is an error of its own."""
        if ctx.txn is not None:
            self._node.txns.rollback(ctx)
            if not isinstance(outcome, BoxError):
                outcome = client_error(ErrorCode.FUNCTION_TX_ACTIVE)
        if isinstance(outcome, BoxError):
            connection.reply_error(ctx.sync, outcome)
            return
        if request_type == RequestType.CALL_16:
            connection.reply_rows(ctx.sync, results_as_tuples(outcome))
        else:
            connection.reply_array(ctx.sync, outcome)

    def _refuse_function(self, ctx: Context, name: str, is_eval: bool) -> NoReturn:
        """Refuse CALL or EVAL on a node without Lua, for want of privileges first."""
        if is_eval:
            check_universe(ctx.credentials, Privilege.X)
            raise unsupported("A node without Lua", "EVAL")
        function = self._schema.function_by_name(name)
        if function is not None:
            function.check_access(ctx.credentials)
        else:
            check_universe(ctx.credentials, Privilege.X, "function", name)
        raise client_error(ErrorCode.NO_SUCH_PROC, name)

    def _sql(self, connection: ServerConnection, row: Row) -> None:
        request = decode_sql(row.body)
        self._check(row)
        self._suspendable(connection, row.sync, self._run_sql(connection, row, request))

    async def _run_sql(self, connection: ServerConnection, row: Row, request: SqlRequest) -> bytes:
        """The reply. A transaction that the statement has left open is rolled back: no later request belongs to it."""
        sql, ctx = self._node.sql, RequestContext(connection.session, row.sync)
        try:
            if row.type == RequestType.PREPARE:
                body = sql_requests.prepare(sql, ctx, request)
            else:
                body = await sql_requests.execute(sql, ctx, request)
        except BoxError as error:
            self._node.sessions.tell_denied(ctx, error)
            raise
        finally:
            if ctx.txn is not None:
                self._node.txns.rollback_open(ctx, ctx.txn)
        return reply_body(row.sync, self._schema.version, body)

    # -- sessions ---------------------------------------------------------------------------------------------

    def _ping(self, connection: ServerConnection, row: Row) -> None:
        self._check_schema(row)
        connection.reply(reply_ok(row.sync, self._schema.version))

    def _auth(self, connection: ServerConnection, row: Row) -> None:
        request = decode_auth(row.body)
        self._check(row)
        self._count(RequestType.AUTH)
        self._suspendable(connection, row.sync, self._authenticate(connection, row.sync, request))

    async def _authenticate(self, connection: ServerConnection, sync: int, request: AuthRequest) -> bytes:
        user = self._schema.user_by_name(request.user)
        sessions = self._node.sessions
        is_right = self._is_right_proof(connection, user, request.proof)
        if sessions.on_auth:
            await sessions.run_on_auth(RequestContext(connection.session, sync), user.name, is_right)
        if not is_right:
            raise client_error(ErrorCode.PASSWORD_MISMATCH, user.name)
        connection.session.credentials = connection.ctx.credentials = user.credentials
        return reply_ok(sync, self._schema.version)

    @staticmethod
    def _is_right_proof(connection: ServerConnection, user: User, proof: list[Any]) -> bool:
        """Check the scramble. A client may always become guest again with an empty proof, for connection pools."""
        if not proof and user.uid == UserId.GUEST and user.hash2 in _NO_PASSWORD:
            return True
        check_session(user)
        if len(proof) < 2:
            raise _invalid("authentication request body")
        candidate = proof[1]
        if not isinstance(candidate, bytes):
            raise _invalid("authentication scramble")
        if len(candidate) != SCRAMBLE_SIZE:
            raise _invalid("invalid scramble size")
        return is_right_scramble(candidate, connection.salt, user.hash2)

    # -- replication ------------------------------------------------------------------------------------------

    def _vote(self, connection: ServerConnection, row: Row) -> None:
        self._check_schema(row)
        if row.type == RequestType.VOTE:
            body = self._node.replication.requests.ballot().encode()
        else:
            body = bytes((0x81, Key.VCLOCK)) + self._node.state.vclock.encode()
        connection.reply(reply_body(row.sync, self._schema.version, body))

    def _replicate(self, connection: ServerConnection, row: Row) -> None:
        connection.hand_over(row)
