"""Makes the index that a definition describes."""

from __future__ import annotations

from box.data.keydef import KeyDef, key_def_of
from box.errors import ErrorCode, client_error
from box.index.base import Index, IndexDef
from box.index.functional import DisabledIndex, FunctionalTreeIndex, KeyFunction
from box.index.hash import HashIndex
from box.index.tree import MultikeyTreeIndex, SparseTreeIndex, TreeIndex

_CLASSES: dict[str, type[Index]] = {"TREE": TreeIndex, "HASH": HashIndex}


def create_index(
    definition: IndexDef,
    primary: KeyDef | None = None,
    *,
    space_name: str = "",
    engine: str = "memtx",
    function: KeyFunction | None = None,
    hash_slots: bool = False,
) -> Index:
    """Make an empty index.

    `primary` is the primary index's key definition (None for the primary index itself). `function` is that of a
    functional index, which is disabled without one. With `hash_slots`, a HASH index has Tarantool's order.

    Raises:
        ClientError: INDEX_TYPE, the type is unknown. UNSUPPORTED_INDEX_FEATURE, an R-tree of so many dimensions.
    """
    kind = definition.type.upper()
    if definition.opts.get("func"):
        if function is None:
            return DisabledIndex(definition, primary, space_name=space_name, engine=engine)
        return FunctionalTreeIndex(definition, primary, space_name=space_name, engine=engine, function=function)
    if kind == "RTREE":
        from box.index.rtree import RtreeIndex

        return RtreeIndex(definition, primary, space_name=space_name, engine=engine)
    if kind == "BITSET":
        # Imported here, so that only a node with such an index loads what it needs.
        from box.index.bitset import BitsetIndex

        return BitsetIndex(definition, primary, space_name=space_name, engine=engine)
    if kind == "HASH" and hash_slots:
        from box.index.slotted_hash import SlottedHashIndex

        return SlottedHashIndex(definition, primary, space_name=space_name, engine=engine)
    if kind not in _CLASSES:
        raise client_error(ErrorCode.INDEX_TYPE, definition.name, space_name)
    chosen = _CLASSES[kind]
    if chosen is TreeIndex:
        chosen = _tree_class(definition)
    return chosen(definition, primary, space_name=space_name, engine=engine)


def _tree_class(definition: IndexDef) -> type[TreeIndex]:
    if key_def_of(definition.parts).is_multikey:
        return MultikeyTreeIndex
    return SparseTreeIndex if any(part.exclude_null for part in definition.parts) else TreeIndex
