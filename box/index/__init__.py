"""Ordered (TREE) and hashed (HASH) indexes behind one interface."""

from box.index._factory import create_index
from box.index.base import Cursor, Entry, Index, IndexDef, IteratorType
from box.index.hash import HashIndex
from box.index.tree import TreeIndex

__all__ = ["Cursor", "Entry", "HashIndex", "Index", "IndexDef", "IteratorType", "TreeIndex", "create_index"]
