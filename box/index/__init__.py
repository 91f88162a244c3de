"""Ordered (TREE) and hashed (HASH) indexes behind one interface.

Names are imported on first use, because most of what this package is needed for needs no trees.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from box.index._factory import create_index
    from box.index.base import Cursor, Entry, Index, IndexDef
    from box.index.hash import HashIndex
    from box.index.iterator_type import IteratorType
    from box.index.tree import TreeIndex

__all__ = ["Cursor", "Entry", "HashIndex", "Index", "IndexDef", "IteratorType", "TreeIndex", "create_index"]

_MODULES = {
    "box.index._factory": ("create_index",),
    "box.index.base": ("Cursor", "Entry", "Index", "IndexDef"),
    "box.index.iterator_type": ("IteratorType",),
    "box.index.hash": ("HashIndex",),
    "box.index.tree": ("TreeIndex",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'box.index' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
