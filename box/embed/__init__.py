"""Nodes inside a Python program: `from box import Node`.

    async with Node("data", listen=3301) as node:
        goods = await node.schema.create_space("goods", format=[("id", "unsigned"), ("name", "string")])
        await goods.create_index("pk")
        async with node.transaction():
            await goods.insert({"id": 1, "name": "pear"})
        await goods.get(1)          # goods(id=1, name='pear')

```
LuaInstance   lua_instance.py        an instance and its Lua runtime: consoles and the command line use it
Node          embedded_node.py       an instance for programs: an asynchronous context manager with Python values
NodeOptions   node_options.py        its options, typed
Spaces, ...   handles.py             spaces and their indexes, each with all requests
TransactionBlock                     transaction_block.py: statements of one task that succeed or fail together
RowPage               row_page.py            rows of a select and the position where they end
NamedRow      named_rows.py          tuples as they are given to the program; row_types.py: as objects of its classes
SchemaRequests                       schema_requests.py: spaces, users, roles, grants, functions; sequences.py
SqlResult, PreparedStatement         sql_statements.py: statements of SQL
Change, ...   change_stream.py       watching a space (commit_listener.py); log_replay.py: since a vclock
callables.py, declarations.py        Python functions and triggers that the instance calls
```

Several nodes may live in one process and on one loop. `box.sync` is for programs without a loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from box.errors import BoxError

if TYPE_CHECKING:
    from box.embed.callables import SessionInfo
    from box.embed.change_stream import Change, ChangesLost, ChangeStream
    from box.embed.embedded_node import Node, NodeInfo
    from box.embed.handles import IndexHandle, SpaceHandle
    from box.embed.lua_instance import LuaInstance
    from box.embed.named_rows import NamedRow
    from box.embed.node_options import NodeOptions
    from box.embed.row_page import RowPage
    from box.embed.schema_requests import GrantedPrivilege, SchemaRequests
    from box.embed.sequences import SequenceHandle
    from box.embed.sql_statements import PreparedStatement, SqlColumn, SqlResult
    from box.embed.transaction_block import TransactionBlock

__all__ = [
    "BoxError",
    "Change",
    "ChangeStream",
    "ChangesLost",
    "GrantedPrivilege",
    "IndexHandle",
    "LuaInstance",
    "NamedRow",
    "Node",
    "NodeInfo",
    "NodeOptions",
    "PreparedStatement",
    "RowPage",
    "SchemaRequests",
    "SequenceHandle",
    "SessionInfo",
    "SpaceHandle",
    "SqlColumn",
    "SqlResult",
    "TransactionBlock",
]

_MODULES = {
    "Change": "change_stream",
    "ChangeStream": "change_stream",
    "ChangesLost": "change_stream",
    "GrantedPrivilege": "schema_requests",
    "IndexHandle": "handles",
    "LuaInstance": "lua_instance",
    "NamedRow": "named_rows",
    "Node": "embedded_node",
    "NodeInfo": "embedded_node",
    "NodeOptions": "node_options",
    "PreparedStatement": "sql_statements",
    "RowPage": "row_page",
    "SchemaRequests": "schema_requests",
    "SequenceHandle": "sequences",
    "SessionInfo": "callables",
    "SpaceHandle": "handles",
    "SqlColumn": "sql_statements",
    "SqlResult": "sql_statements",
    "TransactionBlock": "transaction_block",
}
"""The module of each name that is imported only when a program asks for it, because the command does not need the
interface for programs."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"box.embed.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'box.embed' has no attribute {name!r}")
