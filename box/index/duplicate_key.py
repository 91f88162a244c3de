"""The error for a key that a unique index has already: TUPLE_FOUND, in Python `DuplicateKeyError`.

All code that puts keys into indexes looks for the key first, and raises this error before it changes anything:

| way | where |
|---|---|
| a change with triggers or sequences | `TupleStorage.check` in `box/txn/storage.py` |
| a change of a plain space, the usual case | `txn/fast_path.py`, `WritePlan.exchange_all` in `box/txn/write_plan.py` |
| the build of a new index over stored tuples | `IndexBuild` in `box/schema/ddl/build.py` |
| the load of a snapshot or of a join | `SpaceLoad` in `space_load.py` |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from box.data.show import tuple_str
from box.errors import BoxError, ErrorCode, client_error

if TYPE_CHECKING:
    from box.index.base import Index


def duplicate_key(index: Index, space_name: str, old: bytes, new: bytes) -> BoxError:
    """Return the error for the tuple `new`: a unique index holds its key already, for the tuple `old`."""
    return client_error(ErrorCode.TUPLE_FOUND, index.name, space_name, tuple_str(old), tuple_str(new))
