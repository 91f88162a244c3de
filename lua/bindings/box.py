"""Joins a node with a Lua runtime: binds the Python halves of the table `box`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from box.schema.ids import UserId
from box.session import Context
from lua.bindings.cfg import CfgBinding
from lua.bindings.data import DataBinding
from lua.bindings.error import ErrorBinding
from lua.bindings.events import EventBinding
from lua.bindings.functions import FunctionBinding
from lua.bindings.info import InfoBinding
from lua.bindings.schema import SchemaBinding
from lua.bindings.sequences import SequenceBinding
from lua.bindings.session import SessionBinding
from lua.bindings.sql import SqlBinding
from lua.bindings.triggers import TriggerBinding
from lua.bindings.txn import TxnBinding

if TYPE_CHECKING:
    from box.instance.node import Instance
    from box.schema.access import Credentials
    from lua.runtime import Runtime


class BoxBindings:
    """Binds everything and loads the Lua table `box`; one for each runtime.

    Afterwards `node.functions` runs CALL and EVAL, and sessions and the shutdown run the triggers that Lua sets.
    """

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        self.data = DataBinding(runtime, node)
        self.sequences = SequenceBinding(runtime, node)
        self.txn = TxnBinding(runtime, node)
        self.session = SessionBinding(runtime, node)
        self.info = InfoBinding(runtime, node)
        self.error = ErrorBinding(runtime, node)
        self.cfg = CfgBinding(runtime, node)
        self.triggers = TriggerBinding(runtime, node)
        self.events = EventBinding(runtime, node)
        self.functions = FunctionBinding(runtime, node, self.session)
        self.sql = SqlBinding(runtime, node)
        self.schema = SchemaBinding(runtime, node, self.functions)
        for binding in vars(self).values():
            binding.on_access_denied = self.triggers.access_denied
        runtime.release(runtime.compile(b"return require('box')", "=box"))
        node.functions = self.functions
        self._connect_sessions(node)

    def _connect_sessions(self, node: Instance) -> None:
        triggers = self.triggers

        def admin() -> Credentials:
            """Return the credentials for triggers of connections; on_auth triggers run with those of the client
            instead.
            """
            return node.schema.user(UserId.ADMIN).credentials

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
        node.sessions.on_connect.append(on_connect)
        node.sessions.on_disconnect.append(on_disconnect)
        node.sessions.on_auth.append(on_auth)
        node.sessions.on_access_denied.append(triggers.access_denied)
