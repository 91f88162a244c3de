"""Triggers of the user: on spaces, transactions and the instance.

Lua keeps the lists of functions. Python has one dispatcher for each kind and knows whether a list is empty, so that
nothing is called in vain.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from box.data import codec
from box.errors import BoxError
from lua.bindings.binding import Binding, Outcome, exported, guarded, text

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from box.instance.node import Instance
    from box.instance.start_stages import Stage
    from box.session import Context
    from box.txn.transaction import Statement
    from lua.runtime import Runtime, Values


class TriggerBinding(Binding):
    """Connects the trigger lists of Lua with the core."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._enabled_events: set[str] = set()
        self._is_telling = False
        """True while the on_election triggers run, or are about to."""
        self._told: tuple[Any, ...] = ()
        """The role, term and leader at the last call of the on_election triggers."""

    # Spaces

    @guarded("space_check")
    def check_space(self, space_id: int) -> Outcome:
        """Check that a space exists.

        Raises:
            NoSuchSpaceError: NO_SUCH_SPACE.
        """
        self.node.schema.space(space_id)
        return None

    @guarded("space_trigger_enable")
    def enable_space(self, space_id: int, kind: bytes, count: int) -> Outcome:
        """Note how many triggers of a kind a space has now."""
        from lua.bindings.space_trigger import LuaSpaceTrigger

        space = self.node.schema.space(space_id)
        name = text(kind)
        triggers = space.on_replace if name == "on_replace" else space.before_replace
        installed = [trigger for trigger in triggers if isinstance(trigger, LuaSpaceTrigger)]
        if count == 0:
            for trigger in installed:
                triggers.remove(trigger)
        elif not installed:
            triggers.append(LuaSpaceTrigger(self.runtime, name, space))
        return None

    # Transactions

    @guarded("txn_trigger_enable")
    def enable_txn(self, kind: bytes) -> Outcome:
        """Note that the open transaction has triggers of a kind."""
        ctx = self.ctx
        txn = ctx.txn
        assert txn is not None  # Lua has checked that there is a transaction
        txn_id = txn.id
        hooks = txn.on_commit if kind == b"commit" else txn.on_rollback

        def run(statements: list[Statement]) -> Awaitable[None] | None:
            rows = [[item.old, item.new, item.space.id] for item in statements if item.space is not None]
            try:
                handle = self.runtime.handle_of("box.run_txn_triggers")
                outcome = self.runtime.start_inside(handle, kind, txn_id, codec.pack(rows), ctx=ctx)
            except BoxError as error:
                self._log(kind, error)
                return None
            return None if isinstance(outcome, tuple) else self._wait(kind, outcome)

        hooks.append(run)
        return None

    async def _wait(self, kind: bytes, outcome: Awaitable[Any]) -> None:
        try:
            await outcome
        except BoxError as error:
            self._log(kind, error)

    def _log(self, kind: bytes, error: BoxError) -> None:
        self.node.log.problem(error)

    # Events of the instance

    @exported("event_enable")
    def enable_event(self, name: bytes, count: int) -> None:
        """Note how many triggers an event has now."""
        if count:
            self._enabled_events.add(text(name))
        else:
            self._enabled_events.discard(text(name))

    @exported("event_shutdown_timeout")
    def set_shutdown_timeout(self, seconds: float) -> None:
        """Set the time limit of on_shutdown triggers and of clients that watch `box.shutdown`, in seconds."""
        self.node.shutdown_timeout = math.inf if math.isnan(seconds) else float(seconds)

    def access_denied(self, ctx: Context, error: BoxError) -> None:
        """Run the on_access_denied triggers; their errors are logged."""
        if "on_access_denied" not in self._enabled_events or error.fields is None:
            return
        names = [str(error.fields[name]).encode() for name in ("access_type", "object_type", "object_name")]
        try:
            self.runtime.invoke_now(self.runtime.handle_of("box.fire"), b"on_access_denied", *names, ctx=ctx)
        except BoxError as failure:
            self.node.log.error(f"on_access_denied trigger failed: {failure.message}")

    def forget_session(self, session_id: int) -> None:
        """Forget the `box.session.storage` of a session that has ended."""
        self.runtime.invoke_now(self.runtime.handle_of("box.forget_session"), session_id)

    async def shut_down(self) -> None:
        """Run the on_shutdown triggers until their time limit, each in a fiber of its own."""
        if "on_shutdown" in self._enabled_events:
            handle, limit = self.runtime.handle_of("box.shut_down"), self.node.shutdown_timeout
            self.runtime.number_next_call(self.node.log.system_fibers.get("on_shutdown", 0))
            await self.runtime.call_raw(handle, limit, ctx=self.node.new_context(), name="on_shutdown")

    async def reach(self, stage: Stage) -> None:
        """Run the on_recovery_state triggers; their errors are logged. Without triggers, no session is opened."""
        if self.runtime.closed or "on_recovery_state" not in self._enabled_events:
            return
        try:
            await self.fire("on_recovery_state", self.node.new_context(), stage.value)
        except BoxError as error:
            self.node.log.problem(error)

    def election_changed(self) -> None:
        """Run the on_election triggers soon, once for all changes until then.

        They may wait and begin a promotion themselves, so they do not run inside the change.
        """
        if "on_election" in self._enabled_events and not self._is_telling:
            self._is_telling = True
            self.node.loop.call_soon(self._tell_election)

    def _tell_election(self) -> None:
        self._is_telling = False
        elections = self.node.elections
        state = (elections.role, elections.raft.term, elections.raft.leader_id)
        if state == self._told or self.runtime.closed:
            return
        self._told, self._is_telling = state, True
        entry = self.runtime.handle_of("box.fire")
        self.runtime.start_then(self._election_told, entry, b"on_election", ctx=self.node.new_context())

    def _election_told(self, outcome: Values | BoxError) -> None:
        if isinstance(outcome, BoxError):
            self.node.log.problem(outcome)
        self._tell_election()

    async def fire(self, name: str, ctx: Context, *args: Any) -> None:
        """Run the triggers of an event, and raise their error.

        The events are on_connect, on_disconnect, on_auth (user name, whether authenticated), on_access_denied (access
        type, object type, object name), on_shutdown, on_schema_init, on_recovery_state (stage) and on_election.
        """
        if name in self._enabled_events:
            values = [item.encode() if isinstance(item, str) else item for item in args]
            await self.runtime.invoke(self.runtime.handle_of("box.fire"), name.encode(), *values, ctx=ctx)
