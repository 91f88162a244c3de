"""The work of the campaigns "index-kills" and "index-damage": numbered steps on a space with all kinds of indexes.

The space `indexed` has TREE, HASH, RTREE, BITSET, multikey and functional indexes and one with a user's collation; one
more comes and goes. A step is a definition, then a transaction that ends with its number in the space `progress`. What
the space has after a step depends on its number alone, so that the rows found after a kill or a damage can be checked,
and what each index finds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from box.data.codec import pack, unpack
from box.embed import LuaInstance
from box.index.iterator_type import IteratorType
from box.instance.node import Instance
from box.journal.storage import Storage
from box.schema.ids import SpaceId
from test.soak.step_model import StepModel

_FAR: Final = 1_000_000
_KEPT: Final = 60
"""How many steps a row is kept, so that the space stays small."""
_PROGRAM: Final = Path(__file__).with_suffix(".lua").read_bytes()
_INDEXES: Final = ("pk", "place", "bits", "tags", "marks", "name", "folded", "cells", "exact")

Row = list[Any]


def _row(key: int, n: int) -> Row:
    x, y = n * 37 % 100, n * 61 % 100
    place = [x, y, x + n % 5, y + n % 7] if n % 2 else [x, y]
    marks = [{"a": 2 * key}, {"a": 2 * key + 1, "b": n}]
    name = f"name {key}" if n % 2 else f"Name-{key}"
    return [key, place, n * 40503 % 65536, [f"t{n % 7}", None, f"u{n % 11}"], name, marks]


class Model(StepModel):
    """The rows by key after the steps 1 to `step`."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[int, Row] = {}

    def _make(self, n: int) -> None:
        kind = n % 10
        if kind in (1, 2, 9):
            self.rows |= {key: _row(key, n) for key in (n, n + _FAR)}
        elif kind == 3:
            self.rows.pop(n - 11, None)
        elif kind == 4:
            key, _, bits, tags, _, marks = self.rows[n - 3]
            marks = [marks[0], {**marks[1], "a": 2 * n + 2 * _FAR}]
            self.rows[key] = [key, [n % 100, n % 50], bits | 0x8001, ["updated", *tags], f"NAME {key}", marks]
        elif kind == 5:
            self.rows[n - 3] = _row(n - 3, n)
        elif kind == 7:
            key, _, bits, *others = self.rows[n - 5]
            self.rows[key] = [key, [n % 10, n % 10], bits ^ 0xFF, *others]
            self.rows[n + _FAR] = _row(n + _FAR, n)
        elif kind == 8:
            self.rows = {key: row for key, row in self.rows.items() if key % _FAR >= n - _KEPT}
        elif n % 100 == 50:
            self.rows = {}


class Worker:
    """Makes steps on a node with a Lua runtime."""

    def __init__(self, directory: str | None = None, *, disk: Storage | None = None) -> None:
        self.instance = LuaInstance(directory, node=None if disk is None else Instance(disk=disk))
        self.node = self.instance.node

    async def start(self, **options: Any) -> None:
        await self.instance.configure(options)
        await self._eval(b"step, prepare, refusals, loops = (function() " + _PROGRAM + b" end)()")

    async def stop(self) -> None:
        await self.instance.stop()

    async def _eval(self, text: bytes, *args: Any) -> list[Any]:
        found: list[Any] = unpack(await self.instance.runtime.eval(text, pack(list(args)), self.node.new_context()))
        return found

    async def prepare(self) -> int:
        """Make what lacks of the definitions, and return the number of the last step."""
        return int((await self._eval(b"return prepare()"))[0])

    async def step(self, n: int) -> None:
        """Make step `n`, and wait until it is in the log."""
        await self._eval(b"step(...)", n)

    async def check(self, model: Model, least: int) -> int:
        """Assert that the node has the rows and indexes of step `least` or later, and return the step's number.

        `model` is at `least` or before it; afterwards it is at the step that was found.
        """
        spaces = self.node.schema.spaces
        ids = {row[2]: row[0] for row in self.select(SpaceId.SPACE)}
        if not all(name in ids and 0 in spaces[ids[name]].indexes for name in ("indexed", "progress")):
            assert not least, "the spaces are gone"
            return 0
        rows = self.select(ids["progress"])
        found = rows[0][1] if rows else 0
        assert found >= least, f"step {least} was acknowledged, {found} is there"
        model.advance(found)
        rows = self.select(ids["indexed"])
        if rows or found % 100 != 49:  # at 49 the truncation of the next step may be there
            assert rows == [model.rows[key] for key in sorted(model.rows)], f"step {found}: {rows}"
        Indexes(self, ids["indexed"], rows).check(found)
        if found:
            await self._eval(b"refusals(box.space.indexed) loops(box.space.indexed)")
        return found

    def select(
        self, space_id: int, index_id: int = 0, iterator: IteratorType = IteratorType.ALL, key: Any = ()
    ) -> list[Row]:
        """Return the rows that an index finds, in its order."""
        space, reads = self.node.schema.space(space_id), self.node.dml.reads
        found = reads.select(self.node.new_context(), space, index_id, iterator, 0, 2**32 - 1, list(key))
        return [unpack(raw) for raw in found]


class Indexes:
    """Compares what each index of a space finds with a search of the space's rows."""

    def __init__(self, worker: Worker, space_id: int, rows: list[Row]) -> None:
        self._worker = worker
        self._space_id = space_id
        self._rows = rows
        indexes = [row for row in worker.select(SpaceId.INDEX) if row[0] == space_id]
        linked = {row[1] for row in worker.select(SpaceId.FUNC_INDEX) if row[0] == space_id}
        halves = [row for row in indexes if row[4].get("func") and row[1] not in linked]
        assert len(halves) <= 1, f"indexes without their functions: {halves}"
        self._ids: dict[str, int] = {row[2]: row[1] for row in indexes if row not in halves}
        self._half_made = {row[2] for row in halves}

    def check(self, step: int) -> None:
        """Assert that the indexes are there which the steps up to `step` have made, and that all find their rows."""
        missing = set(_INDEXES) - self._ids.keys()
        assert not step or not missing, f"step {step}: without {missing}"
        # The next step makes (29) or drops (39) a functional index, in two rows: `_index` and `_func_index`.
        assert not step or step % 50 in (29, 39) or not self._half_made, f"step {step}: {self._half_made}"
        self._check_extra(step)
        for x, y in ((0, 0), (37, 61), (50, 20)):
            self._check_place(x, y)
        for bits in (1, 0x8001, 0x0F0F):
            self._compare("bits", IteratorType.BITS_ALL_SET, [bits], lambda row, b=bits: row[2] & b == b)
            self._compare("bits", IteratorType.BITS_ANY_SET, [bits], lambda row, b=bits: row[2] & b)
            self._compare("bits", IteratorType.BITS_ALL_NOT_SET, [bits], lambda row, b=bits: not row[2] & b)
        for tag in ("t1", "u3", "updated"):
            self._compare("tags", IteratorType.EQ, [tag], lambda row, t=tag: t in row[3])
        for row in self._rows:
            for mark in row[5]:
                self._compare("marks", IteratorType.EQ, [mark["a"]], lambda one, key=row[0]: one[0] == key)
            self._compare("folded", IteratorType.EQ, [row[4].lower()], lambda one, key=row[0]: one[0] == key)
            self._compare("exact", IteratorType.EQ, [row[4]], lambda one, key=row[0]: one[0] == key)
            letters = row[4].upper().replace("-", " ")
            self._compare("name", IteratorType.EQ, [letters], lambda one, key=row[0]: one[0] == key)
        for cell in (0, 5, 16, 23):
            self._compare("cells", IteratorType.EQ, [cell], lambda row, c=cell: c in _cells(row))
        for name in ("place", "bits", "name", "folded", "exact"):
            self._compare(name, IteratorType.ALL, [], lambda _: True)

    def _check_place(self, x: int, y: int) -> None:
        square = [x - 9, y - 9, x + 9, y + 9]
        self._compare("place", IteratorType.OVERLAPS, square, lambda row: _overlap(row[1], square))
        if "place" in self._ids:
            nearest = self._worker.select(self._space_id, self._ids["place"], IteratorType.NEIGHBOR, [x, y])
            distances = [_distance(row[1], x, y) for row in nearest]
            assert distances == sorted(_distance(row[1], x, y) for row in self._rows), f"neighbors of {x}, {y}"

    def _check_extra(self, step: int) -> None:
        extras = {name for name in self._ids if name.startswith("extra")}
        last = step // 10 - (step // 10 % 10 == 5)  # the truncation takes the place of a definition
        if step % 10 != 9:
            assert extras == ({f"extra{last % 5}"} if last else set()), f"step {step}: {extras}"
        for name in extras:
            number = self._ids[name]
            found = self._worker.select(self._space_id, number)
            once = {row[0]: row for row in found}
            assert [once[key] for key in sorted(once)] == self._rows, f"{name}: {found}"

    def _compare(self, name: str, iterator: IteratorType, key: list[Any], belongs: Callable[[Row], Any]) -> None:
        if name not in self._ids:
            return
        found = self._worker.select(self._space_id, self._ids[name], iterator, key)
        expected = [row for row in self._rows if belongs(row)]
        assert sorted(found) == expected, f"{name}, {iterator.name} {key}: {found}, expected {expected}"


def _cells(row: Row) -> tuple[int, int]:
    return row[1][0] % 16, 16 + row[1][1] % 16


def _corners(place: list[int]) -> tuple[int, int, int, int]:
    x, y, *others = place
    return (x, y, others[0], others[1]) if others else (x, y, x, y)


def _overlap(place: list[int], square: list[int]) -> bool:
    left, low, right, high = _corners(place)
    return left <= square[2] and square[0] <= right and low <= square[3] and square[1] <= high


def _distance(place: list[int], x: int, y: int) -> int:
    left, low, right, high = _corners(place)
    return max(left - x, 0, x - right) ** 2 + max(low - y, 0, y - high) ** 2
