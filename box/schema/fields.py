"""Typed access to the fields of a system tuple.

The space's format has checked most fields already. These checks cover what a format cannot express (32 bits, system
spaces before their format is known), with Tarantool's texts.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from box.data import codec
from box.data.types import type_name_of
from box.errors import BoxError, ErrorCode, client_error


class Fields:
    """The fields of a decoded tuple, by 0-based number."""

    __slots__ = ("values",)

    def __init__(self, raw: bytes) -> None:
        self.values: list[Any] = codec.unpack(raw)

    def __len__(self) -> int:
        return len(self.values)

    def any(self, number: int) -> Any:
        """Return a field of any type.

        Raises:
            ClientError: NO_SUCH_FIELD_NO.
        """
        if number >= len(self.values):
            raise client_error(ErrorCode.NO_SUCH_FIELD_NO, number + 1)
        return self.values[number]

    def u32(self, number: int) -> int:
        """Return a field that is an unsigned number of 32 bits."""
        value = self.any(number)
        if type(value) is not int or value < 0:
            raise self._mismatch(number, "unsigned")
        if value > 0xFFFFFFFF:
            raise client_error(ErrorCode.FIELD_TYPE, str(number + 1), "uint32_t", "uint64_t")
        return value

    def i64(self, number: int) -> int:
        """Return a field that is a signed number of 64 bits."""
        value = self.any(number)
        if type(value) is not int:
            raise self._mismatch(number, "integer")
        if value >= 2**63:  # MessagePack's integers reach up to 2^64
            raise client_error(ErrorCode.FIELD_TYPE, str(number + 1), "integer", "unsigned")
        return value

    def string(self, number: int) -> str:
        """Return a field that is a string."""
        value = self.any(number)
        if not isinstance(value, str):
            raise self._mismatch(number, "string")
        return value

    def boolean(self, number: int) -> bool:
        """Return a field that is a boolean."""
        value = self.any(number)
        if not isinstance(value, bool):
            raise self._mismatch(number, "boolean")
        return value

    def array(self, number: int) -> list[Any]:
        """Return a field that is an array."""
        value = self.any(number)
        if not isinstance(value, list):
            raise self._mismatch(number, "array")
        return value

    def map(self, number: int) -> dict[Any, Any]:
        """Return a field that is a map."""
        value = self.any(number)
        if not isinstance(value, dict):
            raise self._mismatch(number, "map")
        return value

    def uuid(self, number: int) -> UUID:
        """Return a field that is a UUID, written as a string of 36 characters.

        Raises:
            ClientError: INVALID_UUID.
        """
        text = self.string(number)
        try:
            if len(text) != 36:  # the only length that Tarantool accepts; Python would take a UUID without hyphens, too
                raise ValueError(text)
            return UUID(text)
        except ValueError:
            raise client_error(ErrorCode.INVALID_UUID, text) from None

    def _mismatch(self, number: int, expected: str) -> BoxError:
        return client_error(ErrorCode.FIELD_TYPE, str(number + 1), expected, type_name_of(self.values[number]))
