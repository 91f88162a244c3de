"""The MessagePack codec and tuples in Lua, compiled and interpreted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lua.bindings.tuple_images import TupleImages

from .support import Lua, open_lua

Run = Callable[..., Any]
Evaluate = Callable[..., list[Any]]

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False).filter(lambda number: number != int(number) if abs(number) < 2**64 else True)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
)
_keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(_keys, inner, max_size=20),
    max_leaves=30,
)


@pytest.mark.parametrize("flavour", ["luajit20", "luajit21"])
def test_everything_comes_back_as_it_went(flavour: str) -> None:
    """decode and encode are inverse; whole floats are written as integers, as in Tarantool."""

    async def main() -> None:
        async with open_lua(flavour) as lua:

            @settings(max_examples=80, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(st.lists(_values, max_size=5))
            def check(values: list[Any]) -> None:
                packed = msgpack.packb(values)
                outcome = lua.runtime.start(lua.runtime.handle_of("eval"), b"return ...", packed, None)
                assert isinstance(outcome, tuple)
                assert msgpack.unpackb(outcome[0]) == values

            check()

    uvloop.run(main())


def test_compiled_code_reads_constants(evaluate: Evaluate) -> None:
    """Compiled loops over constant texts and tuples read the right addresses."""
    assert evaluate(
        r"""
        local msgpack, tuple = require('internal.msgpack'), require('internal.tuple')
        local raw = '\148\1\163abc\203\63\248\0\0\0\0\0\0\207\0\0\0\1\0\0\0\2'
        local t = tuple.new(raw)
        tuple.set_format(7, {number = 3})
        local named = tuple.new(raw, 7)
        local function check(n)
            for i = 1, n do
                local list = msgpack.decode(raw)
                assert(list[1] == 1 and list[2] == 'abc' and list[3] == 1.5 and list[4] == 4294967298)
                assert(t[1] == 1 and t[2] == 'abc' and t[3] == 1.5 and t[4] == 4294967298 and t[5] == nil)
                assert(named.number == 1.5 and #named == 4)
                assert(msgpack.encode(list) == raw and msgpack.encode_tuple(t) == raw)
            end
        end
        for _ = 1, 4 do check(2000) collectgarbage() end
        return 'right'"""
    ) == ["right"]


def test_large_values_grow_the_buffer(evaluate: Evaluate) -> None:
    (size, same) = evaluate(
        """
        local msgpack = require('internal.msgpack')
        local list = {}
        for i = 1, 70000 do list[i] = ('%d'):format(i) end
        local text = ('x'):rep(1000000)
        local bytes = msgpack.encode({list, text, {a = text}})
        local back = msgpack.decode(bytes)
        return #bytes, back[1][70000] == '70000' and back[2] == text and back[3].a == text"""
    )
    assert same
    assert size > 2_000_000


def test_serialize_may_encode_and_wait(evaluate: Evaluate) -> None:
    """`__serialize` may encode, let other fibers encode, and raise."""
    assert evaluate(
        """
        local fiber, msgpack = require('fiber'), require('msgpack')
        local function object(delay, value)
            return setmetatable({}, {__serialize = function()
                fiber.sleep(delay)
                return {value, (msgpack.decode(msgpack.encode({value, value})))}
            end})
        end
        local results = {}
        for i = 1, 3 do
            fiber.create(function() results[i] = msgpack.encode({i, object(0.004 - i / 1000, i), 'end'}) end)
        end
        while not (results[1] and results[2] and results[3]) do fiber.yield() end
        local bad = setmetatable({}, {__serialize = function() error('no', 0) end})
        local ok, problem = pcall(msgpack.encode, {1, bad})
        for i = 1, 3 do results[i] = msgpack.decode(results[i]) end
        return results, ok, tostring(problem), (msgpack.decode(msgpack.encode({1})))"""
    ) == [[[i, [i, [i, i]], "end"] for i in (1, 2, 3)], False, "no", [1]]


def test_holes_are_nil_whatever_index_says(evaluate: Evaluate) -> None:
    """Holes of a table are nil and `__index` is not asked, as in Tarantool, because it might encode itself."""
    assert evaluate(
        """
        local msgpack = require('msgpack')
        local asked = 0
        local object = setmetatable({1, nil, 3}, {__index = function(_, key)
            asked = asked + (key == '__serialize' and 0 or 1)
            return msgpack.encode('other')
        end})
        return (msgpack.decode(msgpack.encode(object))), asked"""
    ) == [[1, None, 3], 0]


def test_an_interruption_has_a_buffer_of_its_own(evaluate: Evaluate) -> None:
    """A finalizer that encodes during another encoding, at any point, does not disturb it."""
    assert evaluate(
        """
        local encoder, msgpack = require('internal.msgpack_encode'), require('msgpack')
        local sethook = require('internal.debug_library').sethook    -- also for the encoder itself
        local value = {1, 18446744073709551615ULL, -5000000000LL, 0.5, 'text', {a = 1}, string.rep('x', 300), 0/0 ~= 0}
        local plain, interruptions = msgpack.encode(value), 0
        local function disturb()
            msgpack.encode({'other', 99999999999ULL, 1.5, string.rep('y', 100000)})
        end
        jit.off()
        sethook(function()
            interruptions = interruptions + 1
            encoder.call_aside(disturb)
        end, '', 1)
        local interrupted = msgpack.encode(value)
        sethook()
        jit.on()
        return interrupted == plain, interruptions > 100"""
    ) == [True, True]


def test_registered_types(evaluate: Evaluate) -> None:
    """Other modules register an encoder for their cdata and a decoder for their extension."""
    assert evaluate(
        r"""
        local ffi, msgpack = require('ffi'), require('internal.msgpack')
        local point = ffi.typeof('struct { int x; int y; }')
        msgpack.register(point, function(p, pos)
            return msgpack.put_bytes('\213\7' .. string.char(p.x, p.y), 4, pos)
        end)
        msgpack.register_extension(7, function(p, pos) return point(p[pos], p[pos + 1]) end)
        local back = msgpack.decode(msgpack.encode({point(3, 4)}))[1]
        return ffi.istype(point, back), back.x, back.y"""
    ) == [True, 3, 4]


def test_depth_and_type_limits(evaluate: Evaluate) -> None:
    assert evaluate(
        """
        local msgpack = require('msgpack')
        local deep = {}
        deep[1] = deep
        local _, too_deep = pcall(msgpack.encode, deep)
        msgpack.cfg{encode_deep_as_nil = true, encode_max_depth = 2}
        local cut = msgpack.encode({{{1}}})
        return too_deep, msgpack.decode(cut), msgpack.new().cfg.encode_max_depth"""
    ) == ["Too high nest level - 129", [[None]], 128]


# ---- tuples ----


def test_many_tuples_in_one_crossing(run: Run) -> None:
    async def test(lua: Lua) -> None:
        rows = [msgpack.packb([i, "x" * i]) for i in range(200)]
        lua.runtime.bind("images", lambda: TupleImages().blob(rows, 3))
        lua.runtime.bind("blob", lambda: b"".join(rows))
        assert await lua.eval("""
            local tuple, python = require('internal.tuple'), require('internal.python')
            local a, b = tuple.from_images(python.images()), tuple.many(python.blob(), 3)
            local same = 0
            for i = 1, 200 do
                if a[i] == b[i] and a[i][1] == i - 1 and tuple.format_of(a[i]) == 3 then same = same + 1 end
            end
            return #a, #b, same, tuple.many('', 1)""") == [200, 200, 200, []]

    run(test)


def test_fields_by_name(evaluate: Evaluate) -> None:
    """Fields are read by the names of the format; a nil field gives the method of that name."""
    assert evaluate(
        """
        local tuple, msgpack = require('internal.tuple'), require('internal.msgpack')
        tuple.set_format(1, {id = 1, unpack = 2, bsize = 3})
        local t = tuple.new(msgpack.encode({1, 'field'}), 1)
        local plain = tuple.new(msgpack.encode({1, 'field'}))
        return t.id, t.unpack, t:bsize(), t.none, plain.id, {plain:unpack()}, plain[2.5], plain[-1]"""
    ) == [1, "field", 8, None, None, [1, "field"], None, None]


def test_tuple_ranges(evaluate: Evaluate) -> None:
    assert evaluate(
        """
        local tuple, msgpack = require('internal.tuple'), require('internal.msgpack')
        local t = tuple.new(msgpack.encode({1, 2, msgpack.NULL, 4}))
        return {t:unpack()}, {t:unpack(2, 3)}, {t:unpack(4, 10)}, t:totable(3), {pcall(t.totable, t, 0)},
            {pcall(t.totable, t, 3, 2)}, select('#', t:unpack())"""
    ) == [
        [1, 2, None, 4],
        [2, None],
        [4],
        [None, 4],
        [False, "tuple.totable: invalid second argument"],
        [False, "tuple.totable: invalid third argument"],
        4,
    ]


# ---- errors ----


def test_error_objects(evaluate: Evaluate) -> None:
    assert evaluate(
        """
        local lua_error = require('internal.error')
        local cause = lua_error.new({type = 'ClientError', code = 1, message = 'cause', file = 'x.lua', line = 3})
        local e = lua_error.new({type = 'CustomError', custom_type = 'Mine', code = 7, message = 'text',
            fields = {extra = 5}})
        e:set_prev(cause)
        local _, cycle = pcall(cause.set_prev, cause, e)
        local _, wrong = pcall(e.set_prev, e, 5)
        local _, raised = pcall(e.raise, e)
        local _, write = pcall(function() e.message = 'other' end)
        return e:unpack(), raised == e, e == cause, tostring(e), e .. '!', '!' .. e, e:match('t(.)x'),
            cycle:match('Cycles.*'), wrong:match('Usage.*'), write:match('attempt.*'), cause:unpack().code"""
    )[1:] == [
        True,
        False,
        "text",
        "text!",
        "!text",
        "e",
        "Cycles are not allowed",
        "Usage: error1:set_prev(error2)",
        "attempt to write to constant location",
        1,
    ]


def test_errors_without_a_code(evaluate: Evaluate) -> None:
    """Errors of Lua and of fibers have no code; their fields are those of Tarantool's objects."""
    assert evaluate(
        """
        local fiber = require('fiber')
        local f = fiber.new(function() error('boo', 0) end)
        f:set_joinable(true)
        local _, e = f:join()
        local names = {}
        for name in pairs(e:unpack()) do names[#names + 1] = name end
        table.sort(names)
        return e.type, e.code, e.message, names"""
    ) == ["LuajitError", None, "boo", ["base_type", "message", "trace", "type"]]
