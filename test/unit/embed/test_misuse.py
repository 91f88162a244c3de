"""Common mistakes of programs that embed a node get an error that names the mistake and the remedy, never a hang."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import math
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from box import BoxError, ClientError, DataError, Node
from box.sync import Node as BlockingNode


async def _started() -> Node:
    node = Node()
    await node.start()
    await (await node.schema.create_space("s")).create_index("pk")
    return node


def test_another_loop_is_refused_where_it_would_wait_for_ever() -> None:
    """Each test of pytest-asyncio has its own loop, but a fixture may have started the node in another one."""

    async def misuse(node: Node) -> None:
        space = node.space["s"]
        transaction = node.transaction()
        for use in (
            lambda: node.eval("return 1"),
            lambda: node.execute("SELECT 1"),
            lambda: node.configure(read_only=True),
            lambda: anext(space.changes()),
            lambda: transaction.__aenter__(),
            lambda: space.insert_many([[number] for number in range(1000)], batch=1),
            node.stop,
        ):
            with pytest.raises(RuntimeError, match=r"is used in another event loop .* start, use and stop it in one"):
                await asyncio.wait_for(use(), 10)

    first = asyncio.new_event_loop()
    try:
        node = first.run_until_complete(_started())
        asyncio.run(misuse(node))
        first.run_until_complete(node.stop())
    finally:
        first.close()


def test_without_a_loop_of_asyncio_a_start_names_the_way_out() -> None:
    start = Node().start()
    with pytest.raises(RuntimeError, match=r"needs a running loop of asyncio; box\.sync\.Node works without one"):
        start.send(None)


def test_a_node_and_its_parts_cannot_be_pickled() -> None:
    """Pools of processes pickle what they are given."""

    def refused(part: Any) -> None:
        for way in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled or copied: pass on rows"):
                way(part)

    async def run() -> None:
        node = await _started()
        space = node.space["s"]
        for part in (node, space, space.index["pk"], node.schema, node.transaction(), space.changes()):
            refused(part)
        await node.stop()

    asyncio.run(run())
    with BlockingNode() as node:
        space = node.schema.create_space("s")
        space.create_index("pk")
        for part in (node, space, space.index["pk"], node.schema, node.transaction()):
            refused(part)


def test_a_directory_in_use_is_explained(tmp_path: Path) -> None:
    with BlockingNode(tmp_path) as first:
        second = BlockingNode(tmp_path)
        with pytest.raises(BoxError, match="Failed to lock WAL directory") as caught:
            second.start()
        assert caught.value.__notes__ == ["Another running node has the directory, in this process or in another one."]
        assert repr(first) == f"<node {str(tmp_path)!r} running>"
        assert repr(second) == f"<node {str(tmp_path)!r} not running>"


def test_a_text_that_is_no_unicode_is_named() -> None:
    with BlockingNode() as node:
        space = node.schema.create_space("s")
        space.create_index("pk")
        with pytest.raises(BoxError, match=r"the text 'a\\ud800' is not valid Unicode: pass bytes"):
            space.insert([1, "a\ud800"])


def test_one_name_is_a_part() -> None:
    """A text is not taken apart into letters."""
    with BlockingNode() as node:
        space = node.schema.create_space("s", format=[("id", "unsigned"), ("name", "string")])
        space.create_index("pk", parts="id")
        space.create_index("name", parts="name")
        space.insert([1, "pear"])
        assert space.index["name"].get("pear") == (1, "pear")
        space.index["name"].alter(parts="id")
        assert space.index["name"].get(1) == (1, "pear")


def test_a_node_that_runs_is_not_started_again() -> None:
    node = BlockingNode()

    async def again() -> None:
        await node.asynchronous.start()

    with node:
        with pytest.raises(BoxError, match="The node is running already"):
            node.start()
        future = asyncio.run_coroutine_threadsafe(again(), node.asynchronous._embedding.core.loop)
        with pytest.raises(BoxError, match="The node is running already"):
            future.result(10)


def test_directories_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="the directory is a path, not int: 3301; options are keywords: listen=3301"):
        Node(3301)  # type: ignore[arg-type]
    (tmp_path / "file").touch()
    with pytest.raises(BoxError, match="file' is not a directory"):
        BlockingNode(tmp_path / "file").start()


@pytest.mark.parametrize(
    ("arguments", "expected", "text"),
    [
        ({"iterator": 99}, DataError, "Unknown iterator type '99'"),
        ({"iterator": "NEAR"}, DataError, "Unknown iterator type 'NEAR'"),
        ({"iterator": [1]}, DataError, "Unknown iterator type"),
        ({"limit": -1}, ClientError, "limit must not be negative"),
        ({"limit": "5"}, TypeError, "limit is a number of rows or None, not '5'"),
        ({"offset": -1}, ClientError, "offset must not be negative"),
        ({"offset": 1.5}, TypeError, "offset is a number of rows, not 1.5"),
    ],
)
def test_a_wrong_argument_of_a_read_is_named(arguments: dict[str, Any], expected: type[Exception], text: str) -> None:
    """Also with more rows than one turn reads, where a negative offset would give other rows."""
    rows = [[number] for number in range(600)]

    async def run() -> None:
        async with Node() as node:
            space = await node.schema.create_space("s")
            await space.create_index("pk")
            await space.insert_many(rows)
            with pytest.raises(expected, match=text):
                await space.select(**arguments)
            if "offset" not in arguments:
                with pytest.raises(expected, match=text):
                    await space.index.pk.page(**arguments)

    asyncio.run(run())
    with BlockingNode() as node:
        space = node.schema.create_space("s")
        space.create_index("pk")
        space.insert_many(rows)
        with pytest.raises(expected, match=text):
            space.select(**arguments)
        if "offset" not in arguments:
            with pytest.raises(expected, match=text):
                space.index.pk.page(**arguments)


def test_what_cannot_be_called_is_refused_when_it_is_declared() -> None:
    """Otherwise each later change would fail, or each client be refused."""

    async def run() -> None:
        async with Node() as node:
            space = await node.schema.create_space("s")
            wrong: Any = 5
            for declare in (space.on_replace, space.before_replace, node.on_connect, node.on_shutdown, node.function):
                with pytest.raises(TypeError, match="a function is needed, not int: 5"):
                    declare(wrong)
            with pytest.raises(TypeError, match="a function is needed, not int: 5"):
                node.function("f")(wrong)
            with pytest.raises(TypeError, match=r"has no name: use node\.function\('name'\)"):
                node.function(functools.partial(print))
            node.function("part")(functools.partial(max, 5))
            assert await node.eval("return part(7)") == 7

    asyncio.run(run())
    with BlockingNode() as node, pytest.raises(TypeError, match=r"has no name: use node\.function\('name'\)"):
        node.function(functools.partial(print))


@pytest.mark.parametrize("format", ["id", 5, {"id": "unsigned"}])
def test_a_format_that_is_no_list_is_refused(format: Any) -> None:
    """A text would otherwise become one field for each letter."""
    with BlockingNode() as node:
        with pytest.raises(TypeError, match="a format is a list of fields"):
            node.schema.create_space("s", format=format)
        space = node.schema.create_space("s")
        with pytest.raises(TypeError, match="a format is a list of fields"):
            space.set_format(format)


@pytest.mark.parametrize(
    ("call", "expected", "text"),
    [
        (lambda node, _: node.eval(5), TypeError, "source is a str, not int: 5"),
        (lambda node, _: node.eval("\ud800"), ClientError, r"source is not valid Unicode: '\\ud800'"),
        (lambda node, _: node.call(None), TypeError, "name is a str, not NoneType: None"),
        (lambda node, _: node.execute(5), TypeError, "sql is a str, not int: 5"),
        (lambda node, _: node.execute("SELECT '\ud800'"), ClientError, "sql is not valid Unicode"),
        (lambda node, _: node.execute("SELECT '\ud800'", {"a": 1}), ClientError, "sql is not valid Unicode"),
        (lambda node, _: node.execute("SELECT :a", {1: 2}), TypeError, "the name of a parameter is a str, such as"),
        (lambda node, _: node.prepare(5), TypeError, "sql is a str, not int: 5"),
        (lambda _, space: space.random("x"), TypeError, "seed is an integer, not str: 'x'"),
        (lambda _, space: space.index["pk"].random(None), TypeError, "seed is an integer, not NoneType"),
        (lambda _, space: space.insert_many([[1]], batch=1.5), TypeError, "batch is an integer, not float: 1.5"),
        (lambda _, space: space.insert_many([[1]], batch=0), ClientError, "batch must be positive"),
        (lambda _, space: space.get(1, index=1.5), TypeError, "index is a name or a number, not float: 1.5"),
        (lambda _, space: space.changes(limit="x"), TypeError, "limit of changes is an integer, not str: 'x'"),
        (lambda _, space: space.changes(max_bytes=-1), ClientError, "max_bytes must not be negative"),
        (lambda _, space: space.changes(start=5), TypeError, r"start is a vclock such as \{1: 10\}, .*, not 5"),
        (lambda _, space: space.changes(start={"a": 1}), TypeError, "start is a vclock"),
        (lambda _, space: space.changes(start={32: 1}), ClientError, "replica ids from 0 to 31"),
        (lambda _, space: space.index[0], TypeError, "the name of an index is a str, not int: 0"),
        (lambda node, _: node.space[[]], TypeError, "the name of a space is a str, not list"),
        (lambda _, space: space.rows_as([]), TypeError, "row= takes a NamedTuple or a dataclass"),
        (lambda _, space: space.rename(5), TypeError, "name is a str, not int: 5"),
        (lambda node, _: node.schema.set_password("guest", None), TypeError, "password is a str, not NoneType"),
        (lambda node, _: node.schema.grants(None), TypeError, "grantee is a str, not NoneType"),
        (lambda node, _: node.schema.sequence(5), TypeError, "name is a str, not int: 5"),
    ],
)
def test_a_wrong_argument_is_named(
    call: Callable[[Any, Any], Any], expected: type[Exception], text: str, running_node: BlockingNode
) -> None:
    """The blocking node and the asynchronous one raise the same."""
    with pytest.raises(expected, match=text):
        call(running_node, running_node.space["goods"])

    async def run() -> None:
        node = running_node.asynchronous
        result = call(node, node.space["goods"])
        if inspect.isawaitable(result):
            await result

    loop = running_node.asynchronous._embedding.core.loop
    with pytest.raises(expected, match=text):
        asyncio.run_coroutine_threadsafe(run(), loop).result(30)


@pytest.fixture(scope="module")
def running_node() -> Iterator[BlockingNode]:
    with BlockingNode() as node:
        node.schema.create_space("goods").create_index("pk")
        yield node


def test_long_and_deep_values_are_shortened_in_errors(running_node: BlockingNode) -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for value in ("x" * 10**6, deep, [*range(10**5)]):
        with pytest.raises(TypeError) as caught:
            running_node.space["goods"].select(limit=value)
        assert len(str(caught.value)) < 300


def test_infinite_options_are_those_of_tarantool(running_node: BlockingNode) -> None:
    """Tarantool converts infinity to 0, where an option is an integer."""
    running_node.configure(sql_cache_size=math.inf, replication_connect_quorum=-math.inf)
    with pytest.raises(ClientError, match="SQL cache"):
        running_node.prepare("SELECT 1")
    running_node.configure(sql_cache_size=5242880, replication_connect_quorum=None)


def test_options_with_nul_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BoxError, match="failed to create pid file"):
        BlockingNode(tmp_path, pid_file="a\0b").start()
    with pytest.raises(BoxError, match="User not found"):
        BlockingNode(tmp_path, username="a\0b").start()
    with pytest.raises(ValueError, match="the directory is no possible path"):
        BlockingNode("a\0b")
