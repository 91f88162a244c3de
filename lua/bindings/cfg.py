"""`box.cfg`, `box.ctl`, `box.snapshot` and `box.backup`: configuration and administration of the instance."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from box.data import codec
from box.errors import BoxError, fiber_is_cancelled, timed_out
from box.instance.config import Config
from box.instance.feedback import has_feedback_daemon
from box.instance.option_registry import DEPRECATED_NAMES
from lua.bindings.binding import Binding, Outcome, exported, guarded, text, waiting
from lua.bindings.environment import CALLER, options_from_environment

if TYPE_CHECKING:
    from box.instance.node import Instance
    from lua.runtime import Runtime


_SYSTEM_FIBERS = ("gc", "checkpoint_daemon", "memtx.gc", "vinyl.scheduler", "vinyl.vylog_flusher", "main")
"""The fibers that Tarantool makes when a start begins; `main` serves requests. Here they are tasks or nothing, and have
their numbers for the log."""

_FIBERS_OF_FEEDBACK = 8
"""The feedback daemon is started anew for each of its options, with two fibers each time."""


def _options_of(packed: bytes) -> dict[str, Any]:
    """Return the options of an array of names and values in turn."""
    items = codec.unpack(packed)
    return dict(zip(items[::2], items[1::2], strict=True))


def _pack_values(config: Config) -> bytes:
    return codec.pack({name: value for name, value in config.values.items() if value is not None})


class CfgBinding(Binding):
    """Configuration and administration of the instance, for Lua."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._lock = asyncio.Lock()

    @guarded("box_config_check")
    def check(self, options: bytes) -> bytes:
        """Check the options of the first `box.cfg{...}` without setting them. Returns the values of all options that
        have one.

        Raises:
            ConfigError: CFG.
        """
        config, warnings = Config(), list[str]()
        try:
            config.load(self._with_environment(options), warnings.append)
        except BoxError:
            for warning in warnings:  # a start logs them itself
                self.node.log.warn(warning)
            raise
        return _pack_values(config)

    @waiting("box_configure")
    async def configure(self, options: bytes) -> None:
        """Run `box.cfg{...}`; concurrent calls wait for each other."""
        fiber = self.node.log.fiber()
        async with self._lock:
            node = self.node
            node.configuring_fiber = fiber
            given = _options_of(options) if node.is_configured else self._with_environment(options)
            if not node.is_configured:
                node.log.system_fibers |= self.runtime.number_system_fibers(_SYSTEM_FIBERS)
            # Lua repeats a failed join itself, because its triggers of on_schema_init have to run before each attempt.
            try:
                await node.configure(given, joins_again=False)
            finally:
                node.configuring_fiber = None

    @exported("box_number_fibers")
    def number_fibers(self, highest: int) -> None:
        """Number the next fibers as Tarantool does after a start; `highest` is the number of the last living one."""
        self.runtime.number_fibers_after(
            highest, _FIBERS_OF_FEEDBACK if has_feedback_daemon(self.node.config.values) else 0
        )

    @exported("box_join_is_undone")
    def join_is_undone(self) -> bool:
        """True if the start that has just failed may be tried again."""
        return self.node.is_join_undone

    def _with_environment(self, options: bytes) -> dict[str, Any]:
        given = _options_of(options)
        try:
            more = options_from_environment(os.environ)
        except BoxError as error:
            raise BoxError(error.code, CALLER + error.message, type=error.type) from error
        for name, value in more.items():
            if given.get(name) is None:
                given[name] = value
        return given

    @guarded("box_environment")
    def environment(self) -> bytes:
        """Return the options in variables of the environment.

        Raises:
            LuajitError: a value has a wrong type.
        """
        return codec.pack(options_from_environment(os.environ))

    @exported("box_option_name")
    def option_name(self, name: bytes) -> bytes:
        """Return the present name of an option, which may be given by its former name."""
        return DEPRECATED_NAMES.get(text(name), text(name)).encode()

    @exported("box_config_values")
    def values(self) -> bytes:
        """Return the values of all options that have one."""
        return _pack_values(self.node.config)

    @waiting("box_snapshot", is_cancellable=False)
    async def snapshot(self) -> bytes:
        """Make a snapshot. Returns 'ok'.

        Raises:
            ClientError: CHECKPOINT_IN_PROGRESS or CHECKPOINT_ROLLBACK.
            BoxSystemError: the files cannot be written.
        """
        await self.node.checkpoints.make_now()
        return b"ok"

    @guarded("backup_start")
    def backup_start(self, checkpoint: int) -> Outcome:
        """Return the files of a checkpoint and keep them; 0 is the newest checkpoint.

        Errors: BACKUP_IN_PROGRESS, MISSING_SNAPSHOT.
        """
        return codec.pack(self.node.checkpoints.backup_start(int(checkpoint)))

    @guarded("backup_stop")
    def backup_stop(self) -> Outcome:
        """Release the files of the backup."""
        self.node.checkpoints.backup_stop()
        return None

    @waiting("ctl_promote")
    async def promote(self) -> None:
        """Take over the limbo: `box.ctl.promote()`."""
        await self.node.elections.promote()

    @waiting("ctl_compare")
    async def compare(self, uri: bytes) -> bytes:
        """Compare the data here with that of another instance; see `Comparer.compare`."""
        comparison = await self.node.replication.comparer.compare(text(uri))
        return codec.pack(comparison.described())

    @guarded("ctl_wait_ro")
    def wait_ro(self, timeout: float | None = None) -> Outcome:
        """Wait until the instance is read-only. Raises TimedOut."""
        return self._wait_mode(True, timeout)

    @guarded("ctl_wait_rw")
    def wait_rw(self, timeout: float | None = None) -> Outcome:
        """Wait until the instance is writable. Raises TimedOut."""
        return self._wait_mode(False, timeout)

    def _wait_mode(self, is_read_only: bool, timeout: float | None) -> Outcome:
        node, runtime = self.node, self.runtime
        if node.mode.is_read_only == is_read_only:
            return None
        if timeout is not None and not timeout > 0:
            raise timed_out()

        # The change itself wakes the fiber, so that it runs at the next yield of the fiber that has changed the mode.
        def look() -> None:
            if node.mode.is_read_only == is_read_only:
                end()
                runtime.wake(token)

        def fail(error: BoxError) -> None:
            end()
            runtime.fail(token, error)

        def end() -> None:
            node.mode_changes.forget(look)
            if timer is not None:
                timer.cancel()

        token = runtime.new_token(lambda: fail(fiber_is_cancelled()))
        timer = None if timeout is None else runtime.loop.call_later(timeout, lambda: fail(timed_out()))
        node.mode_changes.call(look)
        return token

    @exported("ctl_is_recovery_finished")
    def is_recovery_finished(self) -> Any:
        """Return 1 if recovery has finished, otherwise 0."""
        return int(self.node.status in ("running", "orphan", "hot_standby"))
