"""The dictionary from Python: `node.schema` creates and lists spaces, users, roles, grants and functions.

Every call goes through the functions of `box.schema`, so checks, errors and defaults are those of Lua. A change of the
dictionary is a request like any other: it is part of the transaction that its task has open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NotRequired, TypedDict, TypeVar, overload

from box.embed.arguments import checked_text, field_list, text_or_none
from box.embed.handles import SpaceHandle, Spaces
from box.embed.row_types import format_of
from box.embed.sequences import SequenceHandle

if TYPE_CHECKING:
    from box.embed.embedding import ContextSource, Embedding

R = TypeVar("R")

Format = Sequence[str | Sequence[Any] | Mapping[str, Any]]
"""The fields of a space, each as `("name", "string")`, as `"name"` for a field of any type, or as `{"name": ...,
"type": ..., "is_nullable": ..., "collation": ..., "constraint": ..., "foreign_key": ...}`."""

Constraints = str | Sequence[str] | Mapping[str, str]
"""The functions that a tuple has to satisfy: one name, several, or names of constraints with their functions."""


class ForeignKeyOptions(TypedDict):
    """Fields whose values another space must have: `{"space": "goods", "field": {"good": "id"}}`.

    Fields are names or numbers, counted from 1; those of this space come first. Without `space` it is this space.
    """

    space: NotRequired[str | int]
    field: Mapping[Any, str | int]


ForeignKeys = ForeignKeyOptions | Mapping[str, ForeignKeyOptions]
"""One foreign key, which is named after its space, or several by their names."""

_LIST_FUNCTIONS = """
    local found = {}
    for _, t in box.space._func:pairs() do
        if t.language == 'LUA' then table.insert(found, t.name) end
    end
    return {found}
"""
_LIST_SEQUENCES = """
    local found = {}
    for _, t in box.space._sequence:pairs() do table.insert(found, t.name) end
    return {found}
"""
_LIST_USERS = """
    local kind, found = ..., {}
    for _, t in box.space._user:pairs() do
        if t.type == kind then table.insert(found, t.name) end
    end
    return {found}
"""


class GrantedPrivilege(NamedTuple):
    """A privilege of a user or a role: `("read,write", "space", "goods")`."""

    privileges: str
    object_type: str
    object_name: str | None


class SchemaRequests:
    """Creates and lists spaces, sequences, users, roles, grants and functions: `node.schema`.

    Raises:
        AlreadyExistsError: an object with this name exists, and `if_not_exists` is not set.
        SchemaError: an object does not exist, or its definition is wrong.
        AccessDeniedError: a privilege is missing.
        ReadOnlyError: the instance accepts no changes.
        TypeError: a name, a password or another text is not a str.
        ClientError: ILLEGAL_PARAMS, an option has another type, or a text is not valid Unicode.
    """

    def __init__(self, embedding: Embedding, contexts: ContextSource | None = None) -> None:
        self._embedding = embedding
        self._spaces = Spaces(embedding, contexts)

    def __repr__(self) -> str:
        return f"<schema: {self._spaces!r}>"

    async def _call(self, name: str, *args: Any) -> Any:
        return await self._embedding.eval(f"return (box.schema.{name}(...))", *args)

    # -- spaces

    @overload
    async def create_space(
        self,
        name: str,
        *,
        format: Format | None = None,
        row: None = None,
        if_not_exists: bool = False,
        engine: str | None = None,
        id: int | None = None,
        user: str | None = None,
        field_count: int | None = None,
        temporary: bool | None = None,
        is_local: bool | None = None,
        is_sync: bool | None = None,
        constraint: Constraints | None = None,
        foreign_key: ForeignKeys | None = None,
    ) -> SpaceHandle: ...

    @overload
    async def create_space(
        self,
        name: str,
        *,
        format: Format | None = None,
        row: type[R],
        if_not_exists: bool = False,
        engine: str | None = None,
        id: int | None = None,
        user: str | None = None,
        field_count: int | None = None,
        temporary: bool | None = None,
        is_local: bool | None = None,
        is_sync: bool | None = None,
        constraint: Constraints | None = None,
        foreign_key: ForeignKeys | None = None,
    ) -> SpaceHandle[R]: ...

    async def create_space(
        self,
        name: str,
        *,
        format: Format | None = None,
        row: type[Any] | None = None,
        if_not_exists: bool = False,
        engine: str | None = None,
        id: int | None = None,
        user: str | None = None,
        field_count: int | None = None,
        temporary: bool | None = None,
        is_local: bool | None = None,
        is_sync: bool | None = None,
        constraint: Constraints | None = None,
        foreign_key: ForeignKeys | None = None,
    ) -> SpaceHandle[Any]:
        """Create a space. It needs an index (`SpaceHandle.create_index`) before it accepts tuples.

        With `row`, a NamedTuple or a dataclass, rows are objects of that class. Without `format` the class defines the
        format too: int is `integer`, str `string`, float `number`, bool `boolean`, bytes `varbinary`, and `X | None` is
        nullable. `id` and the owner `user` have defaults. `is_sync` makes its transactions wait for a quorum. Rows of
        an `is_local` space stay on this instance; those of a `temporary` space are not logged either.

        Functions named by `constraint` are called with each tuple and must return true; `create_function` makes them,
        with `is_deterministic`. A `foreign_key` requires a tuple in another space. A field in `format` can have
        a constraint and a foreign key of its own.

        Raises:
            AlreadyExistsError: SPACE_EXISTS, and `if_not_exists` is not set.
            SchemaError: the name, the format or an option is wrong.
            UnsupportedError: the engine is `vinyl`.
            DataError: with `if_not_exists`, the existing space lacks a field of `row`.
            TypeError: `format` is no list of fields, or `row` is neither a NamedTuple nor a dataclass.
        """
        checked_text("name", name)
        if row is not None and format is None:
            format = format_of(row)
        options = _without_none(
            format=None if format is None else field_list(format),
            if_not_exists=if_not_exists,
            engine=engine,
            id=id,
            user=user,
            field_count=field_count,
            temporary=temporary,
            is_local=is_local,
            is_sync=is_sync,
            constraint=constraint,
            foreign_key=foreign_key,
        )
        await self._embedding.eval("box.schema.space.create(...)", name, options)
        return self._spaces[name] if row is None else self._spaces[name].rows_as(row)

    # -- sequences

    async def create_sequence(
        self,
        name: str,
        *,
        start: int | None = None,
        min: int | None = None,
        max: int | None = None,
        step: int | None = None,
        cycle: bool | None = None,
        if_not_exists: bool = False,
    ) -> SequenceHandle:
        """Create a sequence that counts from `start` (1) in steps of `step` (1), between `min` and `max`.

        With `cycle` it starts over at the bound.

        Raises:
            AlreadyExistsError: SEQUENCE_EXISTS, and `if_not_exists` is not set.
            SchemaError: CREATE_SEQUENCE, the bounds are wrong.
        """
        checked_text("name", name)
        options = _without_none(start=start, min=min, max=max, step=step, cycle=cycle, if_not_exists=if_not_exists)
        await self._embedding.eval("box.schema.sequence.create(...)", name, options)
        return SequenceHandle(self._embedding, name)

    def sequence(self, name: str) -> SequenceHandle:
        """Return a handle of a sequence. Its methods raise SchemaError if no sequence has this name."""
        return SequenceHandle(self._embedding, checked_text("name", name))

    async def sequences(self) -> list[str]:
        """List the names of all sequences."""
        return list(await self._listed(_LIST_SEQUENCES))

    # -- users and roles

    async def create_user(self, name: str, *, password: str | None = None, if_not_exists: bool = False) -> None:
        """Create a user."""
        checked_text("name", name)
        text_or_none("password", password)
        await self._embedding.eval(
            "box.schema.user.create(...)", name, _without_none(password=password, if_not_exists=if_not_exists)
        )

    async def drop_user(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a user and the objects that the user owns."""
        checked_text("name", name)
        await self._embedding.eval("box.schema.user.drop(...)", name, _without_none(if_exists=if_exists))

    async def set_password(self, name: str, password: str) -> None:
        """Set the password of a user."""
        checked_text("name", name)
        checked_text("password", password)
        await self._embedding.eval("box.schema.user.passwd(...)", name, password)

    async def users(self) -> list[str]:
        """List the names of all users."""
        return list(await self._listed(_LIST_USERS, "user"))

    async def create_role(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a role."""
        checked_text("name", name)
        await self._embedding.eval("box.schema.role.create(...)", name, _without_none(if_not_exists=if_not_exists))

    async def drop_role(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a role."""
        checked_text("name", name)
        await self._embedding.eval("box.schema.role.drop(...)", name, _without_none(if_exists=if_exists))

    async def roles(self) -> list[str]:
        """List the names of all roles."""
        return list(await self._listed(_LIST_USERS, "role"))

    # -- privileges

    async def grant(
        self,
        grantee: str,
        privileges: str,
        object_type: str | None = None,
        object_name: str | None = None,
        *,
        if_not_exists: bool = False,
    ) -> None:
        """Grant privileges to a user or a role: `grant("alice", "read,write", "space", "goods")`.

        `grant("alice", "accountant")` grants a role; the object type "universe" has no name.
        """
        options = _without_none(if_not_exists=if_not_exists)
        await self._privilege("grant", grantee, privileges, object_type, object_name, options)

    async def revoke(
        self,
        grantee: str,
        privileges: str,
        object_type: str | None = None,
        object_name: str | None = None,
        *,
        if_exists: bool = False,
    ) -> None:
        """Revoke privileges or a role; the arguments are those of `grant`."""
        options = _without_none(if_exists=if_exists)
        await self._privilege("revoke", grantee, privileges, object_type, object_name, options)

    async def _privilege(
        self,
        verb: str,
        grantee: str,
        privileges: str,
        object_type: str | None,
        object_name: str | None,
        options: dict[str, Any],
    ) -> None:
        checked_text("grantee", grantee)
        checked_text("privileges", privileges)
        text_or_none("object_type", object_type)
        text_or_none("object_name", object_name)
        kind = "role" if grantee in await self.roles() else "user"
        given = grantee, privileges, object_type, object_name, options
        await self._embedding.eval(f"box.schema.{kind}.{verb}(...)", *given)

    async def grants(self, grantee: str) -> list[GrantedPrivilege]:
        """List the privileges of a user or a role."""
        checked_text("grantee", grantee)
        kind = "role" if grantee in await self.roles() else "user"
        rows = await self._listed(f"return {{box.schema.{kind}.info(...)}}", grantee)
        return [GrantedPrivilege(row[0], row[1], row[2] if len(row) > 2 else None) for row in rows]

    # -- functions

    async def create_function(
        self,
        name: str,
        *,
        body: str | None = None,
        if_not_exists: bool = False,
        setuid: bool | None = None,
        is_deterministic: bool | None = None,
        is_sandboxed: bool | None = None,
        is_multikey: bool | None = None,
        comment: str | None = None,
        language: Literal["LUA", "SQL_EXPR"] | None = None,
    ) -> None:
        """Register a Lua function: a stored one with `body` (`"function(x) return x end"`), otherwise the global of
        this name.

        The global may be a Python function (`Node.function`). With the `language` SQL_EXPR the body is an expression
        of SQL (`'"since" <= "till"'`), which constraints of a space use.
        """
        checked_text("name", name)
        text_or_none("body", body)
        text_or_none("comment", comment)
        options = _without_none(
            body=body,
            if_not_exists=if_not_exists,
            setuid=setuid,
            is_deterministic=is_deterministic,
            is_sandboxed=is_sandboxed,
            opts=None if is_multikey is None else {"is_multikey": is_multikey},
            comment=comment,
            language=language,
        )
        await self._embedding.eval("box.schema.func.create(...)", name, options)

    async def drop_function(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a function."""
        checked_text("name", name)
        await self._embedding.eval("box.schema.func.drop(...)", name, _without_none(if_exists=if_exists))

    async def functions(self) -> list[str]:
        """List the names of the registered Lua functions."""
        return list(await self._listed(_LIST_FUNCTIONS))

    async def _listed(self, source: str, *args: Any) -> list[Any]:
        """Run Lua source and return its first result, which is a list; an empty Lua table becomes an empty list."""
        (found,) = await self._embedding.eval(source, *args)
        return list(found)


def _without_none(**options: Any) -> dict[str, Any]:
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}
