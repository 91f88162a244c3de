"""The rules of the engine `memtx` for the definitions of indexes.

Source: `memtx_space_check_index_def` of the 2.8 line.
"""

from __future__ import annotations

from collections.abc import Callable

from box.data.types import FieldType
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.index import IndexDef
from box.schema.index_def import has_multikey

_UNINDEXED_TYPES = frozenset(("any", "interval", "array", "map"))
_BITSET_TYPES = frozenset(("unsigned", "string", "varbinary"))


def check_memtx_index(definition: IndexDef, space_name: str) -> None:
    """Check a definition by the rules of the engine.

    Raises:
        ClientError: MODIFY_INDEX, NULLABLE_PRIMARY, UNSUPPORTED or INDEX_TYPE.
    """

    def wrong(text: str) -> BoxError:
        return client_error(ErrorCode.MODIFY_INDEX, definition.name, space_name, text)

    parts, kind = definition.parts, definition.type
    if any(part.is_nullable for part in parts):
        if definition.iid == 0:
            raise client_error(ErrorCode.NULLABLE_PRIMARY, space_name)
        if kind != "TREE":
            raise unsupported(kind, "nullable parts")
    if kind == "HASH":
        if not definition.unique:
            raise wrong("HASH index must be unique")
        if has_multikey(parts):
            raise wrong("HASH index cannot be multikey")
        if definition.opts.get("func"):
            raise wrong("HASH index can not use a function")
    elif kind in ("RTREE", "BITSET"):
        _check_geometric_or_bits(definition, wrong)
        return
    elif kind != "TREE":
        raise client_error(ErrorCode.INDEX_TYPE, definition.name, space_name)
    for part in parts:
        if part.type.value in _UNINDEXED_TYPES:
            raise wrong(f"field type '{part.type.value}' is not supported")


def _check_geometric_or_bits(definition: IndexDef, wrong: Callable[[str], BoxError]) -> None:
    kind, part = definition.type, definition.parts[0]
    if len(definition.parts) != 1:
        raise wrong(f"{kind} index key can not be multipart")
    if definition.unique:
        raise wrong("RTREE index can not be unique" if kind == "RTREE" else "BITSET can not be unique")
    if kind == "RTREE" and part.type is not FieldType.ARRAY:
        raise wrong("RTREE index field type must be ARRAY")
    if kind == "BITSET" and part.type.value not in _BITSET_TYPES:
        raise wrong("BITSET index field type must be NUM or STR or VARBINARY")
    if has_multikey(definition.parts):
        raise wrong(f"{kind} index cannot be multikey")
    if definition.opts.get("func"):
        raise wrong(f"{kind} index can not use a function")
