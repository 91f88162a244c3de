"""`box.schema.upgrade`: updates the system spaces of an older version.

The target dictionary is known as a whole (`box.schema.bootstrap`), so an upgrade compares instead of repeating the
history of versions. It has three steps, each of which may be repeated after a failure in the middle:

    rows         rows of users whose meaning or form has changed: grants, functions, sequences of spaces, ...
    structure    `_space` and `_index` rows of system spaces that are missing or differ
    built-ins    collations, functions and grants that an instance has from its birth

Source: the differences between versions of Tarantool, and a snapshot of its 2.6 that our start upgrades.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from box.data.codec import pack, unpack
from box.errors import illegal_params
from box.schema.access import Privilege
from box.schema.bootstrap import DICTIONARY_VERSION, bootstrap_rows
from box.schema.ddl.alter import is_empty
from box.schema.ids import SpaceId, UserId, is_system_id
from box.schema.newer import Version, dictionary_version, newer_notes
from box.wire.change import Request

if TYPE_CHECKING:
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.session import Context

Row = list[Any]

OLDEST: Final[Version] = (1, 7, 5)
"""The oldest version that can be upgraded. Before it, users and indexes have another format."""

ALL_OF_ADMIN: Final[Version] = (1, 7, 7)
"""The first version in which the administrator's grant has every bit set."""

_ALL: Final = 2**32 - 1
_READ_WRITE: Final = Privilege.R | Privilege.W
_FUNCTION_FIELDS: Final = 19
"""The number of fields in a row of `_func` since 2.2.1, see `box.schema.function`."""
_NO_UUID: Final = "00000000-0000-0000-0000-000000000000"


class Writer(Protocol):
    """The part of `box.txn.dml.Dml` that an upgrade needs."""

    async def execute(self, ctx: Context, space: Space, request: Request) -> bytes | None: ...


class UpgradeLog(Protocol):
    """The part of the log that an upgrade needs."""

    def info(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...


def needs_upgrade(schema: Schema) -> bool:
    """Return whether the files come from an older version."""
    return is_older(schema, DICTIONARY_VERSION)


def is_older(schema: Schema, version: Version) -> bool:
    """Return whether the dictionary has a version before this one."""
    found = dictionary_version(schema)
    return found is not None and found < version


def version_text(schema: Schema) -> str:
    """Return the version of the dictionary as text."""
    return ".".join(map(str, dictionary_version(schema) or ()))


class SchemaUpgrade:
    """An upgrade with the rights of `ctx`. `now` returns seconds since the epoch."""

    def __init__(self, schema: Schema, dml: Writer, ctx: Context, log: UpgradeLog, now: Callable[[], float]) -> None:
        self._schema = schema
        self._dml = dml
        self._ctx = ctx
        self._log = log
        self._date = datetime.fromtimestamp(now(), UTC).strftime("%Y-%m-%d %H:%M:%S")
        self._wanted: dict[int, list[Row]] = {}
        for space_id, raw in bootstrap_rows(_NO_UUID, _NO_UUID):
            self._wanted.setdefault(space_id, []).append(unpack(raw))
        self._new_objects: set[tuple[str, int]] = set()
        """The (type, id) of each object that this upgrade has created; their grants follow later."""

    async def run(self) -> None:
        """Upgrade if that is needed and possible.

        Raises:
            ClientError: ILLEGAL_PARAMS, the version is unknown.
            ReadOnlyError: the instance accepts no changes.
            BoxError: a change of a system space failed.
        """
        version = dictionary_version(self._schema)
        if version is None:
            raise illegal_params('missing "version" in box.space._schema')
        if version >= DICTIONARY_VERSION:
            for note in newer_notes(self._schema):
                self._log.info(note)
            return
        if version < OLDEST:
            self._log.warn("can upgrade from {}.{}.{} only".format(*OLDEST))
            return
        steps: tuple[tuple[Version, Callable[[], Awaitable[None]]], ...] = (
            (ALL_OF_ADMIN, self._grant_what_was_free),
            ((2, 1, 0), self._grant_alter_and_drop),
            ((2, 1, 1), self._forget_sql_of_indexes),
            ((2, 1, 2), self._name_strength_of_collations),
            ((2, 2, 1), self._name_fields_of_sequences),
            ((2, 2, 1), self._describe_functions),
            ((2, 7, 1), self._drop_setuid),
            (DICTIONARY_VERSION, self._complete_structure),
            ((2, 2, 1), self._move_checks),
            (DICTIONARY_VERSION, self._complete_built_ins),
        )
        for before, step in steps:
            if version < before:
                await step()
        self._log.info("set schema version to {}.{}.{}".format(*DICTIONARY_VERSION))
        await self._replace(SpaceId.SCHEMA, ["version", *DICTIONARY_VERSION])

    # -- access to rows -----------------------------------------------------------------------------

    def _rows(self, space_id: int) -> list[Row]:
        """Return all rows of a space; none if the space does not exist yet."""
        space = self._schema.spaces.get(space_id)
        return [] if space is None else [unpack(raw) for raw in space.engine.tuples(space)]

    async def _replace(self, space_id: int, row: Row) -> None:
        await self._dml.execute(self._ctx, self._schema.space(space_id), Request.replace(pack(row)))

    async def _delete(self, space_id: int, *key: Any) -> None:
        await self._dml.execute(self._ctx, self._schema.space(space_id), Request.delete(list(key)))

    async def _grant(self, grantee: int, object_type: str, object_id: Any, mask: int) -> None:
        """Add a privilege to what the grantee already has."""
        key = [grantee, object_type, object_id]
        present = next((row[4] for row in self._rows(SpaceId.PRIV) if row[1:4] == key), 0)
        if present | mask != present:
            await self._replace(SpaceId.PRIV, [int(UserId.ADMIN), *key, present | mask])

    # -- rows of users ------------------------------------------------------------------------------

    async def _grant_what_was_free(self) -> None:
        """Grant rights that needed no grant before 1.7.7: all users could log in, and a user who could read and write
        the universe could also create objects.
        """
        for user in self._rows(SpaceId.USER):
            if user[3] != "role":
                await self._grant(user[0], "universe", 0, Privilege.S | Privilege.U)
        for _, grantee, kind, object_id, mask in self._rows(SpaceId.PRIV):
            if kind == "universe" and mask & _READ_WRITE == _READ_WRITE:
                await self._grant(grantee, kind, object_id, Privilege.C)
        await self._grant(int(UserId.ADMIN), "universe", 0, _ALL)
        if all(user[0] != UserId.SUPER for user in self._rows(SpaceId.USER)):
            await self._replace(SpaceId.USER, [int(UserId.SUPER), int(UserId.ADMIN), "super", "role", {}])
            await self._grant(int(UserId.SUPER), "universe", 0, _ALL)

    async def _grant_alter_and_drop(self) -> None:
        """Grant what read and write included before 2.1.0: alter and drop on an object, create on a kind of objects."""
        for _, grantee, kind, object_id, mask in self._rows(SpaceId.PRIV):
            if kind != "sequence" and mask & _READ_WRITE == _READ_WRITE:
                is_general = kind == "universe" or object_id == ""
                more = Privilege.A | Privilege.D | (Privilege.C if is_general else 0)
                await self._grant(grantee, kind, object_id, more)

    async def _forget_sql_of_indexes(self) -> None:
        for row in self._rows(SpaceId.INDEX):
            if row[4].pop("sql", None) is not None:
                await self._replace(SpaceId.INDEX, row)

    async def _name_strength_of_collations(self) -> None:
        """Name ICU's default strength in collations that have none. A collation cannot be replaced in one step."""
        for row in self._rows(SpaceId.COLLATION):
            if row[3] == "ICU" and "strength" not in row[5]:
                row[5]["strength"] = "tertiary"
                await self._delete(SpaceId.COLLATION, row[0])
                await self._replace(SpaceId.COLLATION, row)

    async def _name_fields_of_sequences(self) -> None:
        """Name the field of sequences, which used to be the first part of the primary key."""
        primary = {row[0]: row for row in self._rows(SpaceId.INDEX) if row[1] == 0}
        for row in self._rows(SpaceId.SPACE_SEQUENCE):
            if len(row) == 3:
                part = primary[row[0]][5][0]
                place = [part["field"], part.get("path", "")] if isinstance(part, dict) else [part[0], ""]
                await self._delete(SpaceId.SPACE_SEQUENCE, row[0])
                await self._replace(SpaceId.SPACE_SEQUENCE, [*row, *place])

    async def _describe_functions(self) -> None:
        """Complete the rows of functions, which used to have id, owner, name, setuid and perhaps a language."""
        for row in self._rows(SpaceId.FUNC):
            if len(row) < _FUNCTION_FIELDS:
                head = [*row[:3], row[3] if len(row) > 3 else 0, row[4] if len(row) > 4 else "LUA"]
                await self._replace(SpaceId.FUNC, self._function(head, ["LUA"]))

    def _function(self, head: Row, exports: list[str]) -> Row:
        """Complete the row of a function from its first five fields; the function accepts any arguments."""
        tail = ["any", "none", "none", False, False, True, exports, {}, "", self._date, self._date]
        return [*head, "", "function", [], *tail]

    async def _drop_setuid(self) -> None:
        """Remove setuid from built-in Lua functions, which run with the rights of their caller since 2.7.1."""
        for row in self._rows(SpaceId.FUNC):
            if row[2] in ("LUA", "box.schema.user.info") and row[3] != 0:
                await self._revoke_function(row[0])
                self._log.info(f'remove old function "{row[2]}"')
                await self._delete(SpaceId.FUNC, row[0])
                self._log.info(f'create function "{row[2]}" with unset setuid')
                await self._replace(SpaceId.FUNC, [*row[:3], 0, *row[4:-2], self._date, self._date])
                self._log.info(f'grant execute on function "{row[2]}" to public')
                await self._grant(int(UserId.PUBLIC), "function", row[0], Privilege.X)

    async def _revoke_function(self, function_id: int) -> None:
        for _, grantee, kind, object_id, _ in self._rows(SpaceId.PRIV):
            if (kind, object_id) == ("function", function_id):
                await self._delete(SpaceId.PRIV, grantee, kind, object_id)

    async def _move_checks(self) -> None:
        """Move check constraints, which used to be an option of their space, to rows of their own.

        A space with tuples keeps its option, which has no effect, because a constraint can be created only in an empty
        one.
        """
        for row in self._rows(SpaceId.SPACE):
            checks = row[5].get("checks")
            if not isinstance(checks, list) or not all(isinstance(check, dict) and "expr" in check for check in checks):
                continue
            if checks and not is_empty(self._schema.space(row[0])):
                self._log.warn(f"check constraints of space {row[2]} have no effect: it is not empty")
                continue
            del row[5]["checks"]
            await self._replace(SpaceId.SPACE, row)
            for number, check in enumerate(checks, 1):
                name = check.get("name") or f"CK_CONSTRAINT_{number}_{row[2]}"
                await self._replace(SpaceId.CK_CONSTRAINT, [row[0], name, False, "SQL", check["expr"], True])

    # -- structure and built-ins --------------------------------------------------------------------

    async def _complete_structure(self) -> None:
        for space in self._wanted[SpaceId.SPACE]:
            await self._complete_space(space)

    async def _complete_space(self, wanted: Row) -> None:
        present = next((row for row in self._rows(SpaceId.SPACE) if row[0] == wanted[0]), None)
        if present is None:
            self._log.info(f"create space {wanted[2]}")
            self._new_objects.add(("space", wanted[0]))
        if present != wanted:
            await self._replace(SpaceId.SPACE, wanted)
        indexes = {(row[0], row[1]): row for row in self._rows(SpaceId.INDEX) if is_system_id(row[0])}
        for index in self._wanted[SpaceId.INDEX]:
            if index[0] == wanted[0] and indexes.get((index[0], index[1])) != index:
                await self._replace(SpaceId.INDEX, index)

    async def _complete_built_ins(self) -> None:
        for row in self._missing(SpaceId.COLLATION):
            await self._replace(SpaceId.COLLATION, [self._free_id(SpaceId.COLLATION, row[0]), *row[1:]])
        for row in self._missing(SpaceId.FUNC):
            number = self._free_id(SpaceId.FUNC, row[0])
            await self._replace(SpaceId.FUNC, [number, *row[1:-2], self._date, self._date])
            await self._grant(int(UserId.PUBLIC), "function", number, Privilege.X)
        for _, grantee, kind, object_id, mask in self._wanted[SpaceId.PRIV]:
            if (kind, object_id) in self._new_objects:
                await self._grant(grantee, kind, object_id, mask)

    def _missing(self, space_id: int) -> Iterable[Row]:
        """Return built-in objects whose name (field 3 of functions, 2 of collations) is not taken."""
        field = 2 if space_id == SpaceId.FUNC else 1
        names = {row[field] for row in self._rows(space_id)}
        return [row for row in self._wanted[space_id] if row[field] not in names]

    def _free_id(self, space_id: int, wanted: int) -> int:
        """Return the id that the object has in a fresh instance, or one above the greatest if a user has taken
        that id.
        """
        taken = {row[0] for row in self._rows(space_id)}
        return wanted if wanted not in taken else max(taken) + 1
