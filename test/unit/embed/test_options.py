"""Options of a node as keywords: those of `box.cfg`, checked at the call."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import pytest

from box import BoxSystemError, ClientError, ConfigError, ErrorCode, Node
from box.embed import node_options
from box.embed.node_options import NodeOptions
from box.instance.config import Config
from box.instance.option_checks import check
from box.instance.option_registry import OPTIONS
from box.sync import Node as BlockingNode

TYPES = {"string": {str}, "number": {float}, "boolean": {bool}, "table": {"list"}}


def test_the_typed_options_are_those_of_the_registry() -> None:
    """The typed options equal the registry's in names and types; a Literal lists the values of a string."""
    hints = get_type_hints(NodeOptions)
    assert list(hints) == list(OPTIONS)
    for name, option in OPTIONS.items():
        kinds = set(get_args(hints[name]))
        assert type(None) in kinds, name
        kinds.remove(type(None))
        expected = set().union(*(TYPES[one] for one in option.types.split(", ")))
        found = {"list" if "Sequence" in str(kind) else kind for kind in kinds}
        if name in ("wal_mode", "election_mode", "log_format"):
            assert {type(value) for kind in kinds for value in get_args(kind)} == {str}
        else:
            assert found == expected, name


@pytest.mark.parametrize(
    ("option", "literal"),
    [
        ("wal_mode", node_options.WalMode),
        ("election_mode", node_options.ElectionMode),
        ("log_format", node_options.LogFormat),
    ],
)
def test_literals_are_the_values_that_are_taken(option: str, literal: object) -> None:
    assert isinstance(literal, type(Literal["x"]))
    values = Config().values
    for value in get_args(literal):
        check({**values, option: value})
    with pytest.raises(ConfigError):
        check({**values, option: "other"})


@pytest.mark.parametrize("kind", [Node, BlockingNode])
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("listn", r"unknown option 'listn'; did you mean 'listen'\?"),
        ("zzz", "unknown option 'zzz'$"),
        ("snap_dir", "'snap_dir' any more: it is called 'memtx_dir'"),
    ],
)
def test_a_wrong_keyword_is_told_at_the_call(kind: type, wrong: str, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        kind(**{wrong: 1})


def test_configure_checks_names_and_values() -> None:
    async def run() -> None:
        async with Node() as node:
            with pytest.raises(TypeError, match=r"configure\(\) got an unknown option 'read_onl'"):
                await node.configure(read_onl=True)  # type: ignore[call-arg]
            with pytest.raises(ConfigError, match="checkpoint_count"):
                await node.configure(checkpoint_count=0)
            await node.configure(read_only=True)
            assert node.info["ro"]

    asyncio.run(run())


def test_the_directory_is_made_where_its_parent_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory is created if its parent exists; errors show the path as given."""

    async def run() -> None:
        async with Node("data") as node:
            assert repr(node) == "<node 'data' running>"
            with pytest.raises(ClientError, match="Failed to lock WAL directory 'data'") as caught:
                await Node("data").start()
            assert caught.value.code == ErrorCode.ALREADY_RUNNING
        assert (tmp_path / "data").is_dir()
        with pytest.raises(BoxSystemError, match="can't create directory 'no/data': No such file") as missing:
            await Node("no/data").start()
        assert missing.value.errno
        with pytest.raises(BoxSystemError, match="'file' is not a directory"):
            await Node("file").start()

    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    asyncio.run(run())
    assert repr(Node()) == "<node in memory not running>"
