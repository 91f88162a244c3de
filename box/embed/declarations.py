"""Functions and triggers that a program declares on a node; they are installed each time the node starts.

```
function               a global of Lua with this name
on_connect             a client has connected; an error refuses it
on_disconnect          a session is over
on_shutdown            the node is about to stop, and still works
```
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from box.embed.arguments import checked_function
from box.embed.callables import FunctionTable, session_hook
from box.embed.shown_values import shown
from lua.boundary import description_of

if TYPE_CHECKING:
    from box.embed.callables import PythonFunction
    from box.embed.embedding import Embedding
    from box.embed.lua_instance import LuaInstance

SHUTDOWN_SECONDS = 3.0
"""The time that all on_shutdown triggers together may take, in seconds, as in Tarantool."""


def name_of(function: PythonFunction) -> str:
    """Return the name of a function, under which Lua finds it.

    Raises:
        TypeError: it cannot be called, or has no name.
    """
    name = getattr(checked_function(function), "__name__", None)
    if not isinstance(name, str):
        raise TypeError(f"{shown(function)} has no name: use node.function('name')(...)")
    return name


class NodeTrigger:
    """A trigger of a node; `remove()` removes it."""

    def __init__(self, declarations: Declarations, kind: str, function: PythonFunction) -> None:
        self._declarations = declarations
        self.kind = kind
        self.function = function

    def remove(self) -> None:
        """Remove the trigger; a second call does nothing."""
        self._declarations.remove(self)


class Declarations:
    """The declared functions and triggers of one node."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding
        self._functions: dict[str, PythonFunction] = {}
        # Replaced, never changed: threads of `box.sync` declare triggers while the loop's thread runs them.
        self._triggers: list[NodeTrigger] = []
        self._table: FunctionTable | None = None

    def function(self, name: str, function: PythonFunction) -> None:
        """Declare a function. It replaces an earlier one with the same name."""
        self._functions[name] = checked_function(function)
        if self._table is not None:
            self._table.define(name, function)

    def trigger(self, kind: str, function: PythonFunction) -> NodeTrigger:
        """Declare a trigger of the kind `on_connect`, `on_disconnect` or `on_shutdown`; the newest runs first."""
        trigger = NodeTrigger(self, kind, checked_function(function))
        self._triggers = [trigger, *self._triggers]
        return trigger

    def remove(self, trigger: NodeTrigger) -> None:
        """Remove a trigger."""
        self._triggers = [other for other in self._triggers if other is not trigger]

    def apply(self, instance: LuaInstance) -> None:
        """Install all declared functions and triggers on a new instance."""
        self._table = FunctionTable(self._embedding, instance.runtime)
        for name, function in self._functions.items():
            self._table.define(name, function)
        sessions = instance.node.sessions
        sessions.on_connect.append(session_hook(self._embedding, self._of_kind("on_connect")))
        sessions.on_disconnect.append(session_hook(self._embedding, self._of_kind("on_disconnect")))

    def _of_kind(self, kind: str) -> PythonFunction:
        async def run_all(*args: Any) -> None:
            for trigger in [trigger for trigger in self._triggers if trigger.kind == kind]:
                result = trigger.function(*args)
                if inspect.iscoroutine(result):
                    await result

        return run_all

    def release(self) -> None:
        """Forget the instance, which has stopped."""
        self._table = None

    async def shut_down(self) -> None:
        """Run the on_shutdown triggers until their time limit; their errors are logged."""
        contexts, log = self._embedding.contexts, self._embedding.core.log
        try:
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                await contexts.drive_inside(contexts.new(), self._of_kind("on_shutdown")())
        except TimeoutError:
            log.error("on_shutdown triggers in Python did not finish in time")
        except Exception as error:
            log.error(f"on_shutdown trigger in Python failed: {description_of(error)}")
