"""Runs requests, by one method for each type: the general path. `ServerConnection` has a fast path for usual requests.

The order of checks is Tarantool's: the packet, the body of the request, schema version, space or user, the operation.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from box.data.codec import unpack
from box.data.marks import FIXMAP
from box.errors import BoxError, ErrorCode, client_error, illegal_params, unsupported
from box.iproto import sql_requests
from box.iproto.learned_bodies import BodyMeaning
from box.schema.access import EMPTY_PASSWORD, HASH_SIZE, Privilege, check_session, check_universe, decode_hash
from box.schema.ids import SYSTEM_ID_MAX, UserId
from box.schema.session_settings import ERROR_MARSHALING, SessionSettings
from box.session import Context
from box.wire.auth import SCRAMBLE_SIZE, is_right_scramble
from box.wire.change import Request, decode_change
from box.wire.client_requests import decode_begin, decode_id, decode_watch, encode_id
from box.wire.constants import DML_TYPES, Key, RequestType, stream_type_name
from box.wire.features import FEATURES
from box.wire.reply import reply_body, reply_ok
from box.wire.request import (
    AuthRequest,
    PageRequest,
    SelectRequest,
    SqlRequest,
    decode_auth,
    decode_call,
    decode_select,
    decode_sql,
    results_as_tuples,
)
from box.wire.row import Row, StreamRow, decode_header, is_msgpack, sync_of_broken_header

if TYPE_CHECKING:
    from box.iproto.connection import ServerConnection
    from box.iproto.request_streams import RequestStream
    from box.iproto.requester import Requester
    from box.iproto.server import IprotoServer
    from box.schema.access import User
    from box.session import RequestContext

_ITERATOR_MAX: Final = 12
"""The number of iterator types; valid types are below it."""
_DELAY: Final = 0.001
"""The seconds by which ERRINJ_IPROTO_TX_DELAY delays a data request."""
_DELAYED_SHARE: Final = 0.1
"""The share of data requests that ERRINJ_IPROTO_TX_DELAY delays."""
_NO_PASSWORD: Final = frozenset({bytes(HASH_SIZE), decode_hash(EMPTY_PASSWORD)})
_WRONG_CREDENTIALS: Final = frozenset({ErrorCode.NO_SUCH_USER, ErrorCode.PASSWORD_MISMATCH})
_CREDENTIALS_REFUSED: Final = "User not found or supplied credentials are invalid"
_STREAM_TYPE_MAX: Final = 17
"""The greatest request type that may be sent in a stream, except for PING, as in Tarantool."""
_LOGGED: Final = frozenset({ErrorCode.INVALID_MSGPACK, ErrorCode.MISSING_REQUEST_FIELD, ErrorCode.UNKNOWN_REQUEST_TYPE})
"""The codes of the errors that Tarantool finds when it decodes a packet, and logs."""
_WRITES_AT_START: Final = (
    "write requests, use box.ctl.is_recovery_finished() to check that snapshot recovery was completed"
)
_SETTINGS: Final = SessionSettings()
Handler = Callable[["ServerConnection", Row], None]
StreamHandler = Callable[["RequestStream", Row], None]


def _invalid(what: str) -> BoxError:
    return client_error(ErrorCode.INVALID_MSGPACK, what)


def _scramble_of(proof: list[Any]) -> bytes:
    """Return the scramble of an AUTH request, which the name of the method precedes.

    Raises:
        ClientError: INVALID_MSGPACK.
    """
    if len(proof) < 2:
        raise _invalid("authentication request body")
    scramble = proof[1]
    if not isinstance(scramble, bytes):
        raise _invalid("authentication scramble")
    if len(scramble) != SCRAMBLE_SIZE:
        raise _invalid("invalid scramble size")
    return scramble


def _check_body(row: Row) -> None:
    if row.body and not is_msgpack(row.body):
        raise _invalid("packet body")


class Dispatcher:
    """Runs the requests of all connections of one server."""

    def __init__(self, server: IprotoServer) -> None:
        self._server = server
        self._node = server.node
        self._schema = server.schema
        self._dml = server.dml
        anywhere: dict[int, Callable[[Requester, Row], None]] = {
            RequestType.SELECT: self._select,
            RequestType.INSERT: self._store,
            RequestType.REPLACE: self._store,
            RequestType.UPDATE: self._change,
            RequestType.DELETE: self._change,
            RequestType.UPSERT: self._change,
            RequestType.CALL: self._call,
            RequestType.CALL_16: self._call,
            RequestType.EVAL: self._call,
            RequestType.EXECUTE: self._sql,
            RequestType.PREPARE: self._sql,
            RequestType.PING: self._ping,
        }
        self._handlers: dict[int, Handler] = {
            **anywhere,
            RequestType.AUTH: self._auth,
            RequestType.VOTE: self._vote,
            RequestType.VOTE_DEPRECATED: self._vote,
            RequestType.JOIN: self._replicate,
            RequestType.SUBSCRIBE: self._replicate,
            RequestType.FETCH_SNAPSHOT: self._replicate,
            RequestType.REGISTER: self._replicate,
            RequestType.ID: self._id,
            RequestType.WATCH: self._watch,
            RequestType.UNWATCH: self._unwatch,
            RequestType.BEGIN: self._refuse_outside,
            RequestType.COMMIT: self._refuse_outside,
            RequestType.TXN_ROLLBACK: self._refuse_outside,
        }
        self._in_stream: dict[int, StreamHandler] = {
            **anywhere,
            RequestType.BEGIN: self._begin,
            RequestType.COMMIT: self._commit,
            RequestType.TXN_ROLLBACK: self._rollback,
        }
        self._without_body = (
            self._ping,
            self._vote,
            self._replicate,
            self._refuse_outside,
            self._commit,
            self._rollback,
        )
        """Handlers that do not decode the body, so that the dispatcher checks that it is well-formed."""

    def dispatch(self, connection: ServerConnection, packet: bytes) -> None:
        """Run the request of a whole packet, given without its length. Every failure becomes a reply."""
        try:
            row, body_at = decode_header(packet)
        except BoxError as error:
            self.log_refused(error)
            connection.reply_error(sync_of_broken_header(packet), error)
            return
        row.body = packet[body_at:]
        if isinstance(row, StreamRow):
            self._submit(connection, row)
        else:
            self.run(connection, row)

    def log_refused(self, error: BoxError) -> None:
        """Log why a packet was refused, under the name of the thread that decodes packets in Tarantool."""
        self._node.log.of_cord("iproto").problem(error)

    def run(self, connection: ServerConnection, row: Row) -> None:
        """Run the request of a decoded header and a raw body. Every failure becomes a reply.

        Only the lower byte of the header's type counts, as in Tarantool.
        """
        row.type &= 0xFF
        if self._is_late(row):
            self._server.loop.call_later(_DELAY, self._run, connection, row, self._handlers)
        else:
            self._run(connection, row, self._handlers)

    def _submit(self, connection: ServerConnection, row: StreamRow) -> None:
        """Run a request in its stream if it has one and its type is allowed there."""
        row.type &= 0xFF
        if row.type == RequestType.AUTH or (row.type > _STREAM_TYPE_MAX and row.type != RequestType.PING):
            refusal = client_error(ErrorCode.UNABLE_TO_PROCESS_IN_STREAM, stream_type_name(row.type))
            self.log_refused(refusal)
            connection.reply_error(row.sync, refusal)
        else:
            connection.streams.submit(row)

    def run_in_stream(self, stream: RequestStream, row: Row) -> None:
        """Run a request of a stream when its turn has come. Every failure becomes a reply."""
        if self._is_late(row):
            self._server.loop.call_later(_DELAY, self._run, stream, row, self._in_stream)
        else:
            self._run(stream, row, self._in_stream)

    def _is_late(self, row: Row) -> bool:
        return self._server.is_delayed and row.type in DML_TYPES and self._node.random.random() < _DELAYED_SHARE

    def _run(self, connection: Any, row: Row, handlers: Mapping[int, Callable[[Any, Row], None]]) -> None:
        try:
            handler = handlers.get(row.type)
            if handler is None or handler in self._without_body:
                _check_body(row)
            if handler is None:
                if row.type == RequestType.NOP and row.body:
                    raise _invalid("packet body")  # Tarantool's decoder reads no body for this type
                raise client_error(ErrorCode.UNKNOWN_REQUEST_TYPE, row.type)
            handler(connection, row)
        except BoxError as error:
            if error.code in _LOGGED:
                self.log_refused(error)
            self._node.sessions.tell_denied(connection.ctx, error)
            connection.reply_error(row.sync, error)
        except Exception as bug:
            connection.reply_error(row.sync, self.unexpected(bug))

    def unexpected(self, bug: Exception) -> BoxError:
        """Log a bug of the node, and return the error that the client gets instead, which does not mention Python."""
        self._node.log.error("".join(traceback.format_exception(bug)).rstrip())
        if isinstance(bug, MemoryError):
            return BoxError(ErrorCode.MEMORY_ISSUE, "not enough memory", type="OutOfMemory")
        return BoxError(ErrorCode.UNKNOWN, "internal error, see the log")

    def _space(self, ctx: Context, row: Row, space_id: int) -> Any:
        """Return the space of a data request, after the checks that come before those of the operation.

        During the start of an instance clients get the answers of 2.8.1 where these can be known: about missing spaces
        and missing privileges. User data is not read before all of it is loaded.
        """
        self._check_schema(row)
        space = self._schema.space(space_id)
        if not self._node.state.is_configured:
            self._check_access_at_start(ctx, row, space)
        if ctx.txn is not None and ctx.txn.aborted_by_yield:
            raise client_error(ErrorCode.TRANSACTION_YIELD)
        return space

    def _check_access_at_start(self, ctx: Context, row: Row, space: Any) -> None:
        if row.type != RequestType.SELECT:
            if space.is_temporary or space.is_local:
                raise unsupported("Snapshot recovery", _WRITES_AT_START)
            raise client_error(ErrorCode.READONLY)
        space.check_access(ctx.credentials, Privilege.R)
        if space.id > SYSTEM_ID_MAX:
            raise client_error(ErrorCode.LOADING)

    def _check_schema(self, row: Row) -> None:
        expected = row.schema_version & 0xFFFFFFFF  # Tarantool reads it into 32 bits
        if expected and expected != self._schema.version:
            # The text shows the number as signed.
            shown = expected - 2**32 if expected >= 2**31 else expected
            raise client_error(ErrorCode.WRONG_SCHEMA_VERSION, shown, self._schema.version)

    def _count(self, request_type: int) -> None:
        self._server.stats.collect(request_type)

    def _suspendable(self, connection: Requester, sync: int, work: Coroutine[Any, Any, bytes]) -> None:
        """Run a coroutine that may wait and returns a whole reply."""
        self._server.in_flight += 1
        self._server.spawn(self._finish(connection, sync, work))

    async def _finish(self, connection: Requester, sync: int, work: Coroutine[Any, Any, bytes]) -> None:
        try:
            connection.reply(await work)
        except BoxError as error:
            connection.reply_error(sync, error)
        except Exception as bug:
            connection.reply_error(sync, self.unexpected(bug))
        finally:
            self._server.leave()

    # -- data -------------------------------------------------------------------------------------------------

    def _select(self, connection: Requester, row: Row) -> None:
        request = decode_select(row.body)
        if request.page is not None:
            self._select_page(connection, row, request, request.page)
            return
        self._check_schema(row)
        if request.iterator >= _ITERATOR_MAX:
            error = illegal_params("Invalid iterator type")
            self._node.log.problem(error)
            raise error
        space = self._space(connection.ctx, row, request.space_id)
        meaning = BodyMeaning(space, request.index_id, request.iterator, request.offset, request.limit)
        key = unpack(request.key)
        read = self._dml.reads.begin_long(connection.ctx, *meaning, key)
        if read is None:
            connection.reply_rows(row.sync, self._dml.reads.select(connection.ctx, *meaning, key))
        else:
            connection.reply_read(row.sync, read)
        self._learn(row, Key.KEY, request.key, meaning)

    def _select_page(self, connection: Requester, row: Row, request: SelectRequest, page: PageRequest) -> None:
        """Serve SELECT with a position. The position in the request is decoded before the iterator is checked, as in
        2.11.
        """
        ctx, reads = connection.ctx, self._dml.reads
        space = self._space(ctx, row, request.space_id)
        iid, after = request.index_id, page.after
        if not after and page.after_tuple:
            after = reads.position(ctx, space, iid, unpack(page.after_tuple))
        arguments = (iid, request.iterator, request.offset, request.limit, unpack(request.key))
        if not after and not page.fetches:
            connection.reply_rows(row.sync, reads.select(ctx, space, *arguments))
            return
        read = reads.begin_long_page(ctx, space, *arguments, after)
        if read is None:
            found = reads.page(ctx, space, *arguments, after)
            connection.reply_page(row.sync, found.rows, found.position if page.fetches else None)
            return
        if not page.fetches:
            read.position_of = None
        connection.reply_read(row.sync, read)

    def _store(self, connection: Requester, row: Row) -> None:
        _check_body(row)  # decoding the request does not check the tuple
        space_id, request = decode_change(row.type, row.body)
        space, raw = self._space(connection.ctx, row, space_id), request.tuple
        self._write(connection, row, space, request)
        self._learn(row, Key.TUPLE, raw, BodyMeaning(space))

    def _change(self, connection: Requester, row: Row) -> None:
        space_id, request = decode_change(row.type, row.body)
        self._write(connection, row, self._space(connection.ctx, row, space_id), request)

    def _write(self, connection: Requester, row: Row, space: Any, request: Request) -> None:
        """Execute a change; it gets its own context if the space has triggers, which may wait."""
        ctx = connection.request_context(row.sync) if space.has_triggers else connection.ctx
        connection.finish_write(row.sync, self._dml.store_now(ctx, space, request.type, request.tuple, request))

    def _learn(self, row: Row, last_key: Key, last_value: bytes, meaning: BodyMeaning) -> None:
        """Remember the beginning of a body if the given value is the last one in it."""
        beginning = row.body[: len(row.body) - len(last_value)]
        if beginning[-1:] == bytes((last_key,)) and row.body.endswith(last_value):
            self._server.learned_bodies.learn(self._schema.version, row.type, beginning, meaning)

    # -- functions --------------------------------------------------------------------------------------------

    def _call(self, connection: Requester, row: Row) -> None:
        request = decode_call(row.type, row.body)
        self._check_schema(row)
        self._count(RequestType.EVAL if row.type == RequestType.EVAL else RequestType.CALL)
        ctx = connection.request_context(row.sync)
        connection.session.sync = row.sync
        functions = self._node.functions
        is_eval = row.type == RequestType.EVAL
        if functions is None or not self._node.state.is_configured:
            self._refuse_function(ctx, request.text, is_eval)
        connection.look_soon()
        ended = partial(self.function_ended, connection, row.type, ctx)
        if is_eval:
            functions.eval(ctx, request.text, request.args, ended)
        else:
            functions.call(ctx, request.text, request.args, ended, row.type == RequestType.CALL_16)
        if not ctx.has_ended:
            self.function_waits(connection, ctx)

    def function_waits(self, connection: Requester, ctx: RequestContext) -> None:
        """Count a function that has begun to wait; `function_ended` will be called at its end."""
        ctx.has_waited = True
        self._server.in_flight += 1
        connection.call_waits()

    def function_ended(
        self, connection: Requester, request_type: int, ctx: RequestContext, outcome: bytes | BoxError
    ) -> None:
        """Reply to CALL or EVAL after the function has ended. Raises nothing: no caller is left to handle it."""
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
        self, connection: Requester, request_type: int, ctx: RequestContext, outcome: bytes | BoxError
    ) -> None:
        """Reply to CALL or EVAL. Outside of streams, a transaction that is still open is rolled back and causes an
        error.
        """
        if ctx.txn is not None and not connection.keeps_transactions:
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
        """Refuse CALL or EVAL on a node without Lua or while it starts, for want of privileges first."""
        if is_eval:
            check_universe(ctx.credentials, Privilege.X)
            self._check_started()
            raise unsupported("A node without Lua", "EVAL")
        function = self._schema.function_by_name(name)
        if function is not None:
            function.check_access(ctx.credentials)
        else:
            check_universe(ctx.credentials, Privilege.X, "function", name)
        self._check_started()
        raise client_error(ErrorCode.NO_SUCH_PROC, name)

    def _check_started(self) -> None:
        if not self._node.state.is_configured:
            raise client_error(ErrorCode.LOADING)

    def _sql(self, connection: Requester, row: Row) -> None:
        request = decode_sql(row.body)
        self._check_schema(row)
        sql_requests.check_params(request.params)
        if not self._node.state.is_configured and self._schema.has_user_spaces:
            raise client_error(ErrorCode.LOADING)  # some data may not be loaded yet
        if row.type == RequestType.EXECUTE:
            point, values = sql_requests.point_of(self._node.sql, connection.ctx, request)
            if point is not None and self._server.statements.run(connection, row.sync, point, values):
                return
        self._suspendable(connection, row.sync, self._run_sql(connection, row, request))

    async def _run_sql(self, connection: Requester, row: Row, request: SqlRequest) -> bytes:
        """Execute SQL and return the reply. Outside of a stream, a transaction that the statement leaves open is rolled
        back, because no later request belongs to it.
        """
        sql, ctx = self._node.sql, connection.request_context(row.sync)
        try:
            if row.type == RequestType.PREPARE:
                body = sql_requests.prepare(sql, ctx, request)
            else:
                body = await sql_requests.execute(sql, ctx, request)
        except BoxError as error:
            self._node.sessions.tell_denied(ctx, error)
            raise
        finally:
            if ctx.txn is not None and not connection.keeps_transactions:
                self._node.txns.rollback_open(ctx, ctx.txn)
        return reply_body(row.sync, self._schema.version, body)

    # -- sessions ---------------------------------------------------------------------------------------------

    def _ping(self, connection: Requester, row: Row) -> None:
        self._check_schema(row)
        connection.reply(reply_ok(row.sync, self._schema.version))

    def _auth(self, connection: ServerConnection, row: Row) -> None:
        request = decode_auth(row.body)
        self._check_schema(row)
        self._check_started()
        self._count(RequestType.AUTH)
        self._suspendable(connection, row.sync, self._authenticate(connection, row.sync, request))

    async def _authenticate(self, connection: ServerConnection, sync: int, request: AuthRequest) -> bytes:
        try:
            user = await self._user_of(connection, sync, request)
        except BoxError as error:
            if error.code in _WRONG_CREDENTIALS and self._hides_users():
                _scramble_of(request.proof)
                raise BoxError(ErrorCode.PASSWORD_MISMATCH, _CREDENTIALS_REFUSED) from None
            raise
        connection.session.credentials = connection.ctx.credentials = user.credentials
        return reply_ok(sync, self._schema.version)

    def _hides_users(self) -> bool:
        """Return whether a refused AUTH must not reveal if the user exists; clients of the 2.11 line expect that."""
        version = self._node.config["iproto_greeting_version"]
        # 2.11 has one text for a wrong password and for an unknown user; earlier versions tell which it was.
        return version is not None and tuple(map(int, version.split("."))) >= (2, 11)

    async def _user_of(self, connection: ServerConnection, sync: int, request: AuthRequest) -> User:
        """Return the user that an AUTH request names, after its proof was checked.

        Raises:
            ClientError: NO_SUCH_USER, PASSWORD_MISMATCH, or an error of `_is_right_proof`.
        """
        user = self._schema.user_by_name(request.user)
        sessions = self._node.sessions
        is_right = self._is_right_proof(connection, user, request.proof)
        if sessions.on_auth:
            await sessions.run_on_auth(connection.request_context(sync), user.name, is_right)
        if not is_right:
            raise client_error(ErrorCode.PASSWORD_MISMATCH, user.name)
        return user

    @staticmethod
    def _is_right_proof(connection: ServerConnection, user: User, proof: list[Any]) -> bool:
        """Check the scramble of an AUTH request.

        With an empty proof any client becomes guest again, unless guest has a password: connection pools need that.

        Raises:
            ClientError: INVALID_MSGPACK, or the error of `check_session`.
        """
        if not proof and user.uid == UserId.GUEST and user.hash2 in _NO_PASSWORD:
            return True
        check_session(user)
        return is_right_scramble(_scramble_of(proof), connection.salt, user.hash2)

    def _id(self, connection: ServerConnection, row: Row) -> None:
        features = decode_id(row.body)
        self._check_schema(row)
        if FEATURES["error_extension"] in features:
            # Clients that do not announce this feature get errors among a function's results as texts.
            _SETTINGS.set(connection.session, ERROR_MARSHALING, True)
        connection.reply(reply_body(row.sync, self._schema.version, encode_id()))

    def _watch(self, connection: ServerConnection, row: Row) -> None:
        key = decode_watch(row.body)
        self._check_schema(row)
        connection.watch(key, row.sync)

    def _unwatch(self, connection: ServerConnection, row: Row) -> None:
        key = decode_watch(row.body)
        self._check_schema(row)
        connection.unwatch(key)

    # -- transactions -----------------------------------------------------------------------------------------

    def _refuse_outside(self, connection: ServerConnection, row: Row) -> None:
        refusal = client_error(ErrorCode.UNABLE_TO_PROCESS_OUT_OF_STREAM, stream_type_name(row.type))
        self.log_refused(refusal)
        raise refusal

    def _begin(self, stream: RequestStream, row: Row) -> None:
        request = decode_begin(row.body)
        self._check_schema(row)
        if request.timeout is not None and request.timeout < 0:
            raise illegal_params("timeout must be a number greater than 0")
        self._node.txns.begin_limited(stream.ctx, request.timeout, request.isolation)
        stream.reply(reply_ok(row.sync, self._schema.version))

    def _commit(self, stream: RequestStream, row: Row) -> None:
        self._check_schema(row)
        stream.finish_commit(row.sync, self._dml.commit_now(stream.ctx))

    def _rollback(self, stream: RequestStream, row: Row) -> None:
        self._check_schema(row)
        self._node.txns.rollback(stream.ctx)
        stream.reply(reply_ok(row.sync, self._schema.version))

    # -- replication ------------------------------------------------------------------------------------------

    def _vote(self, connection: ServerConnection, row: Row) -> None:
        self._check_schema(row)
        if row.type == RequestType.VOTE:
            body = self._node.replication.requests.ballot().encode()
        else:
            # Servers before the ballot asked with VOTE_DEPRECATED for the vclock alone.
            body = bytes((FIXMAP | 1, Key.VCLOCK)) + self._node.state.vclock.encode()
        connection.reply(reply_body(row.sync, self._schema.version, body))

    def _replicate(self, connection: ServerConnection, row: Row) -> None:
        connection.hand_over(row)
