"""The Python halves of the Lua modules that are not part of `box`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lua.bindings.mod_log import LogBinding

if TYPE_CHECKING:
    from box.node import Node
    from lua.runtime import Runtime


def bind_modules(runtime: Runtime, node: Node) -> None:
    """Bind everything that the modules below lua/modules call in Python. Once a runtime, before Lua runs."""
    for binding in (LogBinding,):
        binding(runtime, node)
