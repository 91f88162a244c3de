"""Write plans: how to check a tuple of a space and where to store it, worked out once for each layout of the space.

A plan is kept with the space (`Space.write_plan`), which forgets it when another layout is installed.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Final

from box.data.codec import unpack
from box.errors import ErrorCode, client_error, out_of_memory
from box.index.duplicate_key import duplicate_key
from box.txn.exchange import check_old

if TYPE_CHECKING:
    from collections.abc import Callable

    from box.data.keydef import SortKey
    from box.errors import BoxError
    from box.index.memory import MemoryQuota
    from box.schema.space import Space

MAX_TUPLE_SIZE: Final = 1048576
"""The default of `memtx_max_tuple_size`, in bytes."""
TUPLE_OVERHEAD: Final = 14
"""The bytes that Tarantool adds to the MessagePack of a tuple; `memtx_max_tuple_size` counts them."""
NO_MEMORY: Final = -1
"""A size limit that no tuple can meet, so that writes need no check of their own for ERRINJ_TUPLE_ALLOC."""
_OFFSET_SIZE: Final = 4
"""The bytes of a field offset in a Tarantool tuple."""


class WritePlan:
    """How tuples of one space are checked and stored, and which way its changes take.

    `is_usual`: only the indexes take part in a change, and the journal or the limbo in its commit (see `fast_path`).
    `is_versioned`: the same where tuples have versions, so that a change in a transaction goes through the plan of the
    transaction (see `versioned_plan`), and a change by itself can be usual while no tuple has versions.
    `is_filled`: only a sequence or check constraints keep it from being usual or versioned; a `TransactionWriter` can
    take care of them. `is_sync`: the limbo takes part in each commit. `max_tuple_size` includes Tarantool's overhead;
    `max_size` is what remains for the MessagePack, in bytes. `ignore` takes the errors that an upsert ignores.
    """

    __slots__ = (
        "add",
        "add_new",
        "find",
        "format",
        "has_many_keys",
        "has_one_index",
        "ignore",
        "is_filled",
        "is_sync",
        "is_usual",
        "is_versioned",
        "key_of",
        "max_size",
        "memory",
        "overhead",
        "parse",
        "put",
        "remove",
        "replace",
        "replace_all",
        "replace_present",
        "secondary",
        "set_many",
        "validate",
        "validate_fields",
    )

    def __init__(
        self,
        space: Space,
        max_tuple_size: int,
        memory: MemoryQuota,
        *,
        fast_allowed: bool,
        has_versions: bool,
        ignore: Callable[[BoxError], None] = lambda error: None,
    ) -> None:
        index = space.primary
        self.ignore = ignore
        self.format = space.format
        self.overhead = TUPLE_OVERHEAD + _OFFSET_SIZE * _offset_count(space)
        self.max_size = max_tuple_size - self.overhead
        self.memory = memory
        self.validate = space.format.validate
        self.validate_fields = space.format.validate_fields
        is_simple = (
            index is not None
            and space.is_plain
            and space.system_trigger is None
            and not space.is_being_defined
            and not (space.rules or space.referrers)
            and not any(other.has_slots for other in space.indexes.values())
            and not (space.is_local or space.is_temporary or space.definition.opts.view)
        )
        is_usual = is_simple and space.sequence is None and not space.checks
        self.is_filled = is_simple and not is_usual and fast_allowed
        self.is_usual = is_usual and fast_allowed and not has_versions
        self.is_versioned = is_usual and fast_allowed and has_versions
        self.is_sync = space.is_sync
        self.has_one_index = len(space.indexes) == 1
        self.secondary = [other for other in space.indexes.values() if other is not index]
        self.has_many_keys = any(other.has_many_keys for other in self.secondary)
        if index is None:
            # Without a primary key, `space.index(0)` raises NO_SUCH_INDEX_ID at the first change.
            self.key_of: Callable[[list[Any]], SortKey] = lambda fields: space.index(0).key_of(fields)
        else:
            self.find = index.find
            self.parse = index.key_def.parse
            self.key_of = index.key_of
            self.add = index.add
            self.add_new = index.add_new
            self.replace = index.replace
            self.replace_all = index.replace_all
            self.replace_present = index.replace_present
            self.put = index.put
            self.remove = index.remove
            self.set_many = index.set_many

    def on(self, indexes: list[Any], memory: MemoryQuota) -> WritePlan:
        """Return a copy for other indexes with the same definitions, the primary one first, and other memory."""
        plan, primary = copy(self), indexes[0]
        plan.find, plan.replace, plan.put, plan.remove = primary.find, primary.replace, primary.put, primary.remove
        plan.add, plan.add_new, plan.replace_present = primary.add, primary.add_new, primary.replace_present
        plan.secondary = indexes[1:]
        plan.memory = memory
        return plan

    def check_size(self, raw: bytes) -> None:
        """Check that a tuple is not too large, and that there is memory for it.

        Raises:
            DataError: MEMTX_MAX_TUPLE_SIZE.
            OutOfMemory: the memory limit is reached.
        """
        if len(raw) <= self.max_size and self.memory.extend(len(raw)):
            return
        size = len(raw) + self.overhead
        if len(raw) <= self.max_size or self.max_size == NO_MEMORY - self.overhead:
            raise out_of_memory(size, "slab allocator", "memtx_tuple")
        raise client_error(ErrorCode.MEMTX_MAX_TUPLE_SIZE, size)

    def exchange_all(self, space: Space, old: bytes | None, key: SortKey, new: bytes, fields: list[Any]) -> None:
        """Replace `old`, which has the same primary key or is None, by `new` in all of several indexes.

        Raises:
            DuplicateKeyError: TUPLE_FOUND in a secondary index; nothing is changed.
            BoxError: an error of `Index.keys_of`; nothing is changed.
        """
        if self.has_many_keys:
            self._exchange_many(space, old, key, new, fields)
            return
        changes = []
        for index in self.secondary:
            new_key = index.key_of(fields)
            if index.is_unique and (present := index.find(new_key)) is not None and present != old:
                raise duplicate_key(index, space.name, present, new)
            changes.append((index, new_key))
        if old is None:
            self.put(key, new)
            for index, new_key in changes:
                index.put(new_key, new)
            return
        old_fields = unpack(old)
        self.replace(key, new)
        for index, new_key in changes:
            old_key = index.key_of(old_fields)
            if old_key == new_key:
                index.put(new_key, new)
            else:
                index.move(old_key, new_key, new)

    def remove_all(self, space: Space, key: SortKey, old: bytes) -> None:
        """Remove the tuple with a primary key from all of several indexes.

        Raises:
            BoxError: an error of `Index.keys_of`; nothing is changed.
        """
        if self.has_many_keys:
            check_old(space, old)
        fields = unpack(old)
        self.remove(key)
        for index in self.secondary:
            if index.has_many_keys:
                for other in index.stored_keys(old, fields):
                    index.remove(other)
            else:
                index.remove(index.key_of(fields))

    def _exchange_many(self, space: Space, old: bytes | None, key: SortKey, new: bytes, fields: list[Any]) -> None:
        """Replace `old` by `new` like `exchange_all`, for indexes with several keys for a tuple."""
        changes = []
        for index in self.secondary:
            new_keys = index.keys_of(new, fields)
            if index.is_unique:
                for new_key in new_keys:
                    if (present := index.find(new_key)) is not None and present != old:
                        raise duplicate_key(index, space.name, present, new)
            changes.append((index, new_keys))
        if old is None:
            self.put(key, new)
            for index, new_keys in changes:
                for new_key in new_keys:
                    index.put(new_key, new)
            return
        old_fields = unpack(old)
        exchanges = [(index, index.keys_of(old, old_fields), new_keys) for index, new_keys in changes]
        self.put(key, new)
        for index, old_keys, new_keys in exchanges:
            index.exchange(old_keys, new_keys, new)


def _offset_count(space: Space) -> int:
    """Return the number of field offsets in a Tarantool tuple: one for each key field outside its natural place."""
    places: set[Any] = set()
    for index in space.indexes.values():
        parts = index.definition.parts
        if index.definition.opts.get("func"):
            continue
        if index.key_def.is_multikey:
            places.add("[*]")  # Tarantool stores the number of elements of a multikey array in one more offset
        if all(part.fieldno == number and part.path is None for number, part in enumerate(parts)):
            continue
        places |= {(part.fieldno, part.path) for part in parts if part.fieldno or part.path is not None}
    return len(places)


class Planner:
    """Makes the write plans of one node's spaces. `has_versions`: tuples have versions."""

    def __init__(self, max_tuple_size: int, memory: MemoryQuota, *, has_versions: bool) -> None:
        self.max_tuple_size = max_tuple_size
        self.has_memory = True
        """False if no tuple can be stored (ERRINJ_TUPLE_ALLOC)."""
        self.on_ignored: Callable[[BoxError], None] = lambda error: None
        """Called with an error that an upsert ignores."""
        self._memory = memory
        self._has_versions = has_versions
        self._fast_allowed = True
        """False in tests and measurements that compare the fast path with the general one."""

    def plan(self, space: Space) -> WritePlan:
        """Return the plan for the space's present layout, made at the first call."""
        plan: WritePlan | None = space.write_plan
        if plan is None:
            limit = self.max_tuple_size if self.has_memory else NO_MEMORY
            plan = space.write_plan = WritePlan(
                space,
                limit,
                self._memory,
                fast_allowed=self._fast_allowed,
                has_versions=self._has_versions,
                ignore=self._ignore,
            )
        return plan

    def _ignore(self, error: BoxError) -> None:
        self.on_ignored(error)
