"""The changes that a log brings to one space: for every key what its tuple is, or what is to be done to it.

```
row                     tuple known from the log           tuple in the snapshot, or none
INSERT, REPLACE         the new tuple                      the new tuple
DELETE                  gone                               gone
UPDATE, UPSERT          applied at once                    kept, to be applied to what the snapshot has
_truncate, drop of the primary key or of the space: everything so far is gone, the snapshot's tuples too
```

Definitions move with the rows, so that operations that name fields find those of their time.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from box.data.codec import unpack
from box.data.format import TupleFormat
from box.data.keydef import KeyDef
from box.data.update import apply_update, apply_upsert
from box.errors import unsupported
from box.spark.definitions import INDEX_ID, SPACE_ID, TRUNCATE_ID, Definitions, primary_key
from box.wire.change import Request, decode_row
from box.wire.constants import DML_TYPES, RequestType
from box.wire.row import Row

SortKey = Any
_PUTS = (RequestType.INSERT, RequestType.REPLACE)


@dataclass(slots=True)
class _Pending:
    """Operations for a tuple that only the snapshot knows, with the format of their time."""

    steps: list[tuple[Request, TupleFormat]]


class SpaceChanges:
    """Fed with the rows of a cut; then asked for the outcome of each key, once.

    `wants` tells which keys are of interest here: those of the share that a worker reads.
    """

    def __init__(self, space_id: int, definitions: Definitions, wants: Callable[[SortKey], bool]) -> None:
        self._space_id = space_id
        self._definitions = definitions.copy()
        self._wants = wants
        self._outcomes: dict[SortKey, bytes | _Pending | None] = {}
        self.has_base = definitions.by_id(space_id) is not None
        """The snapshot's tuples still count."""
        self._refresh()

    def _refresh(self) -> None:
        """Take over what the definitions say now."""
        info = self._definitions.by_id(self._space_id)
        self._key_def: KeyDef | None = None
        self._format = TupleFormat()
        if info is not None and info.primary is not None:
            self._key_def, self._format = primary_key(info), info.tuple_format()
        elif info is not None:
            self._format = info.tuple_format()

    @property
    def key_def(self) -> KeyDef:
        """The order of the primary key as it is now."""
        if self._key_def is None:
            raise unsupported(f"space {self._space_id}", "rows without a primary key")
        return self._key_def

    def take(self, row: Row) -> None:
        """The next row that counts. Raises BoxError for one that cannot be applied."""
        if row.type not in DML_TYPES or not row.body:
            return
        space_id, request = decode_row(row)
        if space_id == self._space_id:
            self._change(request)
        elif space_id in (SPACE_ID, INDEX_ID):
            self._change_definition(space_id, request)
        elif space_id == TRUNCATE_ID and self._values_of(request)[0] == self._space_id:
            self._clear()

    @staticmethod
    def _values_of(request: Request) -> list[Any]:
        values: list[Any] = unpack(request.tuple) if request.tuple else request.key
        return values

    def _clear(self) -> None:
        self._outcomes.clear()
        self.has_base = False

    def _change_definition(self, space_id: int, request: Request) -> None:
        values = self._values_of(request)
        if values[0] != self._space_id:
            return
        before = self._key_def
        self._definitions.change(space_id, request)
        if request.type == RequestType.DELETE and (space_id == SPACE_ID or values[1] == 0):
            self._clear()
        self._refresh()
        has_tuples = self.has_base or self._outcomes
        if has_tuples and before is not None and self._key_def is not None and before != self._key_def:
            raise unsupported(
                f"space {self._space_id}", "another primary key in the log: take a snapshot with box.snapshot()"
            )

    def _change(self, request: Request) -> None:
        fields: list[Any] = []
        if request.tuple:
            fields = unpack(request.tuple)
            key = self.key_def.extract(fields)
        else:
            key = self.key_def.parse(request.key)
        if not self._wants(key):
            return
        if request.type in _PUTS:
            self._outcomes[key] = request.tuple
        elif request.type == RequestType.DELETE:
            self._outcomes[key] = None
        else:
            self._modify(key, request)

    def _modify(self, key: SortKey, request: Request) -> None:
        known = self._outcomes.get(key, _Pending([]) if self.has_base else None)
        if isinstance(known, _Pending):
            known.steps.append((request, self._format))
            self._outcomes[key] = known
        else:
            self._outcomes[key] = self._step(key, known, request, self._format)

    def _step(self, key: SortKey, raw: bytes | None, request: Request, fmt: TupleFormat) -> bytes | None:
        if request.type == RequestType.UPDATE:
            return None if raw is None else apply_update(raw, request.ops, fmt=fmt, index_base=request.index_base)
        if raw is None:
            return request.tuple
        new = apply_upsert(raw, request.ops, fmt=fmt, index_base=request.index_base)
        # An upsert that would change the primary key is logged and does nothing.
        return new if self.key_def.extract(unpack(new)) == key else raw

    # -- outcomes -------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._outcomes)

    def first_parts(self) -> list[Any]:
        """The first part of every changed key."""
        if len(self.key_def) == 1:
            return list(self._outcomes)
        return [key[0] for key in self._outcomes]

    def is_changed(self, fields: list[Any]) -> bool:
        """Whether a tuple of the snapshot has another outcome than itself."""
        return self.key_def.extract(fields) in self._outcomes

    def outcome(self, raw: bytes, fields: list[Any]) -> bytes | None:
        """The tuple that a tuple of the snapshot, which is changed, has become; None if it is gone."""
        key = self.key_def.extract(fields)
        return self._finish(key, self._outcomes.pop(key), raw)

    def rest(self) -> Iterator[bytes]:
        """The tuples of all keys that nobody has asked for: the snapshot does not have them."""
        while self._outcomes:
            key, known = self._outcomes.popitem()
            raw = self._finish(key, known, None)
            if raw is not None:
                yield raw

    def _finish(self, key: SortKey, known: bytes | _Pending | None, base: bytes | None) -> bytes | None:
        if not isinstance(known, _Pending):
            return known
        for request, fmt in known.steps:
            base = self._step(key, base, request, fmt)
        return base


def bucket_of(key: SortKey, count: int) -> int:
    """A number below `count` for a key, the same in every process for keys that are equal."""
    if isinstance(key, tuple):
        return sum((number + 1) * bucket_of(part, count) for number, part in enumerate(key)) % count
    if isinstance(key, str | bytes):
        return zlib.crc32(key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key) % count
    return hash(key) % count if isinstance(key, int | float | Decimal) else 0
