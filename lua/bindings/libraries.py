"""Shared libraries that Lua programs open: those of `ffi.load` and modules written in C."""

from __future__ import annotations

import importlib
import os


def library_problem(name: bytes) -> bytes | None:
    """Return the reason why an existing library cannot be used: it lacks symbols. None if it can, or does not exist.

    Names without a slash are completed as in LuaJIT.
    """
    import ctypes  # few programs open libraries

    path = os.fsdecode(name)
    if "/" not in path:
        path = path if "." in path else f"{path}.so"
        path = path if path.startswith("lib") else f"lib{path}"
    try:
        ctypes.CDLL(path, mode=os.RTLD_NOW)
    except (OSError, ValueError) as error:
        text = str(error)
        return text.encode("utf-8", "surrogateescape") if "undefined symbol" in text else None
    return None


def share_lua(flavour: str) -> None:
    """Let modules written in C find the `lua_*` functions of this LuaJIT, which Python has opened for itself alone.

    This is delayed until the first such module is loaded, because afterwards another Lua of lupa imported in this
    process would call our functions.
    """
    import ctypes

    path = importlib.import_module(f"lupa.{flavour}").__file__
    try:
        ctypes.CDLL(path, mode=os.RTLD_GLOBAL | os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return  # the error of opening the module names the missing symbol


def icu_files() -> bytes:
    """Return the files of the ICU library, one in a line; empty if the machine has none."""
    from box.data.collation import icu_library_files  # few programs call ICU

    return "\n".join(icu_library_files()).encode()
