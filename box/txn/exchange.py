"""Plain exchanges of one tuple for another in all indexes of a space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from box.data.codec import unpack

if TYPE_CHECKING:
    from box.index import Index
    from box.schema.space import Space

Changed = tuple[bytes | None, bytes | None]
"""The tuples before and after a change; None stands for no tuple."""
Keys = Sequence[Any]
"""The keys of a tuple in one index: exactly one in most, any number if `Index.has_many_keys`."""


def keys_of(space: Space, raw: bytes) -> list[Keys]:
    """Return the keys of a stored tuple, by index."""
    fields = unpack(raw)
    return [index.stored_keys(raw, fields) for index in space.indexes.values()]


def check_old(space: Space, old: bytes) -> None:
    """Check that all keys of a tuple that is about to be removed can be computed.

    Only indexes with several keys for a tuple can fail here; the keys of others follow from the checked format.

    Raises:
        BoxError: an error of `Index.keys_of`.
    """
    for index in space.indexes.values():
        if index.has_many_keys:
            index.keys_of(old, unpack(old))


def note_refused(space: Space, refusing: Index, old: bytes | None, fields: list[Any], *, has_versions: bool) -> None:
    """Tell indexes with slots that one of the indexes has refused a tuple with these fields, which was to replace
    `old`.

    Where tuples have versions, Tarantool puts a tuple into all indexes before it looks for duplicates.
    """
    old_fields = None if old is None or has_versions else unpack(old)
    for index in space.indexes.values():
        if index.has_slots:
            key = index.key_of(fields)
            if index is refusing and not has_versions:
                index.refuse(key)
            else:
                index.undo_refused(None if old_fields is None else index.key_of(old_fields), key)
        if index is refusing and not has_versions:
            return


def exchange(space: Space, old: bytes | None, new: bytes | None, keys: list[Keys]) -> None:
    """Replace `old` by `new` in all indexes. `keys` are those of `new` by index, empty if it is None."""
    indexes = space.indexes.values()
    if new is None:
        assert old is not None
        for index, old_keys in zip(indexes, keys_of(space, old), strict=True):
            for key in old_keys:
                index.remove(key)
    elif old is not None and len(keys) > 1:
        for index, old_keys, new_keys in zip(indexes, keys_of(space, old), keys, strict=True):
            index.exchange(old_keys, new_keys, new)
    else:
        for index, new_keys in zip(indexes, keys, strict=True):
            for key in new_keys:
                index.put(key, new)
