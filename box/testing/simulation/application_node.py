"""A `box.Node` over a simulated instance.

The module is imported on demand, because it needs Lua, which takes time to load.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context as ContextVariables
from typing import Any

from box.embed import LuaInstance, Node
from box.instance.node import Instance
from box.log import Level
from box.testing.simulation.log_lines import LogLines
from lua.machine import Machine


class ApplicationNode(Node):
    """The `box.Node` of a simulated node, whose machine, loop and log are simulated."""

    def __init__(self, make: Callable[[], LuaInstance], lines: LogLines, options: dict[str, Any]) -> None:
        super().__init__(None, **options)
        self._make = make
        self._made: LuaInstance | None = None
        self._lines = lines

    def _log_lines(self) -> Callable[[Level, str], None]:
        lines, forward = self._lines, super()._log_lines()

        def take(level: Level, text: str) -> None:
            lines.take(level, text)
            if not lines.is_deaf:
                forward(level, text)

        return take

    def _make_instance(self) -> LuaInstance:
        self._made = self._make()
        return self._made

    def abandon(self) -> None:
        """Release Lua after the process has ended.

        If a Lua function has ended the process and still runs, this happens after it returns.
        """
        if self._made is None:
            return
        runtime = self._made.runtime
        if runtime.fiber_id:
            runtime.loop.call_soon(runtime.abandon, context=ContextVariables())
        else:
            runtime.abandon()


def make_application(
    instance: Instance, machine: Machine, lines: LogLines, options: dict[str, Any], on_exit: Callable[[], None]
) -> ApplicationNode:
    """Return the `box.Node` of an instance that is not configured yet.

    `on_exit` is called when Lua ends the process.
    """
    return ApplicationNode(
        lambda: LuaInstance(
            loop=instance.loop,
            node=instance,
            write=lambda text: None,
            on_exit=lambda code: on_exit(),
            machine=machine,
        ),
        lines,
        options,
    )
