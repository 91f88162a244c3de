"""Typed access to the fields of a system tuple.

The space's format has checked most of them already; these checks cover what a format cannot say (32 bits, system
spaces before their format is known) and give Tarantool's texts.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from box.data import codec
from box.data.types import type_name_of
from box.errors import BoxError, ErrorCode, client_error


class Fields:
    """A decoded tuple; field numbers are 0-based."""

    __slots__ = ("values",)

    def __init__(self, raw: bytes) -> None:
        self.values: list[Any] = codec.unpack(raw)

    def __len__(self) -> int:
        return len(self.values)

    def any(self, number: int) -> Any:
        """The value. ER_NO_SUCH_FIELD_NO."""
        if number >= len(self.values):
            raise client_error(ErrorCode.NO_SUCH_FIELD_NO, number + 1)
        return self.values[number]

    def u32(self, number: int) -> int:
        """An unsigned number of 32 bits."""
        value = self.any(number)
        if type(value) is not int or value < 0:
            raise self._mismatch(number, "unsigned")
        if value > 0xFFFFFFFF:
            raise client_error(ErrorCode.FIELD_TYPE, str(number + 1), "uint32_t", "uint64_t")
        return value

    def i64(self, number: int) -> int:
        """A signed number of 64 bits."""
        value = self.any(number)
        if type(value) is not int:
            raise self._mismatch(number, "integer")
        if value >= 2**63:
            raise client_error(ErrorCode.FIELD_TYPE, str(number + 1), "int64_t", "uint64_t")
        return value

    def string(self, number: int) -> str:
        """A string."""
        value = self.any(number)
        if not isinstance(value, str):
            raise self._mismatch(number, "string")
        return value

    def boolean(self, number: int) -> bool:
        """A boolean."""
        value = self.any(number)
        if not isinstance(value, bool):
            raise self._mismatch(number, "boolean")
        return value

    def array(self, number: int) -> list[Any]:
        """An array."""
        value = self.any(number)
        if not isinstance(value, list):
            raise self._mismatch(number, "array")
        return value

    def map(self, number: int) -> dict[Any, Any]:
        """A map."""
        value = self.any(number)
        if not isinstance(value, dict):
            raise self._mismatch(number, "map")
        return value

    def uuid(self, number: int) -> UUID:
        """A UUID written as a string of 36 characters. ER_INVALID_UUID."""
        text = self.string(number)
        try:
            if len(text) != 36:
                raise ValueError(text)
            return UUID(text)
        except ValueError:
            raise client_error(ErrorCode.INVALID_UUID, text) from None

    def _mismatch(self, number: int, expected: str) -> BoxError:
        return client_error(ErrorCode.FIELD_TYPE, str(number + 1), expected, type_name_of(self.values[number]))
