"""The dictionary, and spaces by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from box.embed import Node as AsynchronousNode
from box.embed import SchemaRequests
from box.embed.schema_requests import Format, GrantedPrivilege
from box.sync.blocking_handles import BlockingSpace
from box.sync.facade import Facade


class BlockingSpaces(Facade[AsynchronousNode], Mapping[str, BlockingSpace]):
    """`node.space`: the user's spaces by name; see `box.embed.handles.Spaces`."""

    def __getitem__(self, name: str) -> BlockingSpace:
        """NO_SUCH_SPACE."""
        return BlockingSpace(self._thread, self._now(lambda: self.asynchronous.space[name]))

    def __contains__(self, name: object) -> bool:
        return self._now(lambda: name in self.asynchronous.space)

    def get(self, name: str, default: Any = None) -> Any:
        """The space, or `default` without one."""
        return default if name not in self else self.__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._now(lambda: list(self.asynchronous.space)))

    def __len__(self) -> int:
        return self._now(lambda: len(self.asynchronous.space))

    def __repr__(self) -> str:
        return repr(self.asynchronous.space)


class BlockingSchema(Facade[SchemaRequests]):
    """`node.schema`; see `box.embed.SchemaRequests`."""

    def create_space(self, name: str, *, format: Format | None = None, **options: Any) -> BlockingSpace:
        """See `box.embed.SchemaRequests.create_space`."""
        made = self._run(lambda: self.asynchronous.create_space(name, format=format, **options))
        return BlockingSpace(self._thread, made)

    def create_user(self, name: str, *, password: str | None = None, if_not_exists: bool = False) -> None:
        """See `box.embed.SchemaRequests.create_user`."""
        self._run(lambda: self.asynchronous.create_user(name, password=password, if_not_exists=if_not_exists))

    def drop_user(self, name: str, *, if_exists: bool = False) -> None:
        """See `box.embed.SchemaRequests.drop_user`."""
        self._run(lambda: self.asynchronous.drop_user(name, if_exists=if_exists))

    def set_password(self, name: str, password: str) -> None:
        """See `box.embed.SchemaRequests.set_password`."""
        self._run(lambda: self.asynchronous.set_password(name, password))

    def users(self) -> list[str]:
        """See `box.embed.SchemaRequests.users`."""
        return self._run(lambda: self.asynchronous.users())

    def create_role(self, name: str, *, if_not_exists: bool = False) -> None:
        """See `box.embed.SchemaRequests.create_role`."""
        self._run(lambda: self.asynchronous.create_role(name, if_not_exists=if_not_exists))

    def drop_role(self, name: str, *, if_exists: bool = False) -> None:
        """See `box.embed.SchemaRequests.drop_role`."""
        self._run(lambda: self.asynchronous.drop_role(name, if_exists=if_exists))

    def roles(self) -> list[str]:
        """See `box.embed.SchemaRequests.roles`."""
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
        """See `box.embed.SchemaRequests.grant`."""
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
        """See `box.embed.SchemaRequests.revoke`."""
        self._run(lambda: self.asynchronous.revoke(grantee, privileges, object_type, object_name, if_exists=if_exists))

    def grants(self, grantee: str) -> list[GrantedPrivilege]:
        """See `box.embed.SchemaRequests.grants`."""
        return self._run(lambda: self.asynchronous.grants(grantee))

    def create_function(self, name: str, **options: Any) -> None:
        """See `box.embed.SchemaRequests.create_function`."""
        self._run(lambda: self.asynchronous.create_function(name, **options))

    def drop_function(self, name: str, *, if_exists: bool = False) -> None:
        """See `box.embed.SchemaRequests.drop_function`."""
        self._run(lambda: self.asynchronous.drop_function(name, if_exists=if_exists))

    def functions(self) -> list[str]:
        """See `box.embed.SchemaRequests.functions`."""
        return self._run(lambda: self.asynchronous.functions())
