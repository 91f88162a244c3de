"""Makes snapshots without a node, with one user space between two others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa

from box.data.codec import pack
from box.journal.snapshot import SnapshotSpace, write_snapshot
from box.journal.storage import FileStorage
from box.spark.columns import Column
from box.spark.reference import arrow_type
from box.wire.vclock import VClock

SPACE_ID, INDEX_ID, GOODS = 280, 288, 512
FORMAT = [{"name": "id", "type": "unsigned"}, {"name": "name", "type": "string"}, {"name": "price", "type": "double"}]
PRIMARY: Sequence[Any] = [GOODS, 0, "pk", "tree", {"unique": True}, [[0, "unsigned"]]]


def goods(count: int) -> list[list[object]]:
    """Make tuples of `FORMAT`, sorted by their keys."""
    return [[number, f"name {number * 7919 % 10007}", number / 4] for number in range(count)]


def write(
    directory: Path,
    tuples: Iterable[list[object]],
    signature: int = 7,
    fields: object = FORMAT,
    *,
    indexes: Sequence[Sequence[Any]] = (PRIMARY,),
    around: int = 1000,
    instance: UUID | None = None,
    engine: str = "memtx",
) -> Path:
    """Write a snapshot with the space `goods` between two others of `around` tuples each."""
    definitions = [[GOODS - 1, 1, "before", "memtx", 0, {}, []], [GOODS, 1, "goods", engine, 0, {}, fields]]
    directory.mkdir(parents=True, exist_ok=True)
    spaces = [
        SnapshotSpace(SPACE_ID, [pack(row) for row in definitions], 0),
        SnapshotSpace(INDEX_ID, [pack(row) for row in indexes], 0),
        SnapshotSpace(GOODS - 1, [pack([number, "x" * 40]) for number in range(around)], 0),
        SnapshotSpace(GOODS, [pack(row) for row in tuples], 0),
        SnapshotSpace(GOODS + 1, [pack([number, "y" * 40]) for number in range(around)], 0),
    ]
    return Path(write_snapshot(FileStorage(), str(directory), VClock({1: signature}), instance or uuid4(), spaces))


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema that Spark would ask for."""
    return pa.schema([pa.field(c.name, arrow_type(c), c.is_nullable) for c in columns])
