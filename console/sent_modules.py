"""Lua texts that a console sends to other nodes: modules of ours that need nothing but what every node offers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import lua

_MODULES: Final = Path(lua.__file__).with_name("modules") / "internal"
SENT: Final = frozenset({"console_names", "console_rows", "console_state"})


@cache
def sent_source(name: str) -> str:
    """The text of one of these modules."""
    if name not in SENT:
        raise ValueError(f"{name} is not for other nodes")
    return (_MODULES / f"{name}.lua").read_text(encoding="utf-8")


def source_of(name: bytes) -> bytes:
    """The same for Lua."""
    return sent_source(name.decode()).encode()


def call_of(module: str) -> str:
    """An expression to evaluate on a node: calls the function that the first argument names with the others."""
    return f"return (function() {sent_source(module)}\nend)()[...](select(2, ...))"
