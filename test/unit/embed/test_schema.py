"""DDL from Python: spaces, indexes, sequences, users, functions."""

from __future__ import annotations

import asyncio

import pytest

from box import BoxError, Node
from box.embed import GrantedPrivilege
from box.errors import ErrorCode


def test_spaces_and_indexes_are_made_changed_and_dropped() -> None:
    async def run() -> None:
        async with Node() as node:
            goods = await node.schema.create_space(
                "goods",
                format=[("id", "unsigned"), {"name": "name", "type": "string"}, ["price", "number"]],
                temporary=True,
            )
            assert repr(goods) == "<space 'goods' memtx (id, name, price) indexes: none>"
            await goods.create_index("pk", sequence=True)
            by_name = await goods.create_index("name", parts=["name"], unique=False)
            assert await goods.insert([None, "fig", 1]) == [1, "fig", 1]
            assert await by_name.select("fig") == [[1, "fig", 1]]
            assert goods.format[0] == {"name": "id", "type": "unsigned"}
            assert await node.schema.create_space("goods", if_not_exists=True) is not None
            with pytest.raises(BoxError) as caught:
                await node.schema.create_space("goods")
            assert caught.value.code == ErrorCode.SPACE_EXISTS
            with pytest.raises(BoxError, match="engine"):
                await node.schema.create_space("other", engine="vinyl")

            await by_name.alter(parts=["name", "price"], unique=True)
            await by_name.rename("both")
            assert (by_name.name, list(goods.index)) == ("both", ["pk", "both"])
            assert await by_name.get(["fig", 1]) == [1, "fig", 1]
            with pytest.raises(BoxError) as caught:
                await goods.index["pk"].drop()
            assert caught.value.code == ErrorCode.DROP_PRIMARY_KEY
            await by_name.drop()
            await goods.set_format(["id", "name", "price", {"name": "unit", "type": "string", "is_nullable": True}])
            assert (await goods.get(1))._fields == ("id", "name", "price", "unit")  # type: ignore[union-attr]
            await goods.rename("wares")
            assert list(node.space) == ["wares"]
            assert await goods.len() == 1
            await goods.drop()
            assert list(node.space) == []
            with pytest.raises(BoxError) as caught:
                await goods.drop()
            assert caught.value.code == ErrorCode.NO_SUCH_SPACE

    asyncio.run(run())


def test_constraints_and_foreign_keys_of_spaces_and_fields() -> None:
    async def run() -> None:
        async with Node() as node:
            schema = node.schema
            goods = await schema.create_space("goods", format=[("id", "unsigned"), ("unit", "unsigned")])
            await goods.create_index("pk", parts=["id"])
            await goods.create_index("both", parts=["unit", "id"])
            await goods.insert([1, 2])
            await goods.insert([13, 13])
            body = "function(value) return value ~= 13 end"
            await schema.create_function("not_13", body=body, is_deterministic=True)
            await schema.create_function("ordered", language="SQL_EXPR", body='"a" <= "b"', is_deterministic=True)
            offers = await schema.create_space(
                "offers",
                format=[
                    {"name": "a", "type": "unsigned", "constraint": "not_13"},
                    {"name": "b", "type": "unsigned", "foreign_key": {"space": "goods", "field": "id"}},
                    ("unit", "unsigned"),
                ],
                constraint={"in_order": "ordered"},
                foreign_key={"both": {"space": "goods", "field": {"b": "id", 3: "unit"}}},
            )
            await offers.create_index("pk")
            await offers.insert([1, 1, 2])
            for row, code in (
                ([13, 13, 13], ErrorCode.FIELD_CONSTRAINT_FAILED),
                ([2, 1, 2], ErrorCode.TUPLE_CONSTRAINT_FAILED),
                ([0, 1, 3], ErrorCode.COMPLEX_FOREIGN_KEY_FAILED),
            ):
                with pytest.raises(BoxError) as caught:
                    await offers.insert(row)
                assert caught.value.code == code
            tree = await schema.create_space(
                "tree", format=[("id", "unsigned"), ("up", "unsigned")], foreign_key={"field": {"up": "id"}}
            )
            await tree.create_index("pk")
            with pytest.raises(BoxError, match="Foreign key constraint 'tree' failed"):
                await tree.insert([1, 2])
            with pytest.raises(BoxError, match="constraint function was not found by name 'none'"):
                await schema.create_space("other", constraint=["none"])

    asyncio.run(run())


def test_a_change_of_the_dictionary_is_part_of_the_transaction() -> None:
    async def run() -> None:
        async with Node() as node:

            async def make_and_fail() -> None:
                async with node.transaction():
                    await (await node.schema.create_space("s")).create_index("pk")
                    await node.space["s"].insert([1])
                    raise ValueError

            with pytest.raises(ValueError):
                await make_and_fail()
            assert list(node.space) == []

    asyncio.run(run())


def test_users_roles_and_grants() -> None:
    async def run() -> None:
        async with Node() as node:
            schema = node.schema
            await (await schema.create_space("s")).create_index("pk")
            await schema.create_user("alice", password="secret")
            await schema.create_user("alice", if_not_exists=True)
            await schema.create_role("reader")
            await schema.grant("reader", "read", "space", "s")
            await schema.grant("alice", "reader")
            await schema.grant("alice", "read", "space", "s")
            await schema.grant("alice", "create", "universe")
            assert await schema.users() == ["guest", "admin", "alice"]
            assert (
                await schema.roles() == ["public", "reader", "replication", "super"] or "reader" in await schema.roles()
            )
            assert GrantedPrivilege("read", "space", "s") in await schema.grants("reader")
            assert GrantedPrivilege("execute", "role", "reader") in await schema.grants("alice")
            with pytest.raises(BoxError, match="already has"):
                await schema.grant("alice", "reader")
            await schema.grant("alice", "reader", if_not_exists=True)
            await schema.revoke("alice", "read", "space", "s")
            assert GrantedPrivilege("read", "space", "s") not in await schema.grants("alice")
            await schema.set_password("alice", "other")
            await schema.drop_role("reader")
            await schema.drop_user("alice")
            await schema.drop_user("alice", if_exists=True)
            with pytest.raises(BoxError) as caught:
                await schema.drop_user("alice")
            assert caught.value.code == ErrorCode.NO_SUCH_USER
            with pytest.raises(BoxError) as caught:
                await schema.grants("alice")
            assert caught.value.code == ErrorCode.NO_SUCH_USER

    asyncio.run(run())


def test_functions_are_registered() -> None:
    async def run() -> None:
        async with Node() as node:
            await node.schema.create_function("twice", body="function(x) return 2 * x end", is_deterministic=True)
            assert await node.eval("return box.func.twice:call({21})") == 42
            assert "twice" in await node.schema.functions()
            with pytest.raises(BoxError) as caught:
                await node.schema.create_function("twice")
            assert caught.value.code == ErrorCode.FUNCTION_EXISTS
            with pytest.raises(BoxError) as caught:
                await node.schema.create_function("bad", body="function(")
            assert caught.value.code == ErrorCode.LOAD_FUNCTION
            await node.schema.drop_function("twice")
            await node.schema.drop_function("twice", if_exists=True)
            assert "twice" not in await node.schema.functions()

    asyncio.run(run())
