"""Finds out whether a Lua statement is complete, with a Lua compiler that runs nothing."""

from __future__ import annotations

import importlib
from typing import Any

from lua.runtime import default_flavour

_CHECK = rb"""
local loadstring, find = loadstring, string.find
return function(text)
    local chunk, problem = loadstring(text)
    if chunk or not find(problem, " near '<eof>'$") then
        return true
    end
    return loadstring('return ' .. text) ~= nil
end
"""


class Syntax:
    """A separate Lua compiler, which can be used whatever the node's Lua is doing."""

    def __init__(self) -> None:
        lupa = importlib.import_module(f"lupa.{default_flavour()}")
        self._state: Any = lupa.LuaRuntime(encoding=None, register_eval=False, register_builtins=False)
        self._check: Any = self._state.execute(_CHECK)

    def is_complete(self, text: str, *, delimiter: str = "", language: str = "lua") -> bool:
        """Return False while more lines are needed: the statement is open, or the delimiter has not come yet."""
        if text.startswith("\\"):
            return True
        if delimiter:
            return text.endswith(delimiter)
        if language != "lua":
            return True
        return bool(self._check(text.encode(errors="surrogateescape")))
