"""Lunabox: a database node in Python with Tarantool's box API.

    from box import Node

Everything else is imported from its module. `Node` is loaded when it is asked for, because it brings LuaJIT along,
which readers of files (`box.spark`) do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from box.errors import BoxError

if TYPE_CHECKING:
    from box.embed import Node

__all__ = ["BoxError", "Node"]


def __getattr__(name: str) -> Any:
    if name == "Node":
        from box.embed import Node

        return Node
    raise AttributeError(f"module 'box' has no attribute {name!r}")
