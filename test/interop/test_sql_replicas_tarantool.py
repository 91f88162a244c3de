"""Lunabox and Tarantool 2.8 replicate each other; tables of SQL that either side changes are the same on both."""

from __future__ import annotations

import asyncio

import pytest

from test.interop.processes import LUNABOX, POLL, NodeProcess, process_mesh
from test.interop.test_indexes_tarantool import TARANTOOL, is_of_the_line
from test.interop.test_sql_files_tarantool import LOOK, MAKE, work
from test.support import until

pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(not is_of_the_line(), reason="no Tarantool 2.8 on PATH, nor in LUNABOX_TARANTOOL"),
]

_RUN = """
local text = ...
local result, reason = box.execute(text)
return reason and tostring(reason) or require('json').encode(result.rows or result)
"""
_REFUSED = (
    "INSERT INTO p (code, n) VALUES ('new', 0)",
    "INSERT INTO p (id, code) VALUES (99, 'A')",
    "INSERT INTO c (p) VALUES ('nobody')",
    "INSERT INTO q VALUES (1, 51)",
    "DELETE FROM p WHERE code = 'a'",
)
"""Statements that the rows of `work("a", 1)` and the constraints of its tables refuse. Ids are given, because
a refused row takes one from the sequence of its side alone."""


async def _run(node: NodeProcess, statements: tuple[str, ...]) -> list[str]:
    """Run statements; each gives its rows, its counts or its error as text."""
    return [str((await node.eval(_RUN, text))[0]) for text in statements]


@pytest.mark.parametrize("first", ["lunabox", "tarantool"])
def test_tables_made_on_one_side_are_those_of_the_other(first: str) -> None:
    assert TARANTOOL is not None
    executables = [LUNABOX, TARANTOOL] if first == "lunabox" else [TARANTOOL, LUNABOX]

    async def main() -> None:
        async with process_mesh(executables) as mesh:
            one, two = mesh.nodes
            # It has the id that SQL, which asks `_schema` for the next one, gives to the first table.
            await one.eval("box.space.test:drop()")
            for node, statements in ((one, (*MAKE, *work("a", 1))), (two, work("b", 2)), (one, work("c", 3))):
                await _run(node, statements)
                await until(mesh.are_equal, "equal vclocks", 60, longest=POLL)
                assert await _run(two, LOOK) == await _run(one, LOOK)
            refusals = await _run(one, _REFUSED)
            assert not [text for text in refusals if text.startswith("{")], refusals
            assert await _run(two, _REFUSED) == refusals
            assert await mesh.are_equal()

    asyncio.run(main())
