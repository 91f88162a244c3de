"""Positions: where a page of an iteration has ended, as a text that a client gives back to read on from there.

```
text       base64 without padding of   [values of the parts of the full key]
full key                               the index's parts, then those of the primary key that it lacks
```

TREE indexes have pages; others raise UNSUPPORTED_INDEX_FEATURE. Source: observed on a 2.11. As there, characters of a
text that are not of base64 are skipped.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING, Any, Final

from box.data.codec import pack, unpack
from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.index.iterator_type import IteratorType

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index.base import Index

# The digits of base64. A decoder skips other bytes, as Tarantool's does.
_DIGITS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_OTHERS: Final = bytes(set(range(256)) - set(_DIGITS))


def position_of_place(index: Index, raw: bytes, key: SortKey) -> bytes:
    """Return the position just after a tuple that the container holds under a key.

    Raises:
        ClientError: ITERATOR_POSITION, the function of the index gives other keys for the tuple than before.
    """
    try:
        return _encode(index.values_of_place(raw, unpack(raw), key))
    except StopIteration:
        raise _invalid() from None


def position_of_fields(index: Index, fields: list[Any]) -> bytes:
    """Return the position after a tuple that a user gave, which need not be in the index.

    Raises:
        ClientError: UNSUPPORTED, a functional or multikey index; ITERATOR_POSITION, the tuple lacks a field of the key
            or has one of a wrong type.
    """
    if "func" in index.definition.opts:
        raise unsupported("Functional index", "position by tuple")
    if index.has_many_keys:
        raise unsupported("Multikey index", "position by tuple")
    values = index.position_def.extract_values(fields)
    _check_values(index, values)
    return _encode(values)


def place_of_position(index: Index, iterator: int, key: list[Any], position: bytes) -> SortKey:
    """Return the key in the index's container that a position stands for.

    Raises:
        ClientError: ITERATOR_POSITION, the text is not a position of this index and this iteration;
            UNSUPPORTED_INDEX_FEATURE;
            KEY_PART_COUNT or KEY_PART_TYPE, the key does not fit the index.
    """
    prefix = index.key_def.parse_parts(key)
    values = _decode(position)
    parts = _check_values(index, values)
    check_pages(index)
    found, kind = parts[: len(prefix)], IteratorType(iterator)
    if kind in (IteratorType.EQ, IteratorType.REQ):
        is_inside = found == prefix
    else:
        is_inside = not (found > prefix if kind.is_reverse else found < prefix)
    if not is_inside and kind <= IteratorType.GT:
        raise _invalid()
    return index.key_of_position(values)


def check_pages(index: Index) -> None:
    """Check that an index supports pages. Raises UNSUPPORTED_INDEX_FEATURE."""
    if not index.has_pages:
        raise index.unsupported_feature("pagination")


def _check_values(index: Index, values: list[Any]) -> tuple[Any, ...]:
    """Check the values of a full key. Returns them as comparable parts."""
    definition = index.position_def
    if len(values) != len(definition):
        raise _invalid()
    try:
        return definition.parse_parts(values)
    except BoxError:
        raise _invalid() from None


def _encode(values: list[Any]) -> bytes:
    return b64encode(pack(values)).rstrip(b"=")  # without padding, as 2.11 writes it


def _decode(position: bytes) -> list[Any]:
    digits = position.translate(None, _OTHERS)
    try:  # Python's decoder wants the padding back, up to a multiple of four digits
        values = unpack(b64decode(digits + b"=" * (-len(digits) % 4)))
    except (Base64Error, ValueError, BoxError):
        raise _invalid() from None
    if type(values) is not list:
        raise _invalid()
    return values


def _invalid() -> BoxError:
    return client_error(ErrorCode.ITERATOR_POSITION)
