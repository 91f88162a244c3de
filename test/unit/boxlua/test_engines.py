"""Spaces of the engines `sysview`, `service` and `blackhole` in Lua, as in Tarantool 2.8.1."""

from __future__ import annotations

from .box_support import Box, Run

ASK = """
    function ask(f, ...)
        local ok, found = pcall(f, ...)
        return not ok and tostring(found) or found ~= nil and found[1] or found
    end
    v, s = box.space._vspace, box.space._session_settings
"""


def test_ends_of_views_and_settings(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(ASK)
        assert await box("return ask(v.index[0].max, v.index[0])") == 380
        assert await box("return ask(v.index[2].min, v.index[2], '_space')") == 280
        assert await box("return ask(v.index[0].max, v.index[0], 1000)") is None
        assert await box("return ask(s.index[0].min, s.index[0])") == "error_marshaling_enabled"
        assert await box("return ask(s.index[0].max, s.index[0])") == "sql_vdbe_debug"
        assert await box("return ask(s.index[0].min, s.index[0], 'x')") is None
        assert await box("return v.index[0].hint, box.space._space.index[0].hint") == [None, True]

    run(body)


def test_what_views_and_settings_do_not_tell(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(ASK)
        unknown = "Index 'primary' (TREE) of space '%s' (%s) does not support %s()"
        for name, engine in (("_vspace", "sysview"), ("_session_settings", "service")):
            await box(f"x = box.space.{name}")
            assert await box("return ask(x.len, x)") == unknown % (name, engine, "size")
            assert await box("return ask(x.index[0].random, x.index[0], 3)") == unknown % (name, engine, "random")
        wrong = "Invalid key part count (expected [0..1], got 2)"
        assert await box("return ask(s.select, s, {'a', 'b'})") == wrong

    run(body)


def test_ends_are_those_that_the_reader_may_see(run: Run) -> None:
    async def body(box: Box) -> None:
        await box(ASK + "box.schema.user.create('u')")
        await box("mine = box.schema.space.create('mine') box.session.su('u')")
        assert await box("return ask(v.index[0].max, v.index[0]), ask(v.index[0].min, v.index[0])") == [330, 276]

    run(body)
