"""An instance joined with a Lua runtime: the basis of consoles, the command line and embedded nodes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

from box.data.codec import pack
from box.instance.node import Instance
from box.log import Level
from box.session import Context
from lua.bindings.box import BoxBindings
from lua.bindings.console import ConsoleBinding
from lua.bindings.modules import bind_modules
from lua.machine import Machine
from lua.runtime import Runtime

_LEVELS = {
    "crit": Level.CRIT,
    "error": Level.ERROR,
    "warn": Level.WARN,
    "info": Level.INFO,
    "debug": Level.DEBUG,
}


_NAME_OF_FIBER = b"""
    local fiber = require('fiber')
    return function(id)
        local found = fiber.find(id)
        return found and found:name() or 'lua'
    end
"""


class LuaInstance:
    """A node and its Lua runtime. It stays unconfigured until Lua or Python calls `box.cfg`.

    `directory` holds the node's files; None means a node in memory. `write` receives what Lua prints, `on_exit` the
    code of `os.exit()`. `uses_stdout` is for a process that belongs to the instance: `print` writes to the C library's
    stream for standard output. `machine` gives Lua modules their files, sockets and clocks.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        flavour: str | None = None,
        write: Callable[[bytes], None] | None = None,
        uses_stdout: bool = False,
        on_exit: Callable[[int], None] | None = None,
        node: Instance | None = None,
        machine: Machine | None = None,
    ) -> None:
        self.loop = loop or asyncio.get_running_loop()
        self.node = node or Instance(directory, loop=self.loop)
        if os.environ.get("LUNABOX_HASH_ORDER") == "slots":
            self.node.on_schema_init.append(self._give_hashes_slots)
        self.runtime = Runtime(
            self.loop,
            flavour=flavour,
            new_context=self.node.new_context,
            end_context=self._end_context,
            log=self._log,
            log_problem=self.node.log.problem,
            write=write,
            uses_stdout=uses_stdout,
            on_exit=on_exit,
            clock=self.node.clock,
            monotonic=self.node.monotonic,
            fiber_round=self.node.round,
            machine=machine,
        )
        self.runtime.on_lend = self._share_transaction
        self.runtime.on_return = self._hide_doomed
        self.node.on_close.append(self.runtime.waits.pause)
        bind_modules(self.runtime, self.node)
        self.box = BoxBindings(self.runtime, self.node)
        self.text_consoles = ConsoleBinding(self.runtime, self.node)
        self._name_of_fiber = self.runtime.compile(_NAME_OF_FIBER, "=embed")
        self.node.log.fiber = self._current_fiber
        self.node.log.take_number = self.runtime.take_system_number

    def _current_fiber(self) -> tuple[int, str] | None:
        """Return the id and name of the running Lua fiber, or of the node's task (such as an applier's), for the log.

        Returns None if the loop itself calls something.
        """
        fiber_id = self.runtime.fiber_id
        if fiber_id and not self.runtime.closed:
            (found,) = self.runtime.invoke_now(self._name_of_fiber, fiber_id)
            return fiber_id, found.decode("utf-8", "replace") if isinstance(found, bytes) else "lua"
        task = asyncio.current_task(self.loop) if asyncio._get_running_loop() is self.loop else None
        if task is None or task.get_name().startswith("Task-"):
            return self.node.configuring_fiber
        return self.node.log.system_fiber(task.get_name())

    def _give_hashes_slots(self) -> None:
        """Let HASH indexes have Tarantool's order, before the first one is made."""
        from box.txn.engines import memtx_of

        memtx_of(self.node.schema.engines).hash_slots = True

    def _log(self, level: str, text: str, where: str = "") -> None:
        self.node.log.say(_LEVELS[level], text, where=where)

    def _share_transaction(self, ctx: Context) -> None:
        """Give the changes of a lone transaction versions, because other fibers may run while Lua has its context."""
        if ctx.txn is not None:
            self.node.txns.share(ctx.txn)

    def _hide_doomed(self, ctx: Context) -> None:
        """Undo what the aborted transaction of a call has changed, because the caller goes on in a later turn."""
        if ctx.txn is not None:
            self.node.txns.hide_doomed(ctx)

    def _end_context(self, ctx: Context) -> None:
        """Clean up after a fiber that has ended: roll back its open transaction, and end its session if it had
        its own.
        """
        self.node.txns.fiber_stopped(ctx)
        if ctx.session.type == "background":
            self.node.sessions.forget(ctx.session)

    async def configure(self, options: Mapping[str, Any]) -> None:
        """Call `box.cfg{...}`, as Lua code would."""
        await self.runtime.eval(b"box.cfg((...))", pack([dict(options)]), self.node.new_context())

    async def stop(self) -> None:
        """Stop the node, then Lua. Acknowledged changes are on disk, and no task or thread is left behind."""
        await self.node.close()
        await self.runtime.close()
