"""The memory of tuples and indexes: its calculation, and the limit `memtx_memory`.

```
limit = used + room        a primary index takes room for each of its tuples, and returns it

of a tuple      its MessagePack, the object around it, and a place in every index of its space
of a place      the node's share of the tree, and the object that is the key
```

The costs were measured with CPython and the `BTrees` package: the growth of a process by 300,000 entries in any order.
"""

from __future__ import annotations

from mmap import mmap
from typing import TYPE_CHECKING, Final

from box.data.types import FieldType

if TYPE_CHECKING:
    from box.data.keydef import PartDef

TUPLE_COST: Final = 41
"""The memory of a tuple besides its MessagePack, in bytes: the header of a `bytes` object (33) and half of the
allocator's step of 16."""
_PLACE_COST: Final = 32
"""The memory of a place in a tree, in bytes: two words in nodes that are half to three quarters full, and the inner
nodes."""
_NUMBER_COST: Final = 32
"""The memory of a key that is a number, in bytes."""
_TEXT_COST: Final = 64
"""The memory of a key that is text or binary of a usual length, in bytes."""
_TUPLE_KEY_COST: Final = 64
"""The memory of the tuple object of a key with several parts, without the parts, in bytes."""
_STEP: Final = 1 << 20
"""How much memory may be taken, in bytes, before the size of the process is read again, which takes some
microseconds."""
_SPARE: Final = 16 << 20
"""The memory that tuples and indexes leave free, in bytes, so that requests can be answered when the quota is used
up."""
_NUMBERS: Final = frozenset({FieldType.UNSIGNED, FieldType.INTEGER, FieldType.NUMBER, FieldType.DOUBLE})


class MemoryQuota:
    """The memory limit of one instance, and how many bytes of it are left; without a limit there is always room.

    `room` is the number of bytes that may be taken without asking. `extend` asks for more, step by step, and checks
    whether the process can get it. `room` may become negative, because an undone change is never refused, and only the
    MessagePack of a new tuple is compared.
    """

    __slots__ = ("_granted", "limit", "room")

    UNLIMITED: Final = 1 << 62

    def __init__(self, limit: int = UNLIMITED) -> None:
        self.limit = limit
        self._granted = self.room = limit if limit == self.UNLIMITED else 0

    @property
    def used(self) -> int:
        """The bytes that all tuples and indexes take."""
        return self._granted - self.room

    @property
    def available(self) -> int:
        """The bytes that are left of the limit."""
        return self.limit - self.used

    def set_limit(self, limit: int) -> None:
        """Change the limit. Memory in use stays counted."""
        self._granted = self.used
        self.room = 0
        self.limit = limit

    def extend(self, size: int) -> bool:
        """Make room for `size` bytes. Returns False if the limit or the process's memory is exhausted."""
        if size <= self.room:
            return True
        missing = size - self.room
        if missing > self.limit - self._granted or not _has_memory(missing + _STEP + _SPARE):
            return False
        step = min(missing + _STEP, self.limit - self._granted)
        self._granted += step
        self.room += step
        return True

    def __repr__(self) -> str:
        return f"<memory {self.used} of {self.limit} bytes>"


def _has_memory(size: int) -> bool:
    """Return whether the process can get that many bytes; its address space may be limited (`ulimit -v`)."""
    try:
        mmap(-1, size).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def place_cost(parts: tuple[PartDef, ...], *, is_unique: bool) -> int:
    """Return the bytes of one entry of an index."""
    first = parts[0]
    if is_unique and len(parts) == 1:
        if first.type is FieldType.UNSIGNED and not first.is_nullable:
            return _PLACE_COST  # the tree stores the number itself
        return _PLACE_COST + (_NUMBER_COST if first.type in _NUMBERS else _TEXT_COST)
    if not is_unique:
        return _PLACE_COST + _TEXT_COST  # the parts of the key and those of the primary key are packed into one object
    keys = sum(_NUMBER_COST if part.type in _NUMBERS else _TEXT_COST for part in parts)
    return _PLACE_COST + _TUPLE_KEY_COST + keys
