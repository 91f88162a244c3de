"""Updates and upserts whose only operation crosses to Python unencoded do what encoded ones do."""

from __future__ import annotations

import pytest

from .box_support import Box, Run

PARTS = (
    "{'=', 2, 'b'}",
    "{'=', 'name', 'b'}",
    "{'=', 2, '\\255\\254'}",
    "{'=', 2, ''}",
    "{'=', 2, true}",
    "{'=', 3, true}",
    "{'=', 3, -0.0}",
    "{'=', 3, 0/0}",
    "{'=', 3, 1/0}",
    "{'=', 3, 2^53}",
    "{'=', 3, 2^53 - 1}",
    "{'=', 3, 1 - 2^53}",
    "{'=', 3, 1e300}",
    "{'+', 3, 1}",
    "{'-', 3, 0.25}",
    "{'+', -2, 1}",
    "{'+', 4, 1}",
    "{'+', 4, -1.5}",
    "{'-', 4, 2}",
    "{'&', 4, 6}",
    "{'|', 4, 8}",
    "{'#', 5, 1}",
    "{'!', 5, 'new'}",
    "{'=', 6, 'one more'}",
    "{'=', 9, 'too far'}",
    "{'=', 1, 7}",
    "{'=', 0, 7}",
    "{'=', 1.5, 7}",
    "{'=', 2^40, 7}",
    "{'=', 'none', 7}",
    "{'=', 'value.x', 7}",
    "{'?', 2, 7}",
    "{'', 2, 7}",
    "{'==', 2, 7}",
    "{1, 2, 7}",
    "{'=', 2}",
    "{'=', 2, 'b', 'c'}",
    "{'=', 2, 'b', more = 1}",
    "{'=', 2, {1}}",
    "{'=', true, 'b'}",
    "{'=', 2, nil}",
    "{'=', 3, box.NULL}",
    "{'=', 3, 5ULL}",
    "{[3] = 'b', [2] = 2, [1] = '='}",
)
SET_UP = """
    s = box.schema.space.create('test', {format = {
        {'id', 'unsigned'}, {'name', 'any'}, {'value', 'double', is_nullable = true}, {'count', 'any'}}})
    s:create_index('pk')
    function outcome(change, key, operations)
        s:replace{1, 'a', 0.5, 4, 'last'}
        local ok, result = pcall(change, key, operations)
        return {ok, tostring(result), tostring((s:get(1))), tostring((s:get(5)))}
    end
    function update(key, operations) return s:update(key, operations) end
    function upsert(key, operations) return s:upsert({key, 'a', 0.5, 4}, operations) end
    seq = {__serialize = 'seq'}
"""


@pytest.mark.parametrize("change", ["update", "upsert"])
def test_plain_operations_do_what_encoded_ones_do(run: Run, change: str) -> None:
    """Results, stored tuples and error texts are equal, for keys that exist and for others."""

    async def body(box: Box) -> None:
        await box(SET_UP)
        for part in PARTS:
            for key in (1, 5):
                plain = await box(f"return outcome({change}, {key}, {{{part}}})")
                await box("s:delete(5)")
                # With a metatable, the list is encoded.
                encoded = await box(f"return outcome({change}, {key}, setmetatable({{{part}}}, seq))")
                await box("s:delete(5)")
                assert plain == encoded, part

    run(body)


def test_which_operations_are_plain(run: Run) -> None:
    """Texts, booleans and numbers that a double holds exactly cross as they are; anything else is encoded."""

    async def body(box: Box) -> None:
        plain = "return require('box.index').plain_operation"
        assert await box(f"{plain}({{{{'+', 3, 1}}}})") == ["+", 3, 1]
        assert await box(f"{plain}({{{{'=', 'name', true}}}})") == ["=", "name", True]
        for operations in (
            "{{'=', 2, 2^53}}",
            "{{'=', 2, 0/0}}",
            "{{'=', 2, box.NULL}}",
            "{{'=', 2, 1}, {'=', 3, 1}}",
            "{[2] = {'=', 2, 1}}",
            "{{'=', 2, 1}, x = 1}",
            "{{'=', 2, 1, x = 1}}",
            "{{'=', 2}}",
            "{}",
            "{1}",
            "setmetatable({{'=', 2, 1}}, {})",
            "{setmetatable({'=', 2, 1}, {})}",
            "box.tuple.new{{'=', 2, 1}}",
        ):
            assert await box(f"return require('box.index').plain_operation({operations}) == nil") is True

    run(body)
