"""The dictionary, and spaces by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from box.embed import Node as AsynchronousNode
from box.embed import SchemaRequests
from box.embed.schema_requests import Format
from box.sync.blocking_handles import BlockingSpace
from box.sync.facade import Facade, blocking


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

    create_user = blocking(SchemaRequests.create_user)
    drop_user = blocking(SchemaRequests.drop_user)
    set_password = blocking(SchemaRequests.set_password)
    users = blocking(SchemaRequests.users)
    create_role = blocking(SchemaRequests.create_role)
    drop_role = blocking(SchemaRequests.drop_role)
    roles = blocking(SchemaRequests.roles)
    grant = blocking(SchemaRequests.grant)
    revoke = blocking(SchemaRequests.revoke)
    grants = blocking(SchemaRequests.grants)
    create_function = blocking(SchemaRequests.create_function)
    drop_function = blocking(SchemaRequests.drop_function)
    functions = blocking(SchemaRequests.functions)
