"""Options of `msgpack.cfg` apply to tuples, requests, results and messages, as in Tarantool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Lua

SETUP = """
local address, options, value = ...
local msgpack = require('msgpack')
local s = box.schema.space.create('s')
s:create_index('pk')
box.schema.user.grant('guest', 'super')
local conn = require('net.box').connect(address)
local values = {
    deep = function()
        local value = {}
        for _ = 1, 200 do value = {value} end
        return value
    end,
    callable = function() return print end,
    nan = function() return 0 / 0 end,
    mapping = function() return setmetatable({1, 2}, {__serialize = 'map'}) end,
    sparse = function() return {[1] = 1, [100] = 2} end,
}
local make = values[value]
function give() return make() end
function take(value) return #msgpack.encode(value) end
function tell() box.session.push(make()) end
local function told()
    local size = 0
    conn:call('tell', {}, {on_push = function(_, message) size = #msgpack.encode(message) end})
    return size
end
-- The size of each, or the text of its error.
local function sizes()
    local found = {}
    for number, way in ipairs({
        function() return #msgpack.encode(make()) end,
        function() return s:replace{1, make()}:bsize() - 2 end,
        function() return box.tuple.new{1, make()}:bsize() - 2 end,
        function() return s:update(1, {{'=', 2, make()}}):bsize() - 2 end,
        function() return box.tuple.new{1, 1}:update({{'=', 2, make()}}):bsize() - 2 end,
        function() return conn:call('take', {make()}) end,
        function() return #msgpack.encode((conn:call('give'))) end,
    }) do
        s:replace{1, 1}
        local ok, result = pcall(way)
        found[number] = ok and result or tostring(result):gsub('^%S+:%d+: ', '')
    end
    return found, told()
end
msgpack.cfg(options)
return sizes()
"""
DEFAULTS = {
    "encode_max_depth": 128,
    "encode_deep_as_nil": False,
    "encode_use_tostring": False,
    "encode_invalid_as_nil": False,
    "encode_invalid_numbers": True,
    "encode_load_metatables": True,
    "encode_sparse_convert": True,
    "encode_sparse_ratio": 2,
}


@pytest.fixture
def sizes(lua: Lua, tmp_path: Path) -> Any:
    """Return the encoded sizes of a value, or error texts, in every place, with these options."""
    address = f"unix/:{tmp_path}/n.sock"

    def run(value: str, **options: Any) -> Any:
        return lua(SETUP, address, DEFAULTS | options, value, configure={"listen": address, "wal_mode": "none"})

    return run


def test_how_deep_a_value_may_be(sizes: Any) -> None:
    too_deep = "Too high nest level - 129"
    found, _ = sizes("deep")
    assert found == [too_deep] * 7
    found, told = sizes("deep", encode_max_depth=300)
    assert (found, told) == ([201] * 7, 201)
    found, told = sizes("deep", encode_deep_as_nil=True)
    assert found[0] == 129
    assert all(isinstance(size, int) and 120 < size < 130 for size in found), found
    assert told == 129


def test_what_no_value_can_be(sizes: Any) -> None:
    """The method of a tuple encodes by `msgpackffi`, which has a text of its own and fewer options."""
    unsupported, of_method = "unsupported Lua type 'function'", "can not encode Lua type: 'function'"
    found, _ = sizes("callable")
    assert found == [unsupported] * 4 + [of_method] + [unsupported] * 2
    found, told = sizes("callable", encode_invalid_as_nil=True)
    assert (found, told) == ([1, 1, 1, 1, of_method, 1, 1], 1)
    found, told = sizes("callable", encode_use_tostring=True)
    assert found.pop(4) == of_method
    assert all(isinstance(size, int) and size > 10 for size in (*found, told)), found
    found, told = sizes("nan", encode_invalid_numbers=False, encode_invalid_as_nil=True)
    assert (found, told) == ([1, 1, 1, 1, 9, 1, 1], 1)


def test_how_tables_are_taken(sizes: Any) -> None:
    assert sizes("mapping") == [[5] * 7, 5]
    assert sizes("mapping", encode_load_metatables=False)[0] == [3, 3, 3, 3, 5, 3, 3]
    found, _ = sizes("sparse", encode_sparse_convert=False)
    sparse = "excessively sparse array"
    assert found == [sparse, sparse, 103, sparse, 5, sparse, sparse]
    found, told = sizes("sparse", encode_sparse_ratio=0)
    assert (found, told) == ([103, 103, 103, 103, 5, 103, 103], 103)


HIDDEN = """
local encode, decode = require('msgpack').encode, require('msgpack').decode
local function hidden(value, shown, hint)
    return setmetatable(value, {__metatable = shown, __serialize = hint})
end
"""


@pytest.mark.parametrize("shown", ["false", "'locked'", "{__serialize = function() return 'shown' end}"])
def test_a_hidden_metatable_counts(lua: Lua, shown: str) -> None:
    """A field `__metatable` hides a metatable from Lua, but not from the encoder of messages and of tuples."""
    chunk = f"""{HIDDEN}
    local given = hidden({{print}}, {shown}, function() return 'real' end)
    local mapping = hidden({{7}}, {shown}, 'map')
    local nested = hidden({{}}, {shown}, function() return mapping end)
    return decode(encode(given)), box.tuple.new({{given}})[1], encode(mapping):byte(1), encode({{nested}}):byte(2)"""
    assert lua(chunk) == ["real", "real", 0x81, 0x81]


def test_msgpackffi_takes_the_metatable_that_lua_sees(lua: Lua) -> None:
    chunk = f"""{HIDDEN}
    local given = hidden({{1}}, {{__serialize = function() return 'shown' end}}, function() return 'real' end)
    return (decode(require('msgpackffi').encode(given)))"""
    assert lua(chunk) == ["shown"]


def test_msgpackffi_refuses_a_table_whose_metatable_is_hidden_by_no_table(lua: Lua) -> None:
    chunk = """local function try(hidden)
        local ok, problem = pcall(require('msgpackffi').encode, setmetatable({1}, {__metatable = hidden}))
        return ok or problem:match('%(.*%)')
    end
    return try(false), try(1), try('text')"""
    assert lua(chunk) == ["(a boolean value)", "(a number value)", True]


def test_a_connection_with_options_is_encoded(lua: Lua) -> None:
    """The metatable of a connection is hidden; without it the functions of the connection would be refused."""
    chunk = """local conn = require('net.box').connect('127.0.0.1:1', {wait_connected = false})
    local seen = require('msgpack').decode(require('msgpack').encode(conn))
    conn:close()
    return seen.host, seen.opts.wait_connected"""
    assert lua(chunk) == ["127.0.0.1", False]
