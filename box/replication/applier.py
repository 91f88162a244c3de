"""The applier: fetches the rows of one source and applies them here (states in `box.replication.applier_machine`).

`start` connects in the background and pauses at CONNECTED, once the peer has sent its uuid and its ballot, so that the
instance can compare all its peers before it decides whether to join one or to follow them. `bootstrap` joins the peer
and pauses at READY; `resume` lets the applier subscribe. After an error the applier tries again every
`replication_timeout` seconds, unless only a person can resolve the error (STOPPED).

The rows of a transaction are applied together, in the order of their origin (see `box.replication.row_sink`). The
applier does not wait for their journal write, except for ROLLBACK and PROMOTE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final
from uuid import UUID

from box.errors import BoxError, ErrorCode, client_error
from box.net.dial import open_connection, require_binary
from box.net.peer_connection import PeerConnection
from box.net.uri import address_of, check
from box.replication.applier_host import ApplierHost, UpstreamTimes, journal_of
from box.replication.applier_machine import ApplierEvent, ApplierMachine, ApplierStep, Wishes
from box.replication.joining import Bootstrap, SnapshotTarget, receive_final_rows, receive_snapshot
from box.replication.row_order import OutOfOrder
from box.replication.silence import tolerated_wait
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
"""Seconds between attempts to subscribe again while the peer has not noticed the end of the former subscription."""


class Applier:
    """The applier of one source of `box.cfg.replication`.

    `on_connect` is called when the peer has sent its uuid and ballot, and may raise an error to refuse the peer.
    `on_state` is called after every change of state.
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
        """The address without user and password, for the log."""
        self.ballot = Ballot()
        self.uuid: UUID | None = None
        self.times = UpstreamTimes(host.loop)
        self._host = host
        self._on_connect = on_connect
        self._on_state = on_state
        self._machine = ApplierMachine(self._state_entered)
        self._wishes = Wishes()
        self._changes = Waiters()
        """Woken by a new wish, by a connection and by the end of the task."""
        self._task: asyncio.Task[None] | None = None
        self._open: PeerConnection | None = None
        self._subscription: Subscription | None = None
        self._bootstrap: Bootstrap | None = None
        self._version = 0
        self._fatal: BoxError | None = None
        self.asked: frozenset[int] | None = None
        """The ids of the origins whose rows the subscription asks for; None for all."""
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
        """True if the peer has answered and no error has come since."""
        return self._machine.is_connected

    @property
    def is_self(self) -> bool:
        """True if the address leads to this instance itself."""
        return self.uuid == self._host.instance.instance_uuid

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def is_subscribed(self) -> bool:
        """True if the peer sends its rows."""
        return self.state in (ApplierState.SYNC, ApplierState.FOLLOW)

    def known_vclock(self) -> VClock:
        """Return the last vclock that the peer has sent of itself."""
        known = self.ballot.vclock.copy()
        if self._subscription is not None:
            known.merge_max(self._subscription.remote_vclock)
        return known

    @property
    def peer_id(self) -> int:
        """The peer's id in `_cluster`, 0 until it is known."""
        return 0 if self._subscription is None else self._subscription.peer_id

    # -- life cycle -----------------------------------------------------------------------------

    def start(self) -> None:
        """Connect in the background, unless the applier is running already."""
        if not self.is_running:
            self._fatal = None
            name = f"applier/{self.address}"
            self._host.log.add_fiber(name)
            self._task = self._host.loop.create_task(self._run(), name=name)
            self._task.add_done_callback(self._ended)

    def resume(self) -> None:
        """Let the applier subscribe, and start it if it is not running."""
        self._wishes.may_subscribe = self._wishes.may_go_on = True
        self._changes.wake()
        self.start()

    async def bootstrap(self, target: SnapshotTarget, finish: Callable[[VClock], Awaitable[None]]) -> None:
        """Join the peer, which must be CONNECTED, or fetch its snapshot as an anonymous replica; then pause at READY.

        A peer that is not ready (LOADING) is asked again and again.

        Raises:
            BoxError: the error that ends the join for good.
        """
        self._bootstrap = Bootstrap(target, finish, self._host.loop.create_future())
        self._wishes.may_go_on = True
        self._changes.wake()
        self.start()
        await self._bootstrap.done

    async def stop(self) -> None:
        """Stop the applier and wait for its end; the state is OFF afterwards."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._disconnect()
            self._machine.stop()

    async def close(self) -> None:
        """Stop the applier for good and close its session."""
        await self.stop()
        await self._host.close_context(self.ctx)

    def fail(self, error: BoxError) -> None:
        """Stop with an error of the journal if the applier is applying rows."""
        if self._task is not None and self._machine.is_writing:
            self._fatal = error
            self._task.cancel()

    def resubscribe(self) -> None:
        """Subscribe again, so that the peer sends the rows that are wanted now."""
        if self.is_subscribed and self._subscription is not None:
            self._subscription.interrupt()

    def signal_ack(self) -> None:
        """Send an acknowledgement soon, because rows were written to the journal."""
        if self._subscription is not None:
            self._subscription.signal_ack()

    def tell_alive(self) -> None:
        """Send an acknowledgement during a long computation, if the last one is a while ago."""
        if self._subscription is not None:
            self._subscription.tell_alive()

    async def wait_connected(self) -> None:
        """Wait until the peer has answered or the applier has given up."""
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
        """End the join and wake the waiting tasks when the applier's task has ended."""
        self._end_bootstrap(self.error or client_error(ErrorCode.CFG, "replication", "the join was cancelled"))
        self._changes.wake()

    async def _attempt(self) -> bool:
        """Connect and take the wanted steps until an error comes. Returns whether to try again."""
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
        """Return the seconds to wait before subscribing again, or None if the error ends the attempt.

        A peer refuses a subscription (CFG) while it has not noticed the end of the former one.
        """
        if error.code != ErrorCode.CFG or self.state is not ApplierState.READY:
            return None
        return next(delays, None)

    def _fail(self, error: BoxError) -> bool:
        """End the attempt with an error. Returns whether to try again."""
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
        log.problem(error)
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
        connection = await open_connection(
            host.loop, host.network, self.uri, tolerated_wait(host.options), keeps_rows=True
        )
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
            answer = await connection.request(messages.vote_row(), timeout=tolerated_wait(self._host.options))
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
        """Log in as the user that the address names.

        This happens only after the pause at CONNECTED: a peer in recovery can send its ballot but has no users yet.
        """
        uri = check(self.uri, "replication")
        self._machine.handle(ApplierEvent.LOGIN)
        await self._connection.authenticate(
            uri.login or "", uri.password or "", timeout=tolerated_wait(self._host.options)
        )
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
        """Ask the peer for an id in `_cluster`, when an anonymous replica becomes a member of the replica set."""
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
            await subscription.begin(tolerated_wait(self._host.options))
            self._subscription = subscription
            await subscription.run(f"applierw/{self.address}")
        except OutOfOrder:
            if not subscription.is_interrupted:
                self._host.ask_everything(self.uuid, "rows of other origins are missing")
            raise Resubscription from None
