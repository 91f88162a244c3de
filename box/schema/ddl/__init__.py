"""Triggers of the system spaces: every change of the dictionary is a change of a system space.

Each is called as `trigger(schema, credentials, txn, stmt)` inside the changing transaction, right after the row is in
the indexes. `credentials` are the rights of the requester; the other arguments are described in `dictionary_change`. A
trigger either raises before it changes anything, or changes the dictionary and appends the undo to `stmt.on_rollback`.
A trigger that has to visit many tuples first returns a coroutine, whose result is called to make the change.
"""

from __future__ import annotations

from collections.abc import Callable

from box.schema.access import Credentials
from box.schema.ddl.access import on_replace_priv, on_replace_user
from box.schema.ddl.build import Deferred
from box.schema.ddl.cluster import on_replace_cluster, on_replace_schema
from box.schema.ddl.collation import on_replace_collation
from box.schema.ddl.dictionary_change import DdlStatement, DdlTransaction
from box.schema.ddl.function import on_replace_func
from box.schema.ddl.index import on_replace_func_index, on_replace_index
from box.schema.ddl.sequence import on_replace_sequence, on_replace_sequence_data, on_replace_space_sequence
from box.schema.ddl.space import on_replace_space, on_replace_truncate
from box.schema.ddl.sql import on_replace_ck_constraint, on_replace_fk_constraint, on_replace_trigger
from box.schema.ids import SpaceId
from box.schema.schema import Schema

__all__ = ["TRIGGERS"]

TRIGGERS: dict[int, Callable[[Schema, Credentials, DdlTransaction, DdlStatement], Deferred | None]] = {
    SpaceId.SCHEMA: on_replace_schema,
    SpaceId.COLLATION: on_replace_collation,
    SpaceId.SPACE: on_replace_space,
    SpaceId.TRUNCATE: on_replace_truncate,
    SpaceId.SEQUENCE: on_replace_sequence,
    SpaceId.SEQUENCE_DATA: on_replace_sequence_data,
    SpaceId.SPACE_SEQUENCE: on_replace_space_sequence,
    SpaceId.USER: on_replace_user,
    SpaceId.FUNC: on_replace_func,
    SpaceId.PRIV: on_replace_priv,
    SpaceId.CLUSTER: on_replace_cluster,
    SpaceId.TRIGGER: on_replace_trigger,
    SpaceId.INDEX: on_replace_index,
    SpaceId.FK_CONSTRAINT: on_replace_fk_constraint,
    SpaceId.CK_CONSTRAINT: on_replace_ck_constraint,
    SpaceId.FUNC_INDEX: on_replace_func_index,
}
"""The function that applies a change of a system space, by the space's id. Views and blackholes have none."""
