"""Lua modules that a console sends to other nodes. They need nothing but what every node offers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import lua

_MODULES: Final = Path(lua.__file__).with_name("modules") / "internal"
SENT: Final = frozenset({"console_names", "console_rows", "console_state"})


@cache
def sent_source(name: str) -> str:
    """Return the source of one of the modules that are sent to nodes."""
    if name not in SENT:
        raise ValueError(f"{name} is not for other nodes")
    return (_MODULES / f"{name}.lua").read_text(encoding="utf-8")


def source_of(name: bytes) -> bytes:
    """Return the source of such a module to Lua, as bytes."""
    return sent_source(name.decode()).encode()


def call_of(module: str) -> str:
    """Return a Lua expression that calls the function named by its first argument with the other arguments."""
    return f"return (function() {sent_source(module)}\nend)()[...](select(2, ...))"
