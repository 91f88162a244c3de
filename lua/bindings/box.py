"""Joins a node with a Lua runtime: binds the Python halves of the table `box`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from box.session import Context
from lua.bindings.cfg import CfgBinding
from lua.bindings.error import ErrorBinding
from lua.bindings.events import EventBinding
from lua.bindings.info import InfoBinding
from lua.bindings.session import SessionBinding
from lua.bindings.sql import SqlBinding
from lua.bindings.triggers import TriggerBinding
from lua.bindings.txn import TxnBinding

if TYPE_CHECKING:
    from box.instance.node import Instance
    from box.schema.access import Credentials
    from lua.bindings.binding import Binding
    from lua.runtime import Runtime


_OF_SCHEMA: Final = (
    "call",
    "c",
    "count",
    "cursor",
    "function",
    "index",
    "password",
    "reads",
    "schema",
    "sequence",
    "space",
    "tuple",
)
"""Prefixes of the names of bound functions that need the schema's modules."""


class BoxBindings:
    """Binds everything and loads the Lua table `box`; one for each runtime.

    Sessions and the shutdown run the triggers that Lua sets. What needs the schema's modules is bound when Lua uses it
    for the first time, at the latest in `box.cfg`; afterwards `node.functions` runs CALL and EVAL.
    """

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        self._runtime = runtime
        self._node = node
        self._session = SessionBinding(runtime, node)
        self._triggers = TriggerBinding(runtime, node)
        self._tell_denials(
            self._session,
            self._triggers,
            TxnBinding(runtime, node),
            InfoBinding(runtime, node),
            ErrorBinding(runtime, node),
            CfgBinding(runtime, node),
            EventBinding(runtime, node),
            SqlBinding(runtime, node),
        )
        runtime.bind_later(_OF_SCHEMA, self._bind_schema)
        runtime.release(runtime.compile(b"return require('box')", "=box"))
        self._connect_sessions(node)

    def _bind_schema(self) -> None:
        from lua.bindings.data import DataBinding
        from lua.bindings.functions import FunctionBinding
        from lua.bindings.schema import SchemaBinding
        from lua.bindings.sequences import SequenceBinding

        runtime, node = self._runtime, self._node
        functions = FunctionBinding(runtime, node, self._session)
        data, sequences = DataBinding(runtime, node), SequenceBinding(runtime, node)
        self._tell_denials(functions, data, sequences, SchemaBinding(runtime, node, functions))
        node.functions = functions

    def _tell_denials(self, *bindings: Binding) -> None:
        for binding in bindings:
            binding.on_access_denied = self._triggers.access_denied

    def _connect_sessions(self, node: Instance) -> None:
        triggers = self._triggers

        def admin() -> Credentials:
            """Return the credentials for triggers of connections; on_auth triggers run with those of the client
            instead.
            """
            return node.schema.admin

        async def on_connect(ctx: Context) -> None:
            await triggers.fire("on_connect", Context(ctx.session, admin()))

        async def on_disconnect(ctx: Context) -> None:
            if triggers.runtime.closed:
                return  # the end of a connection was noticed after the end of Lua, so there are no triggers any more
            await triggers.fire("on_disconnect", Context(ctx.session, admin()))
            triggers.forget_session(ctx.session.id)

        async def on_auth(ctx: Context, user: str, is_authenticated: bool) -> None:
            await triggers.fire("on_auth", ctx, user, is_authenticated)

        node.on_shutdown.append(triggers.shut_down)
        node.stages.hooks.append(triggers.reach)
        node.on_election.append(triggers.election_changed)
        node.sessions.on_connect.append(on_connect)
        node.sessions.on_disconnect.append(on_disconnect)
        node.sessions.on_auth.append(on_auth)
        node.sessions.on_access_denied.append(triggers.access_denied)
