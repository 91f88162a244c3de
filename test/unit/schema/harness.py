"""A dictionary that tests change by rows of system spaces, with just enough of a transaction to undo them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from box.data import codec
from box.eager import run_through
from box.errors import BoxError, ErrorCode, client_error
from box.schema import Schema, Space, SpaceId, User, bootstrap_rows, initial_schema
from box.txn.engines import make_engines
from box.txn.transaction import OpenStatement, Statement
from box.wire.constants import RequestType

INSTANCE_UUID = "11111111-1111-1111-1111-111111111111"
REPLICASET_UUID = "22222222-2222-2222-2222-222222222222"


def refusal(action: Callable[..., Any], *args: Any) -> str:
    """Return the text of the error that an action raises, '' if it succeeds."""
    try:
        action(*args)
    except BoxError as error:
        return error.message
    return ""


class Dictionary:
    """Applies rows to spaces as the transaction manager does: checks, changes the indexes, runs the system trigger."""

    def __init__(self) -> None:
        self.schema: Schema = initial_schema(make_engines())
        self.credentials = self.schema.users[1].credentials
        self.statements: list[Statement] = []

    def bootstrap(self) -> None:
        for space_id, raw in bootstrap_rows(INSTANCE_UUID, REPLICASET_UUID):
            self._change(space_id, RequestType.INSERT, raw)
            self.commit()

    def insert(self, space_id: int, *row: Any) -> bytes:
        return self._change(space_id, RequestType.INSERT, codec.pack(list(row)))

    def replace(self, space_id: int, *row: Any) -> bytes:
        return self._change(space_id, RequestType.REPLACE, codec.pack(list(row)))

    def delete(self, space_id: int, *key: Any) -> None:
        space = self.schema.space(space_id)
        old = space.index(0).get(list(key))
        assert old is not None
        self._run(space, RequestType.DELETE, old, None)

    def create_space(self, space_id: int, name: str, *, owner: int = 1, **options: Any) -> Space:
        space_format = options.pop("format", [])
        self.insert(SpaceId.SPACE, space_id, owner, name, options.pop("engine", "memtx"), 0, options, space_format)
        return self.schema.space(space_id)

    def create_index(self, space_id: int, iid: int, *parts: Any, kind: str = "tree", **options: Any) -> None:
        name = options.pop("name", f"i{iid}")
        options.setdefault("unique", True)
        items = [{"field": field, "type": field_type} for field, field_type in parts]
        self.insert(SpaceId.INDEX, space_id, iid, name, kind, options, items)

    def create_user(self, uid: int, name: str, kind: str = "user") -> User:
        self.insert(SpaceId.USER, uid, 1, name, kind, {})
        return self.schema.user(uid)

    def grant(self, uid: int, object_type: str, object_id: int | str, mask: int) -> None:
        self.replace(SpaceId.PRIV, 1, uid, object_type, object_id, mask)

    def act_as(self, user: User) -> None:
        self.credentials = user.credentials

    def check_single_statement(self, what: str) -> None:
        if len(self.statements) > 1:
            raise client_error(ErrorCode.MULTISTATEMENT_TRANSACTION, what)

    def commit(self) -> None:
        for statement in self.statements:
            for hook in statement.on_commit:
                hook()
        self.statements = []

    def rollback(self) -> None:
        while self.statements:
            statement = self.statements.pop()
            assert statement.space is not None
            self._exchange(statement.space, statement.new, statement.old)
            while statement.on_rollback:
                statement.on_rollback.pop()()

    def error(self, action: Any, *args: Any, **options: Any) -> str:
        """Return the text of the error that an action raises, and undo the statement."""
        before = self.schema.version
        with pytest.raises(BoxError) as caught:
            action(*args, **options)
        assert self.schema.version == before, "a failed statement left a trace"
        return caught.value.message

    def _change(self, space_id: int, request_type: int, raw: bytes) -> bytes:
        space = self.schema.space(space_id)
        fields = space.format.validate(raw)
        old = None
        for index in space.indexes.values():
            found = index.find(index.key_of(fields)) if index.definition.unique else None
            if found is not None and (index.iid != 0 or request_type == RequestType.INSERT) and found != old:
                raise client_error(ErrorCode.TUPLE_FOUND, index.name, space.name, repr(found), repr(raw))
            old = found if index.iid == 0 else old
        self._run(space, request_type, old, raw)
        return raw

    def _run(self, space: Space, request_type: int, old: bytes | None, new: bytes | None) -> None:
        statement = OpenStatement(space, request_type)
        statement.old, statement.new = old, new
        self._exchange(space, old, new)
        self.statements.append(statement)
        try:
            if space.system_trigger is not None:
                work = space.system_trigger(self.credentials, self, statement)
                if work is not None:
                    run_through(work)()
        except BoxError:
            self.statements.pop()
            self._exchange(space, new, old)
            raise

    def _exchange(self, space: Space, old: bytes | None, new: bytes | None) -> None:
        for index in space.indexes.values():
            if old is not None:
                index.remove(index.key_of(codec.unpack(old)))
            if new is not None:
                index.put(index.key_of(codec.unpack(new)), new)
