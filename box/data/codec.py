"""Converts between MessagePack and Python values, with Tarantool's extensions.

    nil     <-> None        str  <-> str (UTF-8; bytes that are not UTF-8 travel as surrogates)
    boolean <-> bool        bin  <-> bytes
    integer <-> int         array <-> list (tuples are packed as arrays too)
    float   <-> float       map  <-> dict
    ext 1   <-> Decimal     ext 2 <-> UUID     ext 6 <-> Interval
    ext 3   <-> BoxError (`box/data/error_body.py`); the other extensions are in `box/data/extensions.py`
    ext 4   <-> datetime, or Datetime for what Python's type cannot hold (`box/data/times`)
    other ext <-> Ext

The C extension of `msgpack` does the work. A Python decoder handles what it cannot (a map whose key is an array or a
map, more than 1,024 levels), and finds the error in malformed input.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from types import ModuleType
from typing import Any, Final

from msgpack import ExtType, Packer, Unpacker, UnpackException, unpackb

from box.data.deep import MAX_NESTING, end_of_scalar, read_container, skip, too_deep
from box.data.marks import ARRAY16, ARRAY32, EXT8, EXT32, FIXEXT1, FIXEXT16, FIXMAP, FIXSTR, FLOAT32, MAP32, UINT64
from box.errors import BoxError, ErrorCode, client_error

_TOO_DEEP: Final = "recursion limit exceeded"
"""The beginning of the C extension's message about a value with too many levels."""
_ARRAY_HEADER: Final = struct.Struct(">BI").pack
_MARK_VALUE: Final = 0xF1E2_D3C4_B5A6_9781
"""The value of the mark between values. Nothing else decodes to it: signed integers are smaller, and a double of that
size is even."""
_MARK: Final = struct.pack(">BQ", UINT64, _MARK_VALUE)
"""The bytes of the mark. Two marks cannot overlap, because the first byte does not occur again in them."""
_INVALID = (ValueError, IndexError, struct.error, RecursionError)


class Ext(ExtType):  # type: ignore[misc]  # msgpack has no types
    """A value of an extension type this node does not interpret: `code` (-128..127) and `data` (bytes)."""

    __slots__ = ()

    def __new__(cls, code: int, data: bytes) -> Ext:
        # ExtType refuses negative type codes, which are legal in MessagePack.
        return tuple.__new__(cls, (code, data))


class FrozenMap(dict[Any, Any]):
    """A map that is a key of another map, which Python requires to be hashable; never changed after decoding."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none
        return hash(frozenset(self.items()))


# One packer serves all threads: without a `default` hook, pack() runs no Python code and so keeps the GIL.
_pack: Callable[[Any], bytes] = Packer(autoreset=True).pack
pack_usual: Final = _pack
"""As `pack`, for values without extensions; raises TypeError, ValueError or OverflowError for others."""


_spare_packers: Final[list[Packer]] = []
"""At most one packer with a `default` hook, while it is not in use. It runs Python code, so threads cannot share it."""


def _new_packer() -> Packer:
    return Packer(default=_pack_default, unicode_errors="surrogateescape", autoreset=True)


def pack(value: Any) -> bytes:
    """Return the MessagePack bytes of a value.

    Raises:
        ClientError: PROC_RET, the type has no encoding.
        UnsupportedError: the value is nested too deep or contains itself.
    """
    try:
        return _pack(value)
    except (TypeError, UnicodeEncodeError):
        pass
    except (OverflowError, ValueError) as error:
        return _pack_refused(value, error)
    packer = _spare_packers.pop() if _spare_packers else _new_packer()
    try:
        packed: bytes = packer.pack(value)
    except (OverflowError, ValueError) as error:
        return _pack_refused(value, error)
    if not _spare_packers:
        _spare_packers.append(packer)
    return packed


def _pack_refused(value: Any, error: Exception) -> bytes:
    """Pack a value that the C extension refused, if the reason was its depth."""
    if str(error).startswith(_TOO_DEEP):
        return _pack_deep(value)
    raise client_error(ErrorCode.PROC_RET, f"integer: {error}") from None


def _pack_deep(value: Any) -> bytes:
    """Pack a value of up to MAX_NESTING levels."""
    parts: list[bytes] = []
    levels: list[Iterator[Any]] = [iter((value,))]
    is_open: dict[int, None] = {}
    """The ids of the containers whose elements are being packed, from the outermost to the innermost."""
    while levels:
        for item in levels[-1]:
            if isinstance(item, list | tuple) and not isinstance(item, ExtType):
                parts.append(pack_array_header(len(item)))
                elements: Iterator[Any] = iter(item)
            elif isinstance(item, dict):
                parts.append(pack_map_header(len(item)))
                elements = chain.from_iterable(item.items())
            else:
                parts.append(pack(item))
                continue
            if id(item) in is_open or len(levels) > MAX_NESTING:
                raise too_deep()
            levels.append(elements)
            is_open[id(item)] = None
            break
        else:
            levels.pop()
            if is_open:
                is_open.popitem()
    return b"".join(parts)


def pack_float32(value: float) -> bytes:
    """Return the 5-byte form of a number that fits a single-precision float."""
    return struct.pack(">Bf", FLOAT32, value)


def pack_array_header(size: int) -> bytes:
    """Return the header of an array of `size` elements."""
    if size < 16:  # the mark has four bits for it
        return bytes((0x90 | size,))
    return b"\xdc" + size.to_bytes(2, "big") if size < 0x10000 else b"\xdd" + size.to_bytes(4, "big")


def pack_map_header(size: int) -> bytes:
    """Return the header of a map of `size` pairs."""
    if size < 16:  # the mark has four bits for it
        return bytes((0x80 | size,))
    return b"\xde" + size.to_bytes(2, "big") if size < 0x10000 else b"\xdf" + size.to_bytes(4, "big")


@cache
def _extensions() -> ModuleType:
    """Return the module of Tarantool's extensions. It is imported at the first value of one, because `decimal`, `uuid`
    and time zones take long to load.
    """
    from box.data import extensions

    return extensions


def _pack_default(value: Any) -> Ext:
    return tuple.__new__(Ext, _extensions().encode(value))


def decode_ext(code: int, data: bytes) -> Any:
    """Decode an extension to its value, or an unknown one to an Ext: the decoder's `ext_hook`. Raises ValueError."""
    decode = _extensions().DECODERS.get(code)
    if decode is None:
        return Ext(code, data)
    try:
        return decode(data)
    except (ValueError, LookupError, BoxError) as error:
        raise ValueError(str(error)) from None


def unpack(raw: bytes, what: str = "packet body") -> Any:
    """Decode `raw`, which must hold exactly one value.

    Raises:
        ClientError: INVALID_MSGPACK ("Invalid MsgPack - <what>").
    """
    try:
        return unpackb(raw, strict_map_key=False, ext_hook=decode_ext, unicode_errors="surrogateescape")
    except (ValueError, TypeError):
        return _unpack_slow(raw, what)


_BYTES_A_FIELD: Final = 1024
"""The average size of a field from which it pays to look at each by itself."""
_EMPTY_OF: Final[dict[int, str | bytes]] = dict.fromkeys((0xD9, 0xDA, 0xDB), "") | dict.fromkeys(
    (0xC4, 0xC5, 0xC6), b""
)
"""The empty value by the mark of a text (str 8 to 32) or a binary (bin 8 to 32) whose length is a field of its own."""


def ext_hook_for(*, needs_decimals: bool, needs_uuids: bool) -> Callable[[int, bytes], Any]:
    """Return a decoder of extensions like `decode_ext`.

    Decimals or UUIDs that are not needed come as zero and as the nil UUID, because making an object takes longer than
    all else.
    """
    quick: dict[int, Callable[[bytes], Any]] | None = None

    def decode(code: int, data: bytes) -> Any:
        nonlocal quick
        if quick is None:
            quick = _extensions().quick_decoders(needs_decimals=needs_decimals, needs_uuids=needs_uuids)
        found = quick[code](data) if code in quick else None
        return decode_ext(code, data) if found is None else found

    return decode


def unpack_many(raws: Sequence[bytes], ext_hook: Callable[[int, bytes], Any] = decode_ext) -> list[Any] | None:
    """Decode many values with one call. Returns None if any of them is unusual, so that each has to be decoded
    separately.

    The values are decoded as one array with a mark after each. If the marks come out exactly at their positions, every
    item of `raws` held exactly one value.
    """
    count = len(raws)
    joined = _MARK.join((*raws, b""))
    if joined.count(_MARK) != count:
        return None
    try:
        values = unpackb(
            _ARRAY_HEADER(ARRAY32, 2 * count) + joined,
            strict_map_key=False,
            ext_hook=ext_hook,
            unicode_errors="surrogateescape",
        )
    except (ValueError, TypeError):
        return None
    return values[::2] if values[1::2] == [_MARK_VALUE] * count else None


def unpack_heads(raws: Sequence[bytes], count: int) -> list[list[Any]] | None:
    """Decode the first `count` fields of tuples, or all fields of shorter ones; None if one is not a well-formed array.

    The remaining fields do not become objects: for a large text that is not UTF-8 this saves 9 ms for each megabyte.
    """
    heads = []
    try:
        for raw in raws:
            unpacker = Unpacker(
                strict_map_key=False,
                ext_hook=decode_ext,
                unicode_errors="surrogateescape",
                max_buffer_size=len(raw),
            )
            unpacker.feed(raw)
            size = unpacker.read_array_header()
            heads.append([unpacker.unpack() for _ in range(min(size, count))])
            for _ in range(size - count):
                unpacker.skip()
            if unpacker.tell() != len(raw):
                return None
    except (ValueError, TypeError, UnpackException):
        return None
    return heads


def unpack_without_texts(raw: bytes, count: int) -> list[Any] | None:
    """Decode a tuple, but leave large texts and binaries after the first `count` fields empty.

    Returns None if the tuple is not a well-formed array, or if decoding it at once is faster because it has many
    fields, or large fields of other types.
    """
    fields: list[Any] = []
    try:
        kind, size, pos = read_container(raw, 0)
        if kind != "array" or size > len(raw) // _BYTES_A_FIELD:
            return None
        while len(fields) < size:
            start, mark = pos, raw[pos]
            if FIXMAP <= mark < FIXSTR or ARRAY16 <= mark <= MAP32:
                return None  # a map or an array: its size says nothing about the time that decoding it takes
            pos = skip(raw, pos)
            is_left_out = mark in _EMPTY_OF and len(fields) >= count
            fields.append(_EMPTY_OF[mark] if is_left_out else unpack(raw[start:pos]))
    except (BoxError, *_INVALID):
        return None
    return fields if pos == len(raw) else None


def _unpack_slow(raw: bytes, what: str) -> Any:
    try:
        value, end = _decode(bytes(raw), 0)
    except _INVALID:
        raise client_error(ErrorCode.INVALID_MSGPACK, what) from None
    if end != len(raw):
        raise client_error(ErrorCode.INVALID_MSGPACK, what)
    return value


def split_array(raw: bytes, pos: int = 0) -> list[bytes]:
    """Return the raw elements of the array at `pos`.

    Raises:
        ClientError: TUPLE_NOT_ARRAY.
    """
    kind, count, pos = read_container(raw, pos)
    if kind != "array":
        raise client_error(ErrorCode.TUPLE_NOT_ARRAY)
    elements = []
    for _ in range(count):
        end = skip(raw, pos)
        elements.append(raw[pos:end])
        pos = end
    return elements


def _decode(raw: bytes, pos: int) -> tuple[Any, int]:
    """Decode the value at `pos`, which the C decoder refused. Returns it with the offset after it."""
    frames: list[tuple[str, int, list[Any]]] = []  # open containers: kind, number of values, values so far
    while True:
        kind, count, start = read_container(raw, pos)
        value: Any
        if kind and count:
            frames.append((kind, count if kind == "array" else 2 * count, []))
            if len(frames) > MAX_NESTING:
                raise too_deep()
            pos = start
            continue
        if kind:
            value, pos = [] if kind == "array" else {}, start
        else:
            value, pos = _decode_scalar(raw, pos)
        while frames:
            kind, count, values = frames[-1]
            values.append(value)
            if len(values) < count:
                break
            frames.pop()
            value = values if kind == "array" else dict(zip(map(_freeze, values[::2]), values[1::2], strict=True))
        else:
            return value, pos


def _decode_scalar(raw: bytes, pos: int) -> tuple[Any, int]:
    end = end_of_scalar(raw, pos)
    try:
        value = unpackb(
            raw[pos:end], timestamp=0, ext_hook=decode_ext, unicode_errors="surrogateescape", strict_map_key=False
        )
    except ValueError:
        if (value := _unusual_timestamp(raw[pos:end])) is None:
            raise
    return value, end


def _unusual_timestamp(raw: bytes) -> Ext | None:
    """Return an extension of type -1 that is no timestamp: the C extension refuses it, Tarantool keeps it."""
    mark = raw[0]
    if FIXEXT1 <= mark <= FIXEXT16:
        start = 2  # the mark and the type
    elif EXT8 <= mark <= EXT32:
        start = 2 + (1 << mark - EXT8)  # and the length, in 1, 2 or 4 bytes
    else:
        return None
    return Ext(-1, raw[start:]) if raw[start - 1] == 0xFF else None


def _freeze(value: Any) -> Any:
    """Return a hashable form that packs to the same bytes: arrays become tuples, maps FrozenMaps."""
    if isinstance(value, list):
        return tuple(map(_freeze, value))
    if isinstance(value, dict):
        return FrozenMap((_freeze(key), _freeze(item)) for key, item in value.items())
    return value


__all__ = [
    "Ext",
    "FrozenMap",
    "decode_ext",
    "pack",
    "pack_array_header",
    "pack_float32",
    "pack_map_header",
    "read_container",
    "skip",
    "split_array",
    "unpack",
    "unpack_many",
    "unpack_without_texts",
]
