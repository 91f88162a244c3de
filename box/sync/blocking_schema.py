"""The dictionary, and spaces by name, for blocking nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar, overload

from box.embed import GrantedPrivilege, SchemaRequests, SequenceHandle
from box.embed import Node as AsynchronousNode
from box.embed.schema_requests import Constraints, ForeignKeys, Format
from box.sync.blocking_handles import BlockingSpace
from box.sync.facade import Facade

R = TypeVar("R")


class BlockingSpaces(Facade[AsynchronousNode], Mapping[str, BlockingSpace]):
    """The user's spaces by name: `node.space["goods"]` or `node.space.goods`; see `box.Node.space`."""

    def __getitem__(self, name: str) -> BlockingSpace:
        return BlockingSpace(self._contexts, self._now(lambda: self.asynchronous.space[name]))

    def __getattr__(self, name: str) -> BlockingSpace:
        if name.startswith("__") or "_contexts" not in self.__dict__:
            raise AttributeError(name)
        return BlockingSpace(self._contexts, self._now(lambda: self.asynchronous.space.__getattr__(name)))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self if name.isidentifier())]

    def __contains__(self, name: object) -> bool:
        return self._now(lambda: name in self.asynchronous.space)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the space with a name, or `default` if there is none."""
        return default if name not in self else self.__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._now(lambda: list(self.asynchronous.space)))

    def __len__(self) -> int:
        return self._now(lambda: len(self.asynchronous.space))

    def __repr__(self) -> str:
        return repr(self.asynchronous.space)


class BlockingSequence(Facade[SequenceHandle]):
    """A sequence; see `box.SequenceHandle`."""

    @property
    def name(self) -> str:
        """The name of the sequence."""
        return self.asynchronous.name

    def next(self) -> int:
        """Return the next number; see `box.SequenceHandle.next`."""
        return self._run(lambda: self.asynchronous.next())

    def current(self) -> int:
        """Return the number that `next` returned last; see `box.SequenceHandle.current`."""
        return self._run(lambda: self.asynchronous.current())

    def set(self, value: int) -> None:
        """Let `next` continue after `value`; see `box.SequenceHandle.set`."""
        self._run(lambda: self.asynchronous.set(value))

    def reset(self) -> None:
        """Let `next` begin with `start` again; see `box.SequenceHandle.reset`."""
        self._run(lambda: self.asynchronous.reset())

    def drop(self) -> None:
        """Drop the sequence; see `box.SequenceHandle.drop`."""
        self._run(lambda: self.asynchronous.drop())


class BlockingSchema(Facade[SchemaRequests]):
    """Creates and lists objects of the dictionary: `node.schema`; see `box.SchemaRequests`."""

    @overload
    def create_space(
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
    ) -> BlockingSpace: ...

    @overload
    def create_space(
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
    ) -> BlockingSpace[R]: ...

    def create_space(
        self, name: str, *, format: Format | None = None, row: Any = None, **options: Any
    ) -> BlockingSpace[Any]:
        """Create a space; see `box.SchemaRequests.create_space`."""
        made = self._run(lambda: self.asynchronous.create_space(name, format=format, row=row, **options))
        return BlockingSpace(self._contexts, made)

    def create_sequence(
        self,
        name: str,
        *,
        start: int | None = None,
        min: int | None = None,
        max: int | None = None,
        step: int | None = None,
        cycle: bool | None = None,
        if_not_exists: bool = False,
    ) -> BlockingSequence:
        """Create a sequence that counts from `start` (1) in steps of `step` (1), between `min` and `max`; see
        `box.SchemaRequests.create_sequence`.
        """
        made = self._run(
            lambda: self.asynchronous.create_sequence(
                name, start=start, min=min, max=max, step=step, cycle=cycle, if_not_exists=if_not_exists
            )
        )
        return BlockingSequence(self._contexts, made)

    def sequence(self, name: str) -> BlockingSequence:
        """Return a handle of a sequence; see `box.SchemaRequests.sequence`."""
        return BlockingSequence(self._contexts, self.asynchronous.sequence(name))

    def create_user(self, name: str, *, password: str | None = None, if_not_exists: bool = False) -> None:
        """Create a user; see `box.SchemaRequests.create_user`."""
        self._run(lambda: self.asynchronous.create_user(name, password=password, if_not_exists=if_not_exists))

    def drop_user(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a user and the objects that the user owns; see `box.SchemaRequests.drop_user`."""
        self._run(lambda: self.asynchronous.drop_user(name, if_exists=if_exists))

    def set_password(self, name: str, password: str) -> None:
        """Set the password of a user; see `box.SchemaRequests.set_password`."""
        self._run(lambda: self.asynchronous.set_password(name, password))

    def users(self) -> list[str]:
        """List the names of all users; see `box.SchemaRequests.users`."""
        return self._run(lambda: self.asynchronous.users())

    def create_role(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a role; see `box.SchemaRequests.create_role`."""
        self._run(lambda: self.asynchronous.create_role(name, if_not_exists=if_not_exists))

    def drop_role(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a role; see `box.SchemaRequests.drop_role`."""
        self._run(lambda: self.asynchronous.drop_role(name, if_exists=if_exists))

    def roles(self) -> list[str]:
        """List the names of all roles; see `box.SchemaRequests.roles`."""
        return self._run(lambda: self.asynchronous.roles())

    def grant(
        self,
        grantee: str,
        privileges: str,
        object_type: str | None = None,
        object_name: str | None = None,
        *,
        if_not_exists: bool = False,
    ) -> None:
        """Grant privileges to a user or a role: `grant("alice", "read,write", "space", "goods")`; see
        `box.SchemaRequests.grant`.
        """
        self._run(
            lambda: self.asynchronous.grant(grantee, privileges, object_type, object_name, if_not_exists=if_not_exists)
        )

    def revoke(
        self,
        grantee: str,
        privileges: str,
        object_type: str | None = None,
        object_name: str | None = None,
        *,
        if_exists: bool = False,
    ) -> None:
        """Revoke privileges or a role; the arguments are those of `grant`. See `box.SchemaRequests.revoke`."""
        self._run(lambda: self.asynchronous.revoke(grantee, privileges, object_type, object_name, if_exists=if_exists))

    def grants(self, grantee: str) -> list[GrantedPrivilege]:
        """List the privileges of a user or a role; see `box.SchemaRequests.grants`."""
        return self._run(lambda: self.asynchronous.grants(grantee))

    def create_function(
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
        this name; see `box.SchemaRequests.create_function`.
        """
        self._run(
            lambda: self.asynchronous.create_function(
                name,
                body=body,
                if_not_exists=if_not_exists,
                setuid=setuid,
                is_deterministic=is_deterministic,
                is_sandboxed=is_sandboxed,
                is_multikey=is_multikey,
                comment=comment,
                language=language,
            )
        )

    def drop_function(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a function; see `box.SchemaRequests.drop_function`."""
        self._run(lambda: self.asynchronous.drop_function(name, if_exists=if_exists))

    def functions(self) -> list[str]:
        """List the names of the registered Lua functions; see `box.SchemaRequests.functions`."""
        return self._run(lambda: self.asynchronous.functions())

    def sequences(self) -> list[str]:
        """List the names of all sequences; see `box.SchemaRequests.sequences`."""
        return self._run(lambda: self.asynchronous.sequences())
