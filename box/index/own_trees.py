"""The B-trees of this package: separate types, so that nodes of indexes are distinguishable from other libraries'
trees.

A program may use BTrees itself, as ZODB does. The tricks on nodes of indexes (`box.index.untracked`) must not affect
its trees, whose cycles the garbage collector has to find.

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
