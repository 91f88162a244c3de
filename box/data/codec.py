"""MessagePack and Python values, with the peer's decimal and UUID extensions.

    nil     <-> None        str  <-> str (UTF-8; bytes that are not UTF-8 travel as surrogates)
    boolean <-> bool        bin  <-> bytes
    integer <-> int         array <-> list (tuples are packed as arrays too)
    float   <-> float       map  <-> dict
    ext 1   <-> Decimal     ext 2 <-> UUID     other ext <-> Ext

Decimal (ext 1): the scale as a MessagePack integer, then the digits as packed decimal, most significant
first, two a byte, the last half byte being the sign (0x0c plus, 0x0d minus; 0x0a, 0x0e, 0x0f and 0x0b are
read as well):

    Decimal("-12.34")  ->  d6 01 | 02 | 01 23 4d        scale 2, digits 01234, minus

UUID (ext 2): its 16 bytes, big-endian: `d8 02 <16 bytes>`.

The C extension of `msgpack` does the work. What it cannot do (a map whose key is an array or a map) goes to
a decoder in Python, which also finds the error in input that is no MessagePack at all.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from msgpack import ExtType, Packer, packb, unpackb

from box.errors import BoxError, ErrorCode, client_error, unsupported

DECIMAL_EXT: Final = 1
UUID_EXT: Final = 2
MAX_DECIMAL_DIGITS: Final = 38

_INVALID = (ValueError, IndexError, struct.error, RecursionError)


class Ext(ExtType):  # type: ignore[misc]  # msgpack has no types
    """A value of an extension type this node does not interpret: `code` (-128..127) and `data` (bytes)."""

    __slots__ = ()

    def __new__(cls, code: int, data: bytes) -> Ext:
        # ExtType refuses negative codes, which are legal on the wire.
        return tuple.__new__(cls, (code, data))


class FrozenMap(dict[Any, Any]):
    """A map that is a key of another map, where Python wants a hash; never changed after decoding."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none
        return hash(frozenset(self.items()))


# Without a `default` hook no Python code runs inside pack(), so one packer serves all threads under the GIL.
_pack: Callable[[Any], bytes] = Packer(autoreset=True).pack


def pack(value: Any) -> bytes:
    """The MessagePack bytes of a value; raises PROC_RET for a type without an encoding."""
    try:
        return _pack(value)
    except (TypeError, UnicodeEncodeError):
        pass
    except (OverflowError, ValueError) as error:
        raise client_error(ErrorCode.PROC_RET, f"integer: {error}") from None
    packed: bytes = packb(value, default=_pack_default, unicode_errors="surrogateescape")
    return packed


def pack_float32(value: float) -> bytes:
    """The 5-byte form of a number that fits a single-precision float."""
    return b"\xca" + struct.pack(">f", value)


def pack_array_header(size: int) -> bytes:
    """The header of an array of `size` elements, which follow."""
    if size < 16:
        return bytes((0x90 | size,))
    return b"\xdc" + size.to_bytes(2, "big") if size < 0x10000 else b"\xdd" + size.to_bytes(4, "big")


def pack_map_header(size: int) -> bytes:
    """The header of a map of `size` pairs, which follow."""
    if size < 16:
        return bytes((0x80 | size,))
    return b"\xde" + size.to_bytes(2, "big") if size < 0x10000 else b"\xdf" + size.to_bytes(4, "big")


def _pack_default(value: Any) -> Any:
    if isinstance(value, Decimal):
        return Ext(DECIMAL_EXT, encode_decimal(value))
    if isinstance(value, UUID):
        return Ext(UUID_EXT, value.bytes)
    raise client_error(ErrorCode.PROC_RET, type(value).__name__)


def encode_decimal(value: Decimal) -> bytes:
    """The body of the decimal extension."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or len(digits) > MAX_DECIMAL_DIGITS:
        raise unsupported("MessagePack", f"decimal {value}")
    nibbles = "".join(map(str, digits)) + ("d" if sign else "c")
    return _pack(-exponent) + bytes.fromhex(nibbles if len(nibbles) % 2 == 0 else "0" + nibbles)


def decode_decimal(data: bytes) -> Decimal:
    """A decimal from the body of its extension; raises ValueError when it is malformed."""
    try:
        end = skip(data, 0)
    except BoxError:
        raise ValueError("decimal without a scale") from None
    scale = unpackb(data[:end])
    nibbles = data[end:].hex()
    digits, sign = nibbles[:-1], nibbles[-1:]
    if type(scale) is not int or not digits.isdecimal() or sign not in set("abcdef"):
        raise ValueError("malformed decimal")
    digits = digits.lstrip("0") or "0"
    # A scale of 2^31 would be a number of two gigabytes when it is shown.
    if abs(scale) > MAX_DECIMAL_DIGITS or len(digits) > MAX_DECIMAL_DIGITS:
        raise ValueError("decimal out of range")
    return Decimal((int(sign in "bd"), tuple(map(int, digits)), -scale))


def decode_ext(code: int, data: bytes) -> Any:
    """The `ext_hook` of the decoder: a Decimal, a UUID or an Ext; raises ValueError."""
    try:
        if code == DECIMAL_EXT:
            return decode_decimal(data)
        if code == UUID_EXT:
            return UUID(bytes=data)
    except (ValueError, IndexError, BoxError) as error:
        raise ValueError(str(error)) from None
    return Ext(code, data)


def unpack(raw: bytes, what: str = "packet body") -> Any:
    """The value of `raw`, which must hold exactly one; raises INVALID_MSGPACK ("Invalid MsgPack - <what>")."""
    try:
        return unpackb(raw, strict_map_key=False, ext_hook=decode_ext, unicode_errors="surrogateescape")
    except (ValueError, TypeError):
        return _unpack_slow(raw, what)


def _unpack_slow(raw: bytes, what: str) -> Any:
    try:
        value, end = _decode(bytes(raw), 0)
    except _INVALID:
        raise client_error(ErrorCode.INVALID_MSGPACK, what) from None
    if end != len(raw):
        raise client_error(ErrorCode.INVALID_MSGPACK, what)
    return value


# --- layout of one value: first byte -> (fixed size | length field | count field) ---

_FIXED_SIZES = dict.fromkeys([*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3], 1)
_FIXED_SIZES |= {0xA0 + length: 1 + length for length in range(32)}
_FIXED_SIZES |= {0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}
_FIXED_SIZES |= {0xD4: 3, 0xD5: 4, 0xD6: 6, 0xD7: 10, 0xD8: 18}
_FIXED = [_FIXED_SIZES.get(byte, 0) for byte in range(256)]
# Strings, binaries and extensions: width of the length, bytes besides the header and the payload.
_SIZED = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
_SIZED |= {0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)}
# Containers: width of the count, values an element.
_COUNTED = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}


def skip(raw: bytes, pos: int) -> int:
    """The offset just after the value that starts at `pos`; raises INVALID_MSGPACK when it is cut or malformed."""
    pending = 1
    try:
        while pending:
            byte = raw[pos]
            if size := _FIXED[byte]:
                pos += size
            elif byte in _SIZED:
                width, extra = _SIZED[byte]
                pos += 1 + width + extra + int.from_bytes(raw[pos + 1 : pos + 1 + width], "big")
            elif byte < 0xA0:
                pending += (byte & 0x0F) << (byte < 0x90)
                pos += 1
            else:
                width, factor = _COUNTED[byte]
                pending += factor * int.from_bytes(raw[pos + 1 : pos + 1 + width], "big")
                pos += 1 + width
            pending -= 1
    except (IndexError, KeyError):
        raise client_error(ErrorCode.INVALID_MSGPACK, "packet body") from None
    if pos > len(raw):
        raise client_error(ErrorCode.INVALID_MSGPACK, "packet body")
    return pos


def read_container(raw: bytes, pos: int = 0) -> tuple[str, int, int]:
    """What stands at `pos`: ("array" | "map" | "", number of elements or pairs, offset of the first)."""
    byte = raw[pos]
    if 0x80 <= byte < 0xA0:
        return ("map" if byte < 0x90 else "array"), byte & 0x0F, pos + 1
    if byte not in _COUNTED:
        return "", 0, pos
    width, factor = _COUNTED[byte]
    kind = "array" if factor == 1 else "map"
    return kind, int.from_bytes(raw[pos + 1 : pos + 1 + width], "big"), pos + 1 + width


def split_array(raw: bytes, pos: int = 0) -> list[bytes]:
    """The raw elements of the array at `pos`; raises TUPLE_NOT_ARRAY for another value."""
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
    """The value at `pos` and the offset after it, for input the C decoder refused."""
    kind, count, start = read_container(raw, pos)
    if kind == "array":
        return _decode_array(raw, start, count)
    if kind == "map":
        return _decode_map(raw, start, count)
    end = _end_of_scalar(raw, pos)
    value = unpackb(
        raw[pos:end], timestamp=0, ext_hook=decode_ext, unicode_errors="surrogateescape", strict_map_key=False
    )
    return value, end


def _end_of_scalar(raw: bytes, pos: int) -> int:
    byte = raw[pos]
    if size := _FIXED[byte]:
        end = pos + size
    else:
        if byte not in _SIZED:
            raise ValueError("reserved byte 0xc1")
        width, extra = _SIZED[byte]
        end = pos + 1 + width + extra + int.from_bytes(raw[pos + 1 : pos + 1 + width], "big")
    if end > len(raw):
        raise ValueError("cut short")
    return end


def _decode_array(raw: bytes, pos: int, count: int) -> tuple[list[Any], int]:
    elements = []
    for _ in range(count):
        value, pos = _decode(raw, pos)
        elements.append(value)
    return elements, pos


def _decode_map(raw: bytes, pos: int, count: int) -> tuple[dict[Any, Any], int]:
    pairs = {}
    for _ in range(count):
        key, pos = _decode(raw, pos)
        value, pos = _decode(raw, pos)
        pairs[_freeze(key)] = value
    return pairs, pos


def _freeze(value: Any) -> Any:
    """A hashable form that packs to the same bytes: arrays become tuples, maps FrozenMaps."""
    if isinstance(value, list):
        return tuple(map(_freeze, value))
    if isinstance(value, dict):
        return FrozenMap((_freeze(key), _freeze(item)) for key, item in value.items())
    return value


__all__ = [
    "Ext",
    "FrozenMap",
    "decode_decimal",
    "decode_ext",
    "encode_decimal",
    "pack",
    "pack_array_header",
    "pack_float32",
    "pack_map_header",
    "read_container",
    "skip",
    "split_array",
    "unpack",
]
