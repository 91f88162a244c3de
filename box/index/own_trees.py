"""The B-trees of this package: types of their own, so that nodes of indexes are told from other libraries' trees.

A program may use BTrees for itself, as ZODB does. What is done to the nodes of indexes behind its back
(`box.index.untracked`) must not reach its trees, whose cycles the garbage collector has to find.

```
tree          leaf          keys
ObjectTree    ObjectLeaf    Python objects
NumberTree    NumberLeaf    unsigned numbers of 64 bits, held without Python objects
```

An inner node makes its leaves of `_bucket_type`, and further nodes of its own type.
"""

from __future__ import annotations

from typing import Final

from BTrees.OOBTree import OOBTree, OOBucket
from BTrees.QOBTree import QOBTree, QOBucket


class ObjectLeaf(OOBucket):  # type: ignore[misc]
    """A leaf of an `ObjectTree`."""

    __slots__ = ()


class ObjectTree(OOBTree):  # type: ignore[misc]
    """A tree whose keys are Python objects."""

    __slots__ = ()
    _bucket_type = ObjectLeaf


class NumberLeaf(QOBucket):  # type: ignore[misc]
    """A leaf of a `NumberTree`."""

    __slots__ = ()


class NumberTree(QOBTree):  # type: ignore[misc]
    """A tree whose keys are unsigned numbers of 64 bits."""

    __slots__ = ()
    _bucket_type = NumberLeaf


LEAVES: Final = (ObjectLeaf, NumberLeaf)
NODES: Final = frozenset({ObjectTree, ObjectLeaf, NumberTree, NumberLeaf})
