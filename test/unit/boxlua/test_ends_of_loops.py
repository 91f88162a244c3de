"""What ends a loop over an index, and what does not."""

from __future__ import annotations

import pytest

from .box_support import Box, Run

LOOP = """
    local count = 0
    for _ in s.index.%s:pairs() do
        count = count + 1
        if count == 7 then %s end
    end
    return count
"""


@pytest.mark.parametrize("mvcc", [False, True])
@pytest.mark.parametrize("kind", ["tree", "hash", "rtree", "bitset"])
def test_a_loop_ends_when_its_index_is_dropped(run: Run, kind: str, mvcc: bool) -> None:
    """Loops end when their index, space or tuples are dropped; another name or index does not end them."""

    async def body(box: Box) -> None:
        await box("s = box.schema.space.create('test') s:create_index('pk')")
        part = "{2, 'array'}" if kind == "rtree" else "{2, 'unsigned'}"
        value = "{i, i}" if kind == "rtree" else "i"
        create = f"s:create_index('x', {{type = '{kind}', unique = {str(kind == 'hash').lower()}, parts = {{{part}}}}})"
        fill = f"for i = 1, 40 do s:replace{{i, {value}}} end"
        await box(create)
        await box(fill)
        assert await box(LOOP % ("x", "s:rename('t') s:create_index('other')")) == 40
        assert await box(LOOP % ("pk", "s.index.x:drop()")) == 40
        await box(create)
        assert await box(LOOP % ("x", "s.index.x:drop()")) == 7
        await box(create)
        assert await box(LOOP % ("x", "s:truncate()")) == 7
        await box(fill)
        assert await box(LOOP % ("x", "s:drop()")) == 7

    run(body, memtx_use_mvcc_engine=mvcc)
