"""Errors of a node that is not started, and of a transaction that was aborted by a wait."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import box
from box import Node, NotReadyError, TransactionYieldError
from box.sync import Node as BlockingNode

LINE = next(number for number, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith("# here"))


def test_a_transaction_says_where_it_has_waited() -> None:
    """The error names the innermost await of the program, also below asyncio's functions and in other functions."""

    async def look_up() -> None:
        await asyncio.sleep(0)  # here

    async def transact(node: Node) -> None:
        async with node.transaction():
            await node.space.s.insert([1])
            await asyncio.wait_for(look_up(), 5)

    async def run() -> None:
        async with Node() as node:
            await (await node.schema.create_space("s")).create_index("pk")

            async def direct() -> None:
                async with node.transaction():
                    await node.space.s.insert([1])
                    await look_up()

            with pytest.raises(TransactionYieldError) as caught:
                await direct()
            assert str(caught.value) == (
                "Transaction has been aborted by a fiber yield: its task awaited something else "
                f"in look_up() at {__file__}:{LINE}; with memtx_use_mvcc_engine=True a transaction may wait"
            )
            # Before Python 3.12, `wait_for` runs `look_up` in a task of its own.
            with pytest.raises(TransactionYieldError, match=r"in (transact|look_up)\(\) at .*memtx_use_mvcc_engine"):
                await transact(node)
            assert await node.space.s.len() == 0

    asyncio.run(run())


def test_a_node_that_is_not_started_says_so() -> None:
    async def run() -> None:
        node = Node()
        calls: list[Any] = [
            lambda: node.eval("return 1"),
            lambda: node.call("f"),
            lambda: node.schema.create_space("s"),
            lambda: node.configure(read_only=True),
            lambda: node.transaction().__aenter__(),
        ]
        for call in calls:
            with pytest.raises(NotReadyError, match=r"not started: use `async with node`, or `await node.start\(\)`"):
                await call()
        with pytest.raises(NotReadyError, match="not started"):
            node.space["s"]
        with pytest.raises(NotReadyError, match="not started"):
            _ = node.info
        await node.start()
        space = await node.schema.create_space("s")
        await node.stop()
        with pytest.raises(NotReadyError, match="The node is stopped"):
            await space.len()

    asyncio.run(run())
    with pytest.raises(NotReadyError, match=r"not started: use `with node`, or `node.start\(\)`"):
        BlockingNode().eval("return 1")


_QUIET = """
import asyncio
from box import Node

async def main():
    async with Node() as node:
        await (await node.schema.create_space("s")).create_index("pk")
        await node.eval("require('log').error('an error') require('log').warn('a warning')")
        await node.configure(checkpoint_interval=1)

asyncio.run(main())
"""


def test_a_program_without_logging_prints_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", _QUIET], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_package_has_what_programs_need() -> None:
    assert set(box.__all__) <= set(dir(box))
    assert len(set(box.__all__)) == len(box.__all__)
    for name in box.__all__:
        assert getattr(box, name) is not None
    errors = {name for name, found in vars(box.errors).items() if isinstance(found, type)}
    assert {name for name in errors if name[0] != "_" and issubclass(vars(box.errors)[name], Exception)} <= {
        *box.__all__
    }
    assert box.__version__.count(".") == 2
    assert box.ErrorCode.TUPLE_FOUND == 3
    with pytest.raises(AttributeError, match="no attribute 'Nodes'"):
        box.Nodes  # noqa: B018
