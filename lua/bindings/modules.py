"""Binds the Python halves of the Lua modules that are not part of `box`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from box.instance.node import Instance
    from lua.runtime import Runtime

_HALVES: Final = {
    "datetime.DatetimeBinding": ("datetime", "interval"),
    "decimal.DecimalBinding": ("decimal",),
    "digest.DigestBinding": ("digest",),
    "fio.FioBinding": ("fio", "process", "pwd"),
    "http_client.HttpClientBinding": ("http",),
    "key_def.KeyDefBinding": ("key",),
    "log.LogBinding": ("log",),
    "merger.MergerBinding": ("merger",),
    "net_box.NetBoxBinding": ("netbox",),
    "popen.PopenBinding": ("popen",),
    "socket.SocketBinding": ("socket",),
    "swim.SwimBinding": ("swim",),
    "uri.UriBinding": ("uri",),
    "utf8.Utf8Binding": ("utf8",),
    "uuid.UuidBinding": ("uuid",),
    "xlog.XlogBinding": ("xlog",),
    "yaml.YamlBinding": ("yaml",),
}
"""Each half and what the names of its functions begin with. A half is imported when Lua uses a function of it for the
first time, because most programs need few of them."""


def bind_modules(runtime: Runtime, node: Instance) -> None:
    """Bind the functions that the modules below lua/modules call in Python, and extend Lua's own libraries.

    Call it once for each runtime, before any other Lua code runs.
    """
    for half, prefixes in _HALVES.items():
        runtime.bind_later(prefixes, _Half(half, runtime, node))
    if not runtime.machine.has_outside:
        runtime.bind_later(("refuse",), _Half("outside.OutsideBinding", runtime, node))
    runtime.release(runtime.compile(b"return require('internal.library') or true", "=modules"))


def import_halves() -> None:
    """Import every half, in a process that will be forked, so that the forks need no imports."""
    for half in _HALVES:
        import_module(f"lua.bindings.{half.partition('.')[0]}")


class _Half:
    """Imports and binds a Python half."""

    __slots__ = ("_name", "_node", "_runtime")

    def __init__(self, name: str, runtime: Runtime, node: Instance) -> None:
        self._name = name
        self._runtime = runtime
        self._node = node

    def __call__(self) -> None:
        module, _, binding = self._name.partition(".")
        getattr(import_module(f"lua.bindings.{module}"), binding)(self._runtime, self._node)
