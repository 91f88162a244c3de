"""The Python halves of the Lua modules that are not part of `box`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lua.bindings.mod_data import DataBinding
from lua.bindings.mod_decimal import DecimalBinding
from lua.bindings.mod_digest import DigestBinding
from lua.bindings.mod_fio import FileBinding
from lua.bindings.mod_log import LogBinding
from lua.bindings.mod_netbox import NetBoxBinding
from lua.bindings.mod_socket import SocketBinding
from lua.bindings.mod_text import TextBinding
from lua.bindings.mod_yaml import YamlBinding

if TYPE_CHECKING:
    from box.instance.node import Node
    from lua.runtime import Runtime

_BINDINGS = (
    LogBinding,
    TextBinding,
    DecimalBinding,
    DigestBinding,
    FileBinding,
    SocketBinding,
    NetBoxBinding,
    DataBinding,
)


def bind_modules(runtime: Runtime, node: Node) -> None:
    """Bind what the modules below lua/modules call in Python, and extend Lua's own libraries. Once a runtime, before
    any other Lua code runs."""
    for binding in _BINDINGS:
        binding(runtime, node)
    YamlBinding(runtime)
    runtime.release(runtime.compile(b"return require('internal.library') or true", "=modules"))
