"""Update operations: parses them and computes the scalar ones.

    =  set      {op, field, value}               !  insert  {op, field, value}
    +  -        {op, field, number}              #  delete  {op, field, count}
    &  |  ^     {op, field, unsigned integer}    :  splice  {op, field, offset, cut, text}

A field is a number (from `index_base`, negative from the end), a name, or a JSON path. Facts and texts:
`xrow_update_field.c` of 2.8.1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal, Overflow, localcontext
from typing import Any, Final

from box.data.codec import pack, pack_float32
from box.data.extensions import MAX_DECIMAL_DIGITS
from box.data.format import TupleFormat
from box.data.json_path import Path, PathError, PathLexer, Step
from box.errors import BoxError, ErrorCode, client_error, illegal_params

MAX_OPERATIONS: Final = 4000
"""Tarantool's limit of operations in one request."""
_INT32_MAX: Final = 2**31 - 1
"""The greatest field number that an operation can name, an int32_t in Tarantool."""
_FLOAT32_MAX: Final = 3.4028234663852886e38
"""The greatest single-precision number; a greater result is stored as a double."""
_ARGUMENTS: Final = {"=": 3, "!": 3, "+": 3, "-": 3, "&": 3, "|": 3, "^": 3, "#": 3, ":": 5}

# 38 digits and a least exponent of -38, as Tarantool has them; what rounds to nothing becomes zero without an error.
_DECIMAL_CONTEXT: Final = Context(
    prec=MAX_DECIMAL_DIGITS, rounding=ROUND_HALF_UP, Emax=MAX_DECIMAL_DIGITS - 1, Emin=-1, traps=[Overflow]
)


class Single(float):
    """A computed number that fits a single-precision float and is stored as one, except in a field of type double."""

    __slots__ = ()


class _Steps:
    """The remaining steps of a path that was parsed before, with the interface of PathLexer."""

    __slots__ = ("pos", "steps")

    def __init__(self, steps: Path) -> None:
        self.steps = steps
        self.pos = 0

    @property
    def at_end(self) -> bool:
        return self.pos == len(self.steps)

    def next(self) -> Step:
        self.pos += 1
        return self.steps[self.pos - 1]


@dataclass(eq=False, repr=False, slots=True)
class Operation:
    """An update operation. `fieldno` is 0-based or negative; `rest` reads the path below the field."""

    opcode: str
    fieldno: int
    path: str | None
    rest: PathLexer | _Steps
    argument: Any = None
    offset: int = 0
    cut: int = 0
    raw: bytes = b""
    steps: list[Step] = field(default_factory=list)

    @property
    def is_last_step(self) -> bool:
        """True if the path is used up, so that the operation applies here."""
        return self.rest.at_end

    @property
    def is_for_root(self) -> bool:
        return not self.steps and self.rest.at_end

    def next_step(self) -> Step:
        """Read the next step of the path.

        Raises:
            ClientError: UPDATE_FIELD for bad syntax, NO_SUCH_FIELD_NAME at the end.
        """
        if self.rest.at_end:
            raise self.no_such_field()
        try:
            step = self.rest.next()
        except PathError as error:
            raise self.error(str(error)) from None
        self.steps.append(step)
        return step

    def again(self, rest: Path) -> Operation:
        """Return a copy of the operation for a place where only the last steps `rest` of its path are left."""
        done = self.steps[: len(self.steps) - len(rest)]
        again = Operation(self.opcode, self.fieldno, self.path, _Steps(rest), steps=done)
        again.argument, again.offset, again.cut, again.raw = self.argument, self.offset, self.cut, self.raw
        return again

    # --- errors ---

    @property
    def field_text(self) -> str:
        if self.path is not None:
            return f"'{self.path}'"
        return str(self.fieldno + 1 if self.fieldno >= 0 else self.fieldno)

    def error(self, reason: str) -> BoxError:
        return client_error(ErrorCode.UPDATE_FIELD, self.field_text, reason)

    def double_update(self) -> BoxError:
        return self.error("double update of the same field")

    def argument_error(self, expected: str) -> BoxError:
        return client_error(ErrorCode.UPDATE_ARG_TYPE, self.opcode, self.field_text, expected)

    def no_such_field(self) -> BoxError:
        if self.path is not None:
            return client_error(ErrorCode.NO_SUCH_FIELD_NAME, self.field_text)
        return client_error(ErrorCode.NO_SUCH_FIELD_NO, self.fieldno + (self.fieldno >= 0))

    # --- what scalar operations compute ---

    def compute(self, old: Any) -> Any:
        """Return the new value of a field that holds `old` (decoded)."""
        if self.opcode in "+-":
            return self._arithmetic(old)
        if self.opcode == ":":
            return self._splice(old)
        if type(old) is not int or old < 0:
            raise self.argument_error("a positive integer")
        if self.opcode == "&":
            return old & self.argument
        return old | self.argument if self.opcode == "|" else old ^ self.argument

    def _arithmetic(self, old: Any) -> Any:
        other = self.argument
        if type(old) is int and type(other) is int:
            total = old + other if self.opcode == "+" else old - other
            if not -(2**63) <= total < 2**64:  # what MessagePack's signed and unsigned integers hold together
                raise client_error(ErrorCode.UPDATE_INTEGER_OVERFLOW, self.opcode, self.field_text)
            return total
        if not _is_number(old):
            raise self.argument_error("a number")
        if isinstance(old, Decimal) or isinstance(other, Decimal):
            return self._decimal_arithmetic(self._to_decimal(old), self._to_decimal(other))
        result = float(old) + float(other) if self.opcode == "+" else float(old) - float(other)
        return Single(result) if _fits_single(result) else result

    def _decimal_arithmetic(self, old: Decimal, other: Decimal) -> Decimal:
        try:
            with localcontext(_DECIMAL_CONTEXT):
                return old + other if self.opcode == "+" else old - other
        except Overflow:
            raise client_error(ErrorCode.UPDATE_DECIMAL_OVERFLOW, self.opcode, self.field_text) from None

    def _to_decimal(self, value: Any) -> Decimal:
        if not isinstance(value, float):
            return Decimal(value)
        # Tarantool converts a double to a decimal with its 15 reliable digits.
        number = Decimal(f"{value:.15g}")
        if not number.is_finite() or number.adjusted() >= MAX_DECIMAL_DIGITS:
            raise self.argument_error("a number convertible to decimal")
        return number

    def _splice(self, old: Any) -> str:
        if type(old) is not str:
            raise self.argument_error("a string")
        text = old.encode("utf-8", "surrogateescape")
        offset, cut = self.offset, self.cut
        if offset < 0:
            if -offset > len(text) + 1:
                raise self._out_of_bound()
            offset += len(text) + 1
        offset = min(offset, len(text))
        rest = len(text) - offset
        if cut < 0:
            cut = 0 if -cut > rest else cut + rest
        paste: bytes = self.argument
        spliced = text[:offset] + paste + text[offset + min(cut, rest) :]
        return spliced.decode("utf-8", "surrogateescape")

    def _out_of_bound(self) -> BoxError:
        return client_error(ErrorCode.UPDATE_SPLICE, self.field_text, "offset is out of bound")

    # --- arguments ---

    def read_arguments(self, arguments: Sequence[Any], index_base: int) -> None:
        """Check and keep the arguments after the field."""
        value = arguments[0]
        if self.opcode in "=!":
            self.argument = value
            self.raw = pack(value)
        elif self.opcode in "+-":
            if not _is_number(value):
                raise self.argument_error("a number")
            self.argument = value
        elif self.opcode == ":":
            self._read_splice(arguments, index_base)
        else:
            if type(value) is not int or value < 0:
                raise self.argument_error("a positive integer")
            if self.opcode == "#":
                # Tarantool keeps the count in 32 bits, so that higher bits of it are lost.
                value &= 0xFFFFFFFF
                if value == 0:
                    raise self.error("cannot delete 0 fields")
            self.argument = value

    def _read_splice(self, arguments: Sequence[Any], index_base: int) -> None:
        offset, cut, paste = arguments
        if not _is_int32(offset):
            raise self.argument_error("an integer")
        if 0 <= offset < index_base:
            raise self._out_of_bound()
        if not _is_int32(cut):
            raise self.argument_error("an integer")
        if type(paste) is not str:
            raise self.argument_error("a string")
        self.offset = offset - index_base if offset >= 0 else offset
        self.cut = cut
        self.argument = paste.encode("utf-8", "surrogateescape")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float, Decimal)


def _is_int32(value: Any) -> bool:
    return type(value) is int and -_INT32_MAX - 1 <= value <= _INT32_MAX


def _fits_single(value: float) -> bool:
    if not -_FLOAT32_MAX <= value <= _FLOAT32_MAX:
        return False
    return bool(struct.unpack(">f", struct.pack(">f", value))[0] == value)


def pack_result(value: Any, is_double: bool = False) -> bytes:
    """Return the bytes of a computed value."""
    if type(value) is Single:
        return pack(float(value)) if is_double else pack_float32(value)
    return pack(value)


def read_operations(ops: Any, form: TupleFormat, index_base: int) -> list[Operation]:
    """Check and resolve the operations of a request before any of them is applied.

    Raises:
        ClientError: ILLEGAL_PARAMS, UNKNOWN_UPDATE_OP, UPDATE_ARG_TYPE, UPDATE_FIELD, UPDATE_SPLICE, NO_SUCH_FIELD_NO
            or
            NO_SUCH_FIELD_NAME.
    """
    if not isinstance(ops, (list, tuple)):
        raise illegal_params("update operations must be an array {{op,..}, {op,..}}")
    if len(ops) > MAX_OPERATIONS:
        raise illegal_params("too many operations for update")
    return [_read_operation(op, number, form, index_base) for number, op in enumerate(ops, 1)]


def _read_operation(op: Any, number: int, form: TupleFormat, index_base: int) -> Operation:
    if not isinstance(op, (list, tuple)):
        raise illegal_params("update operation must be an array {op,..}")
    if not op:
        raise illegal_params("update operation must be an array {op,..}, got empty array")
    opcode = op[0]
    if type(opcode) is not str:
        raise illegal_params("update operation name must be a string")
    expected = _ARGUMENTS.get(opcode)
    if expected is None:
        raise client_error(ErrorCode.UNKNOWN_UPDATE_OP, number, f'"{opcode.partition(chr(0))[0]}"')
    if len(op) != expected:
        reason = f"wrong number of arguments, expected {expected}, got {len(op)}"
        raise client_error(ErrorCode.UNKNOWN_UPDATE_OP, number, reason)
    operation = _resolve(opcode, op[1], form, index_base)
    operation.read_arguments(op[2:], index_base)
    return operation


_NO_STEPS: Final = PathLexer("")


def _resolve(opcode: str, place: Any, form: TupleFormat, index_base: int) -> Operation:
    if type(place) is int:
        operation = Operation(opcode, 0, None, _NO_STEPS)
        if not _is_int32(place):
            raise operation.argument_error("an integer")
        if 0 <= place < index_base:
            raise client_error(ErrorCode.NO_SUCH_FIELD_NO, place)
        operation.fieldno = place - index_base if place >= 0 else place
        return operation
    if type(place) is not str:
        raise illegal_params("field id must be a number or a string")
    fieldno = form.names.get(place)
    if fieldno is not None:
        return Operation(opcode, fieldno, place, _NO_STEPS)
    return _resolve_path(opcode, place, form)


def _resolve_path(opcode: str, path: str, form: TupleFormat) -> Operation:
    lexer = PathLexer(path)
    operation = Operation(opcode, 0, path, lexer)
    if lexer.at_end:
        raise client_error(ErrorCode.NO_SUCH_FIELD_NAME, path)
    try:
        first = lexer.next()
    except PathError as error:
        raise operation.error(str(error)) from None
    fieldno = form.names.get(first) if isinstance(first, str) else first
    if fieldno is None:
        raise client_error(ErrorCode.NO_SUCH_FIELD_NAME, path)
    operation.fieldno = fieldno
    return operation
