"""BITSET: for each bit of a value, a bitmap with the numbers of the tuples whose value has that bit.

```
value 5 (bits 0 and 2) of tuple 7        bitmaps: 0 -> {.. 7 ..}, 2 -> {.. 7 ..}
BITS_ALL_SET 5                           0 & 2
BITS_ANY_SET 5                           0 | 2
BITS_ALL_NOT_SET 5                       all - (0 | 2)
EQ 5                                     0 & 2 - (1 | 3 | 4 | ... 63)
```

Numbers are unsigned and have 64 bits. In a string or a binary string, bit 0 is the lowest bit of the first byte. EQ
compares the bits that the key has, so that longer strings that begin with the key match as well. Source: `lib/bitset`
of the 2.8 line. Results come in the order of the tuples' numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from pyroaring import BitMap

from box.data.keydef import KeyDef
from box.errors import ErrorCode, client_error
from box.index.base import IndexDef
from box.index.iterator_type import IteratorType
from box.index.placed import PlacedIndex, Search

_NUMBER_BITS: Final = 64
"""The bits that an equality compares of a number, which Tarantool indexes as an integer of this width."""
_BYTES_AN_ENTRY: Final = 24
"""The memory that Tarantool needs to number a tuple, in bytes: an entry in a table and one in a hash."""
_TWO_BYTES: Final = 1 << 16
_BITS_OF_BYTE: Final = tuple(tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256))
"""For each byte, the numbers of the bits that are set in it."""
_BITS_OF_SECOND: Final = tuple(tuple(8 + bit for bit in bits) for bits in _BITS_OF_BYTE)
"""The same for the second byte of a number."""


class BitsetIndex(PlacedIndex):
    """An index of bits."""

    effort = 2

    def __init__(
        self, definition: IndexDef, primary: KeyDef | None = None, *, space_name: str = "", engine: str = "memtx"
    ) -> None:
        super().__init__(definition, primary, space_name=space_name, engine=engine)
        self.start_anew()

    def start_anew(self) -> None:
        self._all = BitMap()
        self._bitmaps: dict[int, BitMap] = {}

    def bsize(self) -> int:
        return _BYTES_AN_ENTRY * self._size + sum(map(_bytes_taken, (self._all, *self._bitmaps.values())))

    def indexed(self, value: Any) -> int:
        return value if type(value) is int else int.from_bytes(_bytes_of(value), "little")

    def enter(self, number: int, indexed: int) -> None:
        self._all.add(number)
        bitmaps = self._bitmaps
        for bit in _bits_of(indexed):
            bitmap = bitmaps.get(bit)
            if bitmap is None:
                bitmap = bitmaps[bit] = BitMap()
            bitmap.add(number)

    def leave(self, number: int, indexed: int) -> None:
        self._all.discard(number)
        for bit in _bits_of(indexed):
            self._bitmaps[bit].discard(number)

    def change(self, number: int, old: int, new: int) -> None:
        bitmaps = self._bitmaps
        for bit in _bits_of(old & ~new):
            bitmaps[bit].discard(number)
        for bit in _bits_of(new & ~old):
            bitmap = bitmaps.get(bit)
            if bitmap is None:
                bitmap = bitmaps[bit] = BitMap()
            bitmap.add(number)

    def search(self, kind: IteratorType, values: list[Any]) -> Search:
        return _Numbers(self._find_all(kind, values))

    def search_again(self, kind: IteratorType, values: list[Any], last: int) -> Search:
        found = self._find_all(kind, values)
        found.remove_range(0, last + 1)
        return _Numbers(found)

    def _find_all(self, kind: IteratorType, values: list[Any]) -> BitMap:
        """Return the numbers of the tuples that an iterator and a key select.

        Raises:
            ClientError: KEY_PART_COUNT, PARTIAL_KEY, KEY_PART_TYPE or UNSUPPORTED_INDEX_FEATURE.
        """
        value = self._checked(kind, values)
        if kind is IteratorType.ALL:
            return self._all.copy()
        bits = _bits_of(self.indexed(value))
        if kind is IteratorType.BITS_ALL_SET:
            return self._with_all(bits) if bits else BitMap()
        if kind is IteratorType.BITS_ANY_SET:
            return self._with_any(bits)
        if kind is IteratorType.BITS_ALL_NOT_SET:
            return self._all - self._with_any(bits)
        if kind is IteratorType.EQ:
            count = _NUMBER_BITS if type(value) is int else 8 * len(_bytes_of(value))
            found, wanted = self._with_all(bits) if bits else self._all.copy(), frozenset(bits)
            for bit, bitmap in self._bitmaps.items():
                if bit < count and bit not in wanted:
                    found -= bitmap  # one after another, which is cheaper than their union and often ends early
                    if not found:
                        break
            return found
        raise self.unsupported_feature("requested iterator type")

    def _checked(self, kind: IteratorType, values: list[Any]) -> Any:
        """Check a key and return its only part; None if the iterator needs no key."""
        if not values:
            if kind is IteratorType.ALL:
                return None
            raise client_error(ErrorCode.PARTIAL_KEY, "BITSET", 1, 0)
        self.key_def.parse_parts(values)
        return values[0]

    def _with_all(self, bits: Sequence[int]) -> BitMap:
        bitmaps = [self._bitmaps[bit] for bit in bits if bit in self._bitmaps]
        if len(bitmaps) < len(bits):
            return BitMap()
        if len(bitmaps) == 1:
            return bitmaps[0].copy()
        first, second, *others = sorted(bitmaps, key=len)
        found: BitMap = first & second
        for bitmap in others:
            found &= bitmap
        return found

    def _with_any(self, bits: Sequence[int]) -> BitMap:
        bitmaps = [self._bitmaps[bit] for bit in bits if bit in self._bitmaps]
        return BitMap.union(*bitmaps) if bitmaps else BitMap()


class _Numbers:
    """A search that is complete from the beginning."""

    def __init__(self, found: BitMap) -> None:
        self._found = found

    def __len__(self) -> int:
        return len(self._found)

    def numbers(self, start: int, limit: int) -> list[int]:
        """Return numbers of the result; see `Search.numbers`."""
        if start >= len(self._found):
            return []
        return list(islice(self._found.iter_equal_or_larger(self._found[start]), limit))

    def complete(self) -> None:
        """Do nothing: all numbers are found already."""


def _bytes_taken(bitmap: BitMap) -> int:
    taken = bitmap.get_statistics()
    return taken["n_bytes_array_containers"] + taken["n_bytes_run_containers"] + taken["n_bytes_bitset_containers"]


def _bytes_of(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogateescape") if type(value) is str else bytes(value)  # type: ignore[arg-type]


def _bits_of(value: int) -> Sequence[int]:
    """Return the numbers of the bits that are set."""
    if value < _TWO_BYTES:
        return _BITS_OF_BYTE[value & 255] + _BITS_OF_SECOND[value >> 8]
    size = (value.bit_length() + 7) // 8
    return [8 * place + bit for place, byte in enumerate(value.to_bytes(size, "little")) for bit in _BITS_OF_BYTE[byte]]
