"""The applier: fetches another instance's rows and applies them here (states in `box.replication.applier_machine`).

`start` connects in the background and stops at CONNECTED, when the peer has told its uuid and its ballot, so that the
instance can look at all its peers before it decides whom to join or that it follows them. `bootstrap` joins the peer
and stops at READY; `resume` lets the applier subscribe. After an error the applier tries again every
`replication_timeout` seconds, unless the error is one that only a person resolves (STOPPED).

Rows of one transaction are applied together, in the origin's order (see `box.replication.row_sink`); a transaction's
journal write is not waited for, except CONFIRM, ROLLBACK and PROMOTE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final
from uuid import UUID

from box.errors import BoxError, ErrorCode, client_error
from box.net.dial import address_of, open_connection, require_binary
from box.net.peer_connection import PeerConnection
from box.net.uri import check
from box.replication.applier_host import ApplierHost, UpstreamTimes, journal_of, patience
from box.replication.applier_machine import ApplierEvent, ApplierMachine, ApplierStep, Wishes
from box.replication.joining import Bootstrap, SnapshotTarget, receive_final_rows, receive_snapshot
from box.replication.row_order import OutOfOrder
from box.replication.state import ApplierState
from box.replication.subscription import Resubscription, Subscription
from box.waiters import Waiters
from box.wire import messages
from box.wire.ballot import Ballot
from box.wire.vclock import VClock

_WHILE: Final = {
    ApplierState.CONNECT: "can't connect to master",
    ApplierState.CONNECTED: "can't join/subscribe",
    ApplierState.READY: "can't join/subscribe",
    ApplierState.AUTH: "failed to authenticate",
    ApplierState.SYNC: "can't read row",
    ApplierState.FOLLOW: "can't read row",
    ApplierState.INITIAL_JOIN: "can't read row",
    ApplierState.FINAL_JOIN: "can't read row",
}


_NO_DELAYS: Final[tuple[float, ...]] = ()
_RESUBSCRIPTION_DELAYS: Final[tuple[float, ...]] = (0.005, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Seconds between attempts to subscribe anew while the peer still has the former subscription."""


class Applier:
    """One source of `box.cfg.replication`.

    `on_connect` is called when the peer has told who it is, and may raise to refuse it; `on_state` after each state.
    """

    def __init__(
        self,
        host: ApplierHost,
        uri: str,
        *,
        on_connect: Callable[[Applier], None],
        on_state: Callable[[Applier], None],
    ) -> None:
        self.ctx = host.applier_context()
        self.uri = uri
        self.address = address_of(uri)
        """Without user and password, for the log."""
        self.ballot = Ballot()
        self.uuid: UUID | None = None
        self.times = UpstreamTimes(host.loop)
        self._host = host
        self._on_connect = on_connect
        self._on_state = on_state
        self._machine = ApplierMachine(self._state_entered)
        self._wishes = Wishes()
        self._changes = Waiters()
        """Woken by a wish or a connection."""
        self._task: asyncio.Task[None] | None = None
        self._open: PeerConnection | None = None
        self._subscription: Subscription | None = None
        self._bootstrap: Bootstrap | None = None
        self._version = 0
        self._fatal: BoxError | None = None
        self.asked: frozenset[int] | None = None
        """Ids whose rows the subscription asks for; None: everybody's."""
        self._steps = {
            ApplierStep.WAIT: self._wait,
            ApplierStep.AUTHENTICATE: self._authenticate,
            ApplierStep.JOIN: self._join,
            ApplierStep.FETCH_SNAPSHOT: self._fetch_snapshot,
            ApplierStep.REGISTER: self._register,
            ApplierStep.SUBSCRIBE: self._subscribe,
        }

    def __repr__(self) -> str:
        return f"<Applier {self.address} {self.state.name}>"

    # -- questions ------------------------------------------------------------------------------

    @property
    def state(self) -> ApplierState:
        return self._machine.state

    @property
    def error(self) -> BoxError | None:
        """The error that ended the last attempt."""
        return self._machine.error

    @property
    def is_connected(self) -> bool:
        """The peer has answered, and nothing has gone wrong since."""
        return self._machine.is_connected

    @property
    def is_self(self) -> bool:
        """The source leads to this very instance."""
        return self.uuid == self._host.instance.instance_uuid

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def is_subscribed(self) -> bool:
        """The peer sends its rows."""
        return self.state in (ApplierState.SYNC, ApplierState.FOLLOW)

    def known_vclock(self) -> VClock:
        """The last vclock that the peer has told about itself."""
        known = self.ballot.vclock.copy()
        if self._subscription is not None:
            known.merge_max(self._subscription.remote_vclock)
        return known

    @property
    def peer_id(self) -> int:
        """The peer's id in `_cluster`, 0 until it has told."""
        return 0 if self._subscription is None else self._subscription.peer_id

    # -- life cycle -----------------------------------------------------------------------------

    def start(self) -> None:
        """Connect in the background; nothing happens if the applier runs already."""
        if not self.is_running:
            self._fatal = None
            self._task = self._host.loop.create_task(self._run(), name=f"applier/{self.address}")
            self._task.add_done_callback(self._ended)

    def resume(self) -> None:
        """Let the applier subscribe; starts it if it does not run."""
        self._wishes.may_subscribe = self._wishes.may_go_on = True
        self._changes.wake()
        self.start()

    async def bootstrap(self, target: SnapshotTarget, finish: Callable[[VClock], Awaitable[None]]) -> None:
        """Join the peer, which must be CONNECTED, or fetch its snapshot as an anonymous replica; then stop at READY.

        A peer that is not ready (LOADING) is asked again and again. Raises what ends the join for good.
        """
        self._bootstrap = Bootstrap(target, finish, self._host.loop.create_future())
        self._wishes.may_go_on = True
        self._changes.wake()
        self.start()
        await self._bootstrap.done

    async def stop(self) -> None:
        """Cancel and wait; the state is OFF afterwards."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._disconnect()
            self._machine.stop()

    async def close(self) -> None:
        """Stop for good."""
        await self.stop()
        await self._host.close_context(self.ctx)

    def fail(self, error: BoxError) -> None:
        """Stop with this error if the applier applies rows: one could not be written to the journal."""
        if self._task is not None and self._machine.is_writing:
            self._fatal = error
            self._task.cancel()

    def resubscribe(self) -> None:
        """Ask the peer for the part of its rows that is wanted now, if it sends another one."""
        if self.is_subscribed and self._subscription is not None:
            self._subscription.interrupt()

    def signal_ack(self) -> None:
        """The journal has grown: the peer is told."""
        if self._subscription is not None:
            self._subscription.signal_ack()

    def tell_alive(self) -> None:
        """The instance is busy: the peer is told in the middle of a turn that it lives."""
        if self._subscription is not None:
            self._subscription.tell_alive()

    async def wait_connected(self) -> None:
        """Until the peer has answered or the applier has given up."""
        await self._changes.until(lambda: self.is_connected or not self.is_running)

    def _state_entered(self, state: ApplierState) -> None:
        self._host.log.debug(f"=> {state.name}")
        self._on_state(self)

    # -- the reconnect loop -------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while await self._attempt():  # noqa: ASYNC110 - an attempt is more than a look
                await asyncio.sleep(self._host.options.timeout)
        except asyncio.CancelledError:
            self._disconnect()
            self._machine.stop(self._fatal)
            if self._fatal is None:
                raise
        except Exception as error:
            self._host.log.crit(f"applier {self.address}: unexpected error: {error!r}")
            self._disconnect()
            self._machine.stop(BoxError(ErrorCode.UNKNOWN, repr(error)))

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Whoever waits for the applier is told that it has given up."""
        self._end_bootstrap(self.error or client_error(ErrorCode.CFG, "replication", "the join was cancelled"))
        self._changes.wake()

    async def _attempt(self) -> bool:
        """Connect and do what is wanted until an error comes; False if that is the end."""
        event, delays = ApplierEvent.START, iter(_NO_DELAYS)
        while True:
            try:
                await self._connect(event)
                while True:
                    await self._steps[self._next_step()]()
            except Resubscription:
                event, delays = ApplierEvent.RESUBSCRIBE, iter(_RESUBSCRIPTION_DELAYS)
                self._disconnect()
            except BoxError as error:
                delay = self._delay_after(error, delays)
                if delay is None:
                    return self._fail(error)
                self._disconnect()
                await asyncio.sleep(delay)

    def _delay_after(self, error: BoxError, delays: Iterator[float]) -> float | None:
        """Seconds after which the applier may subscribe once more: the peer has not noticed the end of the former
        subscription. None for another error, or when that takes too long."""
        if error.code != ErrorCode.CFG or self.state is not ApplierState.READY:
            return None
        return next(delays, None)

    def _fail(self, error: BoxError) -> bool:
        """The attempt has ended; whether there is another one."""
        failure = self._machine.failure_of(error, is_self=self.is_self)
        if failure.is_news:
            self._log_error(error, failure.tries_again)
        self._disconnect()
        self._machine.fail(error, failure)
        return failure.tries_again

    def _next_step(self) -> ApplierStep:
        wishes = self._wishes
        wishes.wants_everything = self._bootstrap is not None
        wishes.is_anonymous = self._host.options.is_anonymous
        wishes.is_registered = self._host.instance.instance_id != 0
        return self._machine.next_step(wishes, has_login=check(self.uri, "replication").login is not None)

    def _end_bootstrap(self, error: BoxError | None) -> None:
        bootstrap, self._bootstrap = self._bootstrap, None
        if bootstrap is None or bootstrap.done.done():
            return
        if error is None:
            bootstrap.done.set_result(None)
        else:
            bootstrap.done.set_exception(error)

    def _log_error(self, error: BoxError, tries_again: bool) -> None:
        log = self._host.log
        if self.state in _WHILE:
            log.info(_WHILE[self.state])
        log.error(error.log_text)
        if tries_again:
            log.info(f"will retry every {self._host.options.timeout:.2f} second")

    def _disconnect(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _connection(self) -> PeerConnection:
        if self._open is None:
            raise AssertionError("the applier is not connected")
        return self._open

    # -- the steps --------------------------------------------------------------------------------------

    async def _connect(self, event: ApplierEvent) -> None:
        self._machine.handle(event)
        host = self._host
        check(self.uri, "replication")
        connection = await open_connection(host.loop, host.network, self.uri, patience(host.options), keeps_rows=True)
        self._open = connection
        self.times.touch()
        greeting = connection.greeting
        require_binary(greeting, "Unsupported protocol for replication")
        if self._version != greeting.version_id:
            self._version = greeting.version_id
            text = f"remote master {greeting.uuid} at {self.address} running Tarantool {greeting.version}"
            host.log.info(text)
        self.uuid = greeting.uuid
        await self._fetch_ballot(connection)
        self._machine.handle(ApplierEvent.GREETED)
        self._on_connect(self)
        if self.is_self:
            raise client_error(ErrorCode.CONNECTION_TO_SELF)
        self._changes.wake()

    async def _fetch_ballot(self, connection: PeerConnection) -> None:
        try:
            answer = await connection.request(messages.vote_row(), timeout=patience(self._host.options))
        except BoxError as error:
            # Versions before 1.10 do not know this request; they take part without a ballot.
            if error.code != ErrorCode.UNKNOWN_REQUEST_TYPE:
                raise
        else:
            self.ballot = Ballot.decode(answer.body)
        self.times.touch()

    async def _wait(self) -> None:
        await self._changes.next()

    async def _authenticate(self) -> None:
        """Not before the applier goes on: an instance that recovers does not know its users yet, but its ballot."""
        uri = check(self.uri, "replication")
        self._machine.handle(ApplierEvent.LOGIN)
        await self._connection.authenticate(uri.login or "", uri.password or "", timeout=patience(self._host.options))
        self.times.touch()
        self._host.log.info("authenticated")
        self._machine.handle(ApplierEvent.ACCEPTED)

    async def _join(self) -> None:
        self._connection.write_rows([messages.join_row(self._host.instance.instance_uuid)])
        self._machine.handle(ApplierEvent.JOIN)
        await self._receive_snapshot()
        self._host.log.info("initial data received")
        await receive_final_rows(self._host, self._connection, self.times, self.ctx)
        self._host.log.info("final data received")
        self._machine.handle(ApplierEvent.ROWS_END)
        self._end_bootstrap(None)

    async def _fetch_snapshot(self) -> None:
        self._connection.write_rows([messages.fetch_snapshot_row()])
        self._machine.handle(ApplierEvent.FETCH)
        await self._receive_snapshot()
        self._end_bootstrap(None)

    async def _receive_snapshot(self) -> None:
        bootstrap = self._bootstrap
        if bootstrap is None:
            raise AssertionError("nobody has asked for a join")
        await receive_snapshot(self._host, self._connection, self.times, bootstrap, self._join_has_begun)
        self._machine.handle(ApplierEvent.SNAPSHOT_END)

    def _join_has_begun(self) -> None:
        self._machine.has_received = True

    async def _register(self) -> None:
        """Ask the peer for a place in `_cluster` when an anonymous replica has become a member of the replica set."""
        here = self._host.instance
        self._connection.write_rows([messages.register_row(here.instance_uuid, here.vclock)])
        self._machine.handle(ApplierEvent.REGISTER)
        await receive_final_rows(self._host, self._connection, self.times, self.ctx)
        await journal_of(self._host).sync()
        self._machine.handle(ApplierEvent.ROWS_END)

    async def _subscribe(self) -> None:
        self.times.lag = float("inf")
        fetch = self._host.fetch_list(self.uuid)
        subscription = Subscription(self._host, self._machine, self.times, self.ctx, self._connection, fetch)
        self.asked = None if fetch is None else fetch.ids
        try:
            await subscription.begin(patience(self._host.options))
            self._subscription = subscription
            await subscription.run(f"applierw/{self.address}")
        except OutOfOrder:
            if not subscription.is_interrupted:
                self._host.ask_everything(self.uuid, "rows of other origins are missing")
            raise Resubscription from None
