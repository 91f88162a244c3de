"""The rows of a new instance's system spaces, in the order of a snapshot.

A node that bootstraps applies them like a snapshot. The content is that of a fresh instance of the 2.8 line (dictionary
version 2.7.1), byte for byte except for the two UUIDs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from box.data import codec
from box.data.collation import COLLATIONS
from box.schema._bootstrap_tables import INDEXES, SPACES, SQL_FUNCTIONS
from box.schema.access import EMPTY_PASSWORD
from box.schema.ids import SYSTEM_ID_MAX, SpaceId, UserId

DICTIONARY_VERSION = (2, 7, 1)
"""The version of the system spaces that 2.8.1 makes: nothing changed in them after 2.7.1."""
_ADMIN = int(UserId.ADMIN)
_CREATED = "2020-12-22 20:31:16"
_ALL = 2**32 - 1
_EXECUTE = 4
_READ, _WRITE = 1, 2
_SESSION_AND_USAGE = 24


def bootstrap_rows(instance_uuid: UUID | str, replicaset_uuid: UUID | str) -> Iterator[tuple[int, bytes]]:
    """Yield (space id, tuple) for every row. The instance gets id 1."""
    for space_id, tuples in bootstrap_runs(instance_uuid, replicaset_uuid):
        for raw in tuples:
            yield space_id, raw


def bootstrap_runs(instance_uuid: UUID | str, replicaset_uuid: UUID | str) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (space id, list of its tuples) for every system space. The instance gets id 1."""
    groups: tuple[tuple[int, list[list[Any]]], ...] = (
        (SpaceId.SCHEMA, _schema_rows(str(replicaset_uuid))),
        (SpaceId.COLLATION, _collation_rows()),
        (SpaceId.SPACE, _space_rows()),
        (SpaceId.INDEX, _index_rows()),
        (SpaceId.FUNC, _function_rows()),
        (SpaceId.USER, _user_rows()),
        (SpaceId.PRIV, _privilege_rows()),
        (SpaceId.CLUSTER, [[1, str(instance_uuid)]]),
    )
    for space_id, rows in groups:
        yield int(space_id), list(map(codec.pack, rows))


def sql_function_names() -> frozenset[str]:
    """Return the names that a function of the language SQL_BUILTIN may have."""
    return frozenset(SQL_FUNCTIONS)


def _schema_rows(replicaset_uuid: str) -> list[list[Any]]:
    return [["cluster", replicaset_uuid], ["max_id", SYSTEM_ID_MAX], ["version", *DICTIONARY_VERSION]]


def _collation_rows() -> list[list[Any]]:
    return [[item.id, item.name, _ADMIN, item.type, item.locale, item.options] for item in COLLATIONS]


def _space_rows() -> list[list[Any]]:
    return [
        [int(space_id), _ADMIN, name, engine, field_count, dict(options), _format_of(space_id, format_text)]
        for space_id, name, engine, field_count, options, format_text in SPACES
    ]


def _format_of(space_id: int, text: str) -> list[dict[str, Any]]:
    """Convert `name:type` pairs to the maps of a format."""
    if space_id == SpaceId.SCHEMA:  # in Tarantool, its maps have another key order and a nullable field
        return [{"type": "string", "name": "key"}, {"type": "any", "name": "value", "is_nullable": True}]
    return [dict(zip(("name", "type"), item.split(":"), strict=True)) for item in text.split()]


def _index_rows() -> list[list[Any]]:
    rows: list[list[Any]] = []
    for space_ids, iid, name, kind, is_unique, parts in INDEXES:
        fields = [[int(number), part_type] for number, part_type in (part.split(":") for part in parts.split())]
        rows += [[int(space_id), iid, name, kind, {"unique": is_unique}, fields] for space_id in space_ids]
    rows.sort(key=lambda row: (row[0], row[1]))
    return rows


def _function_rows() -> list[list[Any]]:
    def row(number: int, name: str, setuid: int, language: str, body: str, *params: str) -> list[Any]:
        exports = ["LUA"] if language == "LUA" and not body else ["LUA", "SQL"] if body else []
        head = [number, _ADMIN, name, setuid, language, body, "function", list(params)]
        return [*head, "any", "none", "none", False, False, True, exports, {}, "", _CREATED, _CREATED]

    rows = [row(1, "box.schema.user.info", 0, "LUA", "")]
    for name in SQL_FUNCTIONS:
        if len(rows) == 64:  # the function that evaluates Lua for SQL has id 65
            rows.append(row(65, "LUA", 0, "LUA", "function(code) return assert(loadstring(code))() end", "string"))
        rows.append(row(len(rows) + 1, name, 1, "SQL_BUILTIN", ""))
    return rows


def _user_rows() -> list[list[Any]]:
    return [
        [int(UserId.GUEST), _ADMIN, "guest", "user", {"chap-sha1": EMPTY_PASSWORD}],
        [_ADMIN, _ADMIN, "admin", "user", {}],
        [int(UserId.PUBLIC), _ADMIN, "public", "role", {}],
        [int(UserId.REPLICATION), _ADMIN, "replication", "role", {}],
        [int(UserId.SUPER), _ADMIN, "super", "role", {}],
    ]


def _privilege_rows() -> list[list[Any]]:
    """Return the rows of `_priv`, ordered by grantee, object type and object id."""
    guest, public = int(UserId.GUEST), int(UserId.PUBLIC)
    replication, super_role = int(UserId.REPLICATION), int(UserId.SUPER)
    views = [SpaceId.VCOLLATION, SpaceId.VSPACE, SpaceId.VSEQUENCE, SpaceId.VINDEX, SpaceId.VFUNC]
    views += [SpaceId.VUSER, SpaceId.VPRIV]
    function_count = len(SQL_FUNCTIONS) + 2
    return [
        [_ADMIN, guest, "role", public, _EXECUTE],
        [_ADMIN, guest, "universe", 0, _SESSION_AND_USAGE],
        [_ADMIN, _ADMIN, "universe", 0, _ALL],
        *([_ADMIN, public, "function", number, _EXECUTE] for number in range(1, function_count + 1)),
        [_ADMIN, public, "space", int(SpaceId.COLLATION), _WRITE],
        *([_ADMIN, public, "space", int(view), _READ] for view in views),
        [_ADMIN, public, "space", int(SpaceId.TRUNCATE), _WRITE],
        [_ADMIN, replication, "space", int(SpaceId.CLUSTER), _WRITE],
        [_ADMIN, replication, "universe", 0, _READ],
        [_ADMIN, super_role, "universe", 0, _ALL],
    ]
