"""`os.remove` and `os.rename` in a simulated node have the results of a real disk."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from box import Node
from box.testing import Simulation

CALLS = """
    local fio = require('fio')
    fio.chdir(...)
    for _, name in ipairs({'file', 'full/inside'}) do
        fio.mktree(fio.dirname(name))
        fio.open(name, {'O_CREAT', 'O_WRONLY'}, tonumber('644', 8)):close()
    end
    fio.mkdir('empty')
    fio.symlink('full', 'link')
    local results = {}
    local function note(...)
        table.insert(results, {select('#', ...), ...})
    end
    note(os.remove('no'))
    note(os.rename('no', 'other'))
    note(os.rename('file', 'full'))
    note(os.rename('file', 'moved'))
    note(os.remove('moved'))
    note(os.remove('empty'))
    note(os.remove('full'))
    note(os.remove('link'))
    note(os.remove('full/inside'))
    local left = fio.listdir('.')
    table.sort(left)
    return results, left
"""


def on_real(directory: Path) -> Any:
    async def main() -> Any:
        async with Node() as node:
            return await node.eval(CALLS, str(directory))

    before = os.getcwd()
    try:
        return asyncio.run(main())
    finally:
        os.chdir(before)


def on_simulated() -> Any:
    async def scenario(simulation: Simulation) -> Any:
        node = simulation.add_node("n", lua=True)
        await node.start()
        return await node.run(node.application.eval(f"require('fio').mkdir('/d') {CALLS}", "/d"))

    with Simulation(1) as simulation:
        return simulation.run(scenario(simulation))


def test_the_same_as_on_a_real_disk(tmp_path: Path) -> None:
    real = on_real(tmp_path)
    assert real[1] == ["full"]
    assert on_simulated() == real


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
def test_standard_streams_stay(name: str) -> None:
    async def scenario(simulation: Simulation) -> Any:
        node = simulation.add_node("n", lua=True)
        await node.start()
        return await node.run(node.application.eval(f"return io.type(io.{name})"))

    with Simulation(1) as simulation:
        assert simulation.run(scenario(simulation)) == "file"
