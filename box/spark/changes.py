"""Collects the changes that a log makes to one space: it takes the rows in order and gives the changes sorted by key.

Changes of definitions are applied as they come, so that operations that name fields find the format of their time. A
row of `_truncate` and the drop of the primary key or of the space discard everything so far, including the tuples of
the snapshot.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from box.data.codec import unpack
from box.data.format import TupleFormat
from box.errors import unsupported
from box.spark.change_runs import CHANGES, ChangeRuns
from box.spark.definitions import INDEX_ID, SPACE_ID, TRUNCATE_ID, Definitions
from box.spark.primary_keys import PrimaryKeys, SortKey
from box.wire.change import Request, decode_row
from box.wire.constants import DML_TYPES, RequestType
from box.wire.row import Row


class FoundChanges(NamedTuple):
    """Changes of one space as columns: the encoded keys, the request types and the request bodies."""

    keys: pa.Array
    kinds: pa.Array
    bodies: pa.Array


class SpaceChanges:
    """The changes of one space by the rows of a cut.

    `wants` takes a key and its encoded bytes and returns whether the worker needs its changes, because the key belongs
    to its share. `formats` has the tuple formats that the column `format` of `runs` refers to by number.
    """

    def __init__(
        self,
        space_id: int,
        definitions: Definitions,
        wants: Callable[[SortKey, bytes], bool],
        runs: ChangeRuns | None = None,
    ) -> None:
        self.space_id = space_id
        self._definitions = definitions.copy()
        self._wants = wants
        self.runs = ChangeRuns() if runs is None else runs
        self.formats: list[TupleFormat] = []
        self.has_base = definitions.by_id(space_id) is not None
        """True while the tuples of the snapshot count: nothing has emptied the space since."""
        self._keys: PrimaryKeys | None = None
        self._refresh()

    def _refresh(self) -> None:
        """Update the keys and the formats from the current definitions."""
        info = self._definitions.by_id(self.space_id)
        self._keys = None if info is None or info.primary is None else PrimaryKeys(info)
        self.formats.append(TupleFormat() if info is None else info.tuple_format())

    @property
    def has_keys(self) -> bool:
        """True if the space has a primary key now."""
        return self._keys is not None

    @property
    def keys(self) -> PrimaryKeys:
        """The current primary key.

        Raises:
            BoxError: UNSUPPORTED, there is none.
        """
        if self._keys is None:
            raise unsupported(f"space {self.space_id}", "rows without a primary key")
        return self._keys

    def take_found(self, found: FoundChanges) -> None:
        """Add changes of wanted keys that were made under the current definitions."""
        formats = pa.repeat(pa.scalar(len(self.formats) - 1, pa.int32()), len(found.keys))
        columns = [found.keys, found.kinds, formats, found.bodies]
        self.runs.add(pa.RecordBatch.from_arrays(columns, schema=CHANGES))

    def take(self, row: Row) -> None:
        """Apply the next row of the cut.

        Raises:
            BoxError: the row cannot be applied.
        """
        if row.type not in DML_TYPES or not row.body:
            return
        space_id, request = decode_row(row)
        if space_id == self.space_id:
            self._change(request, row.body)
        elif space_id in (SPACE_ID, INDEX_ID):
            self._change_definition(space_id, request)
        elif space_id == TRUNCATE_ID and self._values_of(request)[0] == self.space_id:
            self._clear()

    @staticmethod
    def _values_of(request: Request) -> list[Any]:
        values: list[Any] = unpack(request.tuple) if request.tuple else request.key
        return values

    def _clear(self) -> None:
        self.runs.clear()
        self.has_base = False

    def _change_definition(self, space_id: int, request: Request) -> None:
        values = self._values_of(request)
        if values[0] != self.space_id:
            return
        before = self._keys
        self._definitions.change(space_id, request)
        if request.type == RequestType.DELETE and (space_id == SPACE_ID or values[1] == 0):
            self._clear()
        self._refresh()
        has_tuples = self.has_base or self.runs
        if has_tuples and before is not None and self._keys is not None and before.key_def != self._keys.key_def:
            raise unsupported(
                f"space {self.space_id}", "another primary key in the log: take a snapshot with box.snapshot()"
            )

    def _change(self, request: Request, body: bytes) -> None:
        keys = self.keys
        key = keys.key_def.extract(unpack(request.tuple)) if request.tuple else keys.key_def.parse(request.key)
        encoded = keys.encode(key)
        if self._wants(key, encoded):
            self.runs.add_row(encoded, request.type, len(self.formats) - 1, body)


def bucket_of(key: bytes, count: int) -> int:
    """Return a number below `count` for an encoded key, which is the same in every process."""
    return zlib.crc32(key) % count
