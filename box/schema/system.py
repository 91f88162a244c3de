"""The dictionary before any row is read.

The rows of a snapshot describe the system spaces themselves. Therefore the spaces that take in the first rows exist
from the start, without a format and with the primary key alone. The rows then alter them to their real form.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from box.data.keydef import PartDef
from box.data.types import FieldType
from box.index import IndexDef
from box.schema.ddl import TRIGGERS
from box.schema.ddl.alter import make_format, make_space
from box.schema.ids import GROUP_LOCAL, SpaceId, UserId
from box.schema.schema import Schema
from box.schema.space import Layout, SpaceDef, SpaceOpts
from box.schema.storage_engine import Engine

_STRING, _UNSIGNED = FieldType.STRING, FieldType.UNSIGNED
_PRIMARY_KEYS: dict[SpaceId, tuple[str, tuple[FieldType, ...]]] = {
    SpaceId.SCHEMA: ("_schema", (_STRING,)),
    SpaceId.COLLATION: ("_collation", (_UNSIGNED,)),
    SpaceId.SPACE: ("_space", (_UNSIGNED,)),
    SpaceId.TRUNCATE: ("_truncate", (_UNSIGNED,)),
    SpaceId.SEQUENCE: ("_sequence", (_UNSIGNED,)),
    SpaceId.SEQUENCE_DATA: ("_sequence_data", (_UNSIGNED,)),
    SpaceId.SPACE_SEQUENCE: ("_space_sequence", (_UNSIGNED,)),
    SpaceId.USER: ("_user", (_UNSIGNED,)),
    SpaceId.FUNC: ("_func", (_UNSIGNED,)),
    SpaceId.PRIV: ("_priv", (_UNSIGNED,)),
    SpaceId.CLUSTER: ("_cluster", (_UNSIGNED,)),
    SpaceId.TRIGGER: ("_trigger", (_STRING,)),
    SpaceId.INDEX: ("_index", (_UNSIGNED, _UNSIGNED)),
    SpaceId.FK_CONSTRAINT: ("_fk_constraint", (_STRING, _UNSIGNED)),
    SpaceId.CK_CONSTRAINT: ("_ck_constraint", (_UNSIGNED, _STRING)),
    SpaceId.FUNC_INDEX: ("_func_index", (_UNSIGNED, _UNSIGNED)),
}
"""The name and the types of the first fields of system spaces. These make a provisional primary key until the row of
the real one is loaded, as for `_priv`."""


def initial_schema(engines: Mapping[str, Engine]) -> Schema:
    """Make a dictionary with the first system spaces and their triggers, ready for the rows of a snapshot."""
    schema = Schema(engines)
    for space_id, (name, types) in _PRIMARY_KEYS.items():
        parts = tuple(PartDef(fieldno, kind) for fieldno, kind in enumerate(types))
        index_def = IndexDef(int(space_id), 0, "primary", "TREE", True, parts)
        _add(schema, SpaceDef(int(space_id), int(UserId.ADMIN), name), index_def)
    opts = SpaceOpts(group_id=GROUP_LOCAL)
    blackhole = SpaceDef(
        int(SpaceId.VINYL_DEFERRED_DELETE), int(UserId.ADMIN), "_vinyl_deferred_delete", "blackhole", opts=opts
    )
    _add(schema, blackhole, None)
    return schema


def _add(schema: Schema, definition: SpaceDef, index_def: IndexDef | None) -> None:
    space = make_space(schema, definition)
    if index_def is not None:
        index = space.engine.make_index(schema, space, index_def, None)
        space.engine.exchanged(schema, None, index)
        space.install(Layout(definition, make_format(schema, definition, (index_def,)), {0: index}))
    trigger = TRIGGERS.get(definition.id)
    space.system_trigger = partial(trigger, schema) if trigger is not None else None
    schema.add_space(space)
