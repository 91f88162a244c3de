"""The result of a before_replace trigger: which tuple it returns counts, not what the tuple contains."""

from __future__ import annotations

from .box_support import Box, Run

_SETUP = """
    s = box.schema.space.create('s') s:create_index('pk') s:replace{1, 'a'}
    function set(trigger)
        for _, old in ipairs(s:before_replace()) do s:before_replace(nil, old) end
        s:before_replace(trigger)
    end
    function run(method, ...) local tuple = s[method](s, ...) return tuple and tuple:totable() end
"""


def test_an_equal_tuple_is_stored(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(_SETUP + "set(function() return box.tuple.new{1, 'a'} end)")
        assert await box("return run('update', 1, {{'=', 2, 'b'}})") == [1, "a"]
        assert await box("return run('delete', 1)") == [1, "a"]
        assert await box("return run('insert', {1, 'c'})") == [1, "a"]
        assert await box("return run('upsert', {1, 'c'}, {{'=', 2, 'd'}})") == [1, "a"]

    run(body)


def test_the_old_tuple_itself_keeps_what_is_stored(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(_SETUP + "set(function(old) return old end)")
        assert await box("return run('replace', {1, 'b'})") is None
        assert await box("return run('delete', 1)") is None
        assert await box("return run('upsert', {1, 'b'}, {{'=', 2, 'b'}})") is None
        assert await box("return s:get(1):totable()") == [1, "a"]

    run(body)
