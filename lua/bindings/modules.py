"""Binds the Python halves of the Lua modules that are not part of `box`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lua.bindings.datetime import DatetimeBinding
from lua.bindings.decimal import DecimalBinding
from lua.bindings.digest import DigestBinding
from lua.bindings.fio import FioBinding
from lua.bindings.http_client import HttpClientBinding
from lua.bindings.iconv import IconvBinding
from lua.bindings.key_def import KeyDefBinding
from lua.bindings.log import LogBinding
from lua.bindings.merger import MergerBinding
from lua.bindings.net_box import NetBoxBinding
from lua.bindings.popen import PopenBinding
from lua.bindings.socket import SocketBinding
from lua.bindings.swim import SwimBinding
from lua.bindings.uri import UriBinding
from lua.bindings.utf8 import Utf8Binding
from lua.bindings.uuid import UuidBinding
from lua.bindings.xlog import XlogBinding
from lua.bindings.yaml import YamlBinding

if TYPE_CHECKING:
    from box.instance.node import Instance
    from lua.runtime import Runtime

_BINDINGS = (
    LogBinding,
    UriBinding,
    UuidBinding,
    Utf8Binding,
    IconvBinding,
    DecimalBinding,
    DatetimeBinding,
    DigestBinding,
    FioBinding,
    SocketBinding,
    PopenBinding,
    HttpClientBinding,
    NetBoxBinding,
    KeyDefBinding,
    MergerBinding,
    XlogBinding,
    SwimBinding,
)


def bind_modules(runtime: Runtime, node: Instance) -> None:
    """Bind the functions that the modules below lua/modules call in Python, and extend Lua's own libraries.

    Call it once for each runtime, before any other Lua code runs.
    """
    for binding in _BINDINGS:
        binding(runtime, node)
    YamlBinding(runtime)
    runtime.release(runtime.compile(b"return require('internal.library') or true", "=modules"))
