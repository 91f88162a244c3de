"""The values of Tarantool's MessagePack extensions: `box.data.codec` has the table.

Decimal (ext 1): the scale as a MessagePack integer, then the digits as packed decimal, most significant first, two in
each byte. The last half byte is the sign (0x0c plus, 0x0d minus; on reading also 0x0a, 0x0e and 0x0f plus, 0x0b minus):

    Decimal("-12.34")  ->  d6 01 | 02 | 01 23 4d        scale 2, digits 01234, minus

UUID (ext 2): its 16 bytes, big-endian: `d8 02 <16 bytes>`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from msgpack import packb, unpackb

from box.data.deep import skip
from box.data.error_body import ERROR_EXT, decode_error_stack, encode_error_stack
from box.data.marks import FIXMAP
from box.data.times import bodies
from box.data.times.points import DATETIME_EXT, INTERVAL_EXT, Datetime, Interval, decode_interval, encode_interval
from box.errors import BoxError, ErrorCode, client_error, unsupported

DECIMAL_EXT: Final = 1
UUID_EXT: Final = 2
_UUID_SIZE: Final = 16
NIL_UUID: Final = UUID(int=0)
_ZERO: Final = Decimal(0)
MAX_DECIMAL_DIGITS: Final = 38
"""The greatest number of digits in a decimal of Tarantool, and the greatest of its scale."""
_SIGNS: Final = {"a": "", "b": "-", "c": "", "d": "-", "e": "", "f": ""}
"""The half bytes of signs, as hexadecimal digits."""
_PAIRS: Final = bytes(16 * high + low for high in range(10) for low in range(10))
"""The bytes of two decimal digits."""
_LASTS: Final = frozenset(16 * digit + sign for digit in range(10) for sign in range(10, 16))
"""The bytes of a digit and a sign."""
_USUAL_SIZE: Final = 20
"""The size of a decimal's body in bytes up to which it has no more than 38 digits."""


def encode(value: Any) -> tuple[int, bytes]:
    """Return the type and the body of the extension for a value.

    Raises:
        ClientError: PROC_RET, the type has no encoding.
        UnsupportedError: the value is out of range.
    """
    if type(value) is UUID:
        return UUID_EXT, value.bytes
    if isinstance(value, Decimal):
        return DECIMAL_EXT, encode_decimal(value)
    if isinstance(value, UUID):
        return UUID_EXT, value.bytes
    if isinstance(value, datetime | Datetime):
        return DATETIME_EXT, _encode_datetime(value)
    if isinstance(value, Interval):
        return INTERVAL_EXT, encode_interval(value)
    if isinstance(value, BoxError):
        return ERROR_EXT, encode_error_stack(value)
    raise client_error(ErrorCode.PROC_RET, type(value).__name__)


def _encode_datetime(value: datetime | Datetime) -> bytes:
    try:
        return bodies.encode(value)
    except ValueError as error:
        raise unsupported("MessagePack", str(error)) from None


def encode_decimal(value: Decimal) -> bytes:
    """Return the body of the decimal extension.

    Raises:
        UnsupportedError: it is not a finite number, or has more than 38 digits.
    """
    text = str(value)
    if text[-1].isdecimal() and "E" not in text:
        whole, _, fraction = text.partition(".")
        exponent, digits = -len(fraction), (whole.lstrip("-") + fraction).lstrip("0") or "0"
    else:
        _, parts, scale = value.as_tuple()
        exponent, digits = scale if isinstance(scale, int) else 0, "".join(map(str, parts))
    if len(digits) > MAX_DECIMAL_DIGITS or not value.is_finite():
        raise unsupported("MessagePack", f"decimal {value}")
    nibbles = digits + ("d" if text[0] == "-" else "c")
    # Integers from 0 to 127 are their own MessagePack.
    packed: bytes = bytes((-exponent,)) if 0 <= -exponent < FIXMAP else packb(-exponent)
    return packed + bytes.fromhex(nibbles if len(nibbles) % 2 == 0 else "0" + nibbles)


def decode_decimal(data: bytes) -> Decimal:
    """Decode the body of the decimal extension.

    Raises:
        ValueError: it is malformed, or has more than 38 digits or decimal places.
    """
    if data and data[0] < FIXMAP:
        scale, nibbles = data[0], data[1:].hex()
    else:
        try:
            end = skip(data, 0)
        except BoxError:
            raise ValueError("decimal without a scale") from None
        scale, nibbles = unpackb(data[:end]), data[end:].hex()
    digits, sign = nibbles[:-1], _SIGNS.get(nibbles[-1:])
    if type(scale) is not int or not digits.isdecimal() or sign is None:
        raise ValueError("malformed decimal")
    # A scale of 2^31 would make a text of two gigabytes when the number is shown.
    if not -MAX_DECIMAL_DIGITS < scale <= MAX_DECIMAL_DIGITS or len(digits.lstrip("0")) > MAX_DECIMAL_DIGITS:
        raise ValueError("decimal out of range")
    return Decimal(f"{sign}{digits}E{-scale}")


def _decode_uuid(data: bytes) -> UUID:
    return UUID(bytes=data)


def quick_decoders(*, needs_decimals: bool, needs_uuids: bool) -> dict[int, Callable[[bytes], Any]]:
    """Return decoders of usual bodies by type. They return None for a body that is unusual or malformed.

    Those of decimals and UUIDs that are not needed return zero and the nil UUID.
    """
    decoders: dict[int, Callable[[bytes], Any]] = {UUID_EXT: _usual_uuid if needs_uuids else _nil_uuid}
    return decoders if needs_decimals else {**decoders, DECIMAL_EXT: _zero}


def _usual_uuid(data: bytes) -> UUID | None:
    return UUID(bytes=data) if len(data) == _UUID_SIZE else None


def _nil_uuid(data: bytes) -> UUID | None:
    return NIL_UUID if len(data) == _UUID_SIZE else None


def _zero(data: bytes) -> Decimal | None:
    is_decimal = (
        1 < len(data) <= _USUAL_SIZE
        and data[0] <= MAX_DECIMAL_DIGITS
        and data[-1] in _LASTS
        and not data[1:-1].translate(None, _PAIRS)
    )
    return _ZERO if is_decimal else None


DECODERS: Final[dict[int, Callable[[bytes], Any]]] = {
    DECIMAL_EXT: decode_decimal,
    UUID_EXT: _decode_uuid,
    ERROR_EXT: decode_error_stack,
    DATETIME_EXT: bodies.decode,
    INTERVAL_EXT: decode_interval,
}
"""By its type, what decodes the body of an extension. They raise ValueError, LookupError or BoxError."""
