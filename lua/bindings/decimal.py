"""`decimal`: numbers of up to 38 digits, which cross the boundary as texts. A positive exponent follows an E: `15E14`.

The arithmetic is that of the standard library's `decimal` in Tarantool's context: 38 digits, a scale of at most 38, and
rounding half away from zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from typing import Final

from box.data.extensions import MAX_DECIMAL_DIGITS, decode_decimal
from lua.bindings.binding import Binding, exported, text

_DIGITS: Final = MAX_DECIMAL_DIGITS
_TRAPS: Final = (InvalidOperation, DivisionByZero, Overflow)
_CONTEXT: Final = Context(prec=_DIGITS, rounding=ROUND_HALF_UP, Emin=-1, Emax=_DIGITS - 1, traps=list(_TRAPS))
_LN_CONTEXT: Final = Context(prec=_DIGITS, rounding=ROUND_HALF_UP, Emin=-_DIGITS, Emax=_DIGITS - 1, traps=list(_TRAPS))
"""The context of logarithms: that of a number near 1 may be smaller than other results, and is rounded afterwards."""
_WIDE: Final = Context(prec=2 * _DIGITS, rounding=ROUND_HALF_UP)
"""The context of operations that only change the scale."""
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def parse(value: str) -> Decimal | None:
    """Parse a number; None for a text that is not a number or has more than 38 digits before the point.

    A fraction is rounded to what is left of the 38 digits.
    """
    if not _NUMBER.fullmatch(value):
        return None
    number = Decimal(value)
    try:
        return _CONTEXT.create_decimal(number)  # `plus` would make a negative zero positive
    except _TRAPS:
        return None


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0  # decimals of Tarantool are finite


def _scale(number: Decimal) -> int:
    return max(0, -_exponent(number))


def _precision(number: Decimal) -> int:
    digits, exponent = number.as_tuple().digits, _exponent(number)
    return max(len(digits), -exponent) if exponent <= 0 else len(digits) + exponent


def _ln(number: Decimal) -> Decimal:
    return _round(_LN_CONTEXT.ln(number), _DIGITS - 1)


def _round(number: Decimal, scale: int) -> Decimal:
    """Round to fewer fractional digits; a scale that is out of range leaves the number unchanged.

    A digit that is carried before the first one takes the place of the last: 9.99 with one fractional digit is 10.
    """
    if not 0 <= scale < _scale(number):
        return number
    digits = max(_precision(number) - _scale(number) + scale, 1)
    context = Context(prec=digits, rounding=ROUND_HALF_UP, Emin=-1 if scale else 0, Emax=digits, traps=[])
    return context.plus(number)


def _rescale(number: Decimal, scale: int) -> Decimal:
    """Give the number exactly `scale` fractional digits; it is unchanged if that is impossible."""
    if scale <= _scale(number):
        return _round(number, scale)
    if scale > _DIGITS or len(number.as_tuple().digits) + scale + _exponent(number) > _DIGITS:
        return number
    return number.quantize(Decimal(1).scaleb(-scale), context=_WIDE)


def _trim(number: Decimal) -> Decimal:
    """Remove zeros at the end of the fraction, or of the digits before a positive exponent."""
    trimmed = number.normalize(_WIDE)
    if (number and _exponent(number) > 0) or _scale(trimmed):
        return trimmed
    return trimmed.quantize(Decimal(1), context=_WIDE)


_BINARY: Final[dict[str, Callable[[Decimal, Decimal], Decimal]]] = {
    "add": _CONTEXT.add,
    "sub": _CONTEXT.subtract,
    "mul": _CONTEXT.multiply,
    "div": _CONTEXT.divide,
    "mod": _CONTEXT.remainder,
    "pow": _CONTEXT.power,
}
_UNARY: Final[dict[str, Callable[[Decimal], Decimal]]] = {
    "abs": _CONTEXT.abs,
    "exp": _CONTEXT.exp,
    "ln": _ln,
    "log10": _CONTEXT.log10,
    "minus": lambda number: number.copy_negate() if number else number.copy_abs(),
    "sqrt": _CONTEXT.sqrt,
    "trim": _trim,
}
_SCALING: Final[dict[str, Callable[[Decimal, int], Decimal]]] = {"round": _round, "rescale": _rescale}


def _crossing(number: Decimal) -> bytes:
    if "E+" not in str(number):
        return format(number, "f").encode()
    sign, digits, exponent = number.as_tuple()
    return f"{'-' * sign}{''.join(map(str, digits))}E{exponent}".encode()


def _result(number: Decimal) -> bytes | None:
    return _crossing(number) if number.is_finite() else None


class DecimalBinding(Binding):
    """Python half of lua/modules/decimal.lua. A method returns None if the operation has no result."""

    @exported("decimal_parse")
    def parse(self, value: bytes) -> bytes | None:
        """Return the text of the number in a text."""
        number = parse(text(value))
        return None if number is None else _crossing(number)

    @exported("decimal_parse_double")
    def parse_double(self, value: float) -> bytes | None:
        """Return the text of a double, of which 15 digits count."""
        number = parse(f"{value:.15g}")
        return None if number is None else _crossing(number)

    @exported("decimal_binary")
    def binary(self, operation: bytes, left: bytes, right: bytes) -> bytes | None:
        """Calculate an operation with two operands."""
        try:
            return _result(_BINARY[text(operation)](Decimal(text(left)), Decimal(text(right))))
        except _TRAPS:
            return None

    @exported("decimal_unary")
    def unary(self, operation: bytes, operand: bytes) -> bytes | None:
        """Calculate an operation with one operand."""
        try:
            return _result(_UNARY[text(operation)](Decimal(text(operand))))
        except _TRAPS:
            return None

    @exported("decimal_scaling")
    def scaling(self, operation: bytes, operand: bytes, scale: float) -> bytes:
        """Calculate `round` or `rescale`."""
        return _crossing(_SCALING[text(operation)](Decimal(text(operand)), int(scale)))

    @exported("decimal_compare")
    def compare(self, left: bytes, right: bytes) -> int:
        """Compare two numbers: 0 less, 1 equal, 2 greater."""
        return int(Decimal(text(left)).compare(Decimal(text(right)))) + 1

    @exported("decimal_scale")
    def scale(self, operand: bytes) -> int:
        """Return the number of digits after the point."""
        return _scale(Decimal(text(operand)))

    @exported("decimal_precision")
    def precision(self, operand: bytes) -> int:
        """Return the total number of digits."""
        return _precision(Decimal(text(operand)))

    @exported("decimal_unpack")
    def unpack(self, body: bytes) -> bytes | None:
        """Return the text of a MessagePack extension's body; None for a malformed one."""
        try:
            return _crossing(decode_decimal(body))
        except ValueError:
            return None
