"""Errors that are both raised and logged, as in Tarantool: refused changes, lost transactions, wrong iterators."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from box import Node
from box.errors import BoxError

_ACTIONS = {
    "box.space.t:replace{1}": "ER_READONLY: Can't modify data because this instance is in read-only mode.",
    "box.begin() box.space.t:replace{1}": "ER_READONLY: Can't modify data because this instance is in read-only mode.",
    "box.schema.space.create('u')": "ER_READONLY: Can't modify data because this instance is in read-only mode.",
    "box.space.t:select({}, {iterator = 99})": "ER_ILLEGAL_PARAMS: Illegal parameters, Invalid iterator type",
    "box.cfg{read_only = false} box.begin() box.space.t:replace{2} require('fiber').sleep(0) box.commit()": (
        "ER_TRANSACTION_YIELD: Transaction has been aborted by a fiber yield"
    ),
}


@pytest.mark.parametrize("source", _ACTIONS)
def test_errors_are_logged_once(tmp_path: Path, source: str) -> None:
    asyncio.run(_run(tmp_path, source))


async def _run(tmp_path: Path, source: str) -> None:
    log = tmp_path / "log"
    async with Node(tmp_path, log=str(log)) as node:
        await node.eval("box.schema.space.create('t'):create_index('pk') box.cfg{read_only = true}")
        with pytest.raises(BoxError):
            await node.eval(source)
    lines = [line for line in log.read_text().splitlines() if " E> " in line]
    assert [line.partition(" E> ")[2] for line in lines] == [_ACTIONS[source]]
