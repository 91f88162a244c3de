"""`msgpack.object` and the option `return_raw` of net.box. Texts and results are those of Tarantool 2.11."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Lua

SETUP = """
local msgpack = require('msgpack')
local o = msgpack.object({1, {a = 2}, 'text'})
local it = o:iterator()
local function text(run, ...)
    return tostring(select(2, pcall(run, ...))):gsub('^test.lua:%d+: ', '')
end
"""


def test_a_field_is_decoded_when_it_is_looked_at(lua: Lua) -> None:
    assert lua(
        SETUP + "return tostring(o), type(o), o[1], o[2].a, o[2][3], o[4], o:get(3), o:get('decode'), o:decode()"
    ) == ["msgpack.object", "userdata", 1, 2, None, None, "text", None, [1, {"a": 2}, "text"]]


def test_an_iterator_walks_over_the_value(lua: Lua) -> None:
    assert lua(
        SETUP
        + """
        local found = {tostring(it), it:decode_array_header(), it:decode(), it:decode_map_header()}
        it:skip() it:skip()
        local rest = it:take_array(1):decode()
        it = o:iterator()
        it:decode_array_header()
        local pair = it:take_array(2)
        return found, rest, pair[1], pair[2].a, it:take():decode(), it:take_array(0):decode()"""
    ) == [["msgpack.iterator", 3, 1, 1], ["text"], 1, 2, "text", []]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("text(msgpack.object)", "msgpack.object: a Lua object expected"),
        ("text(msgpack.object, 1, 2)", "msgpack.object: a Lua object expected"),
        ("text(function() return msgpack.object(5)[1] end)", "not an array or map"),
        ("text(msgpack.object_from_raw, '\\x91')", "msgpack.object_from_raw: invalid MsgPack"),
        ("text(msgpack.object_from_raw, '\\x91\\x01\\x02')", "msgpack.object_from_raw: invalid MsgPack"),
        ("text(msgpack.object_from_raw, 5)", "msgpack.object_from_raw: a Lua string or 'char *' expected"),
        ("text(it.decode_map_header, it)", "unexpected msgpack type"),
        ("text(it.take_array, it)", "Usage: iter:take_array(count)"),
        ("text(it.take_array, it, -1)", "count must be >= 0"),
        ("text(it.take_array, it, 'x')", "bad argument #2 to '?' (number expected, got string)"),
        ("text(it.take_array, it, 5)", "iteration ended"),
        ("text(function() it:skip() it:skip() end)", "iteration ended"),
        ("text(it.decode, o)", "bad argument #1 to '?' (msgpack.iterator expected, got userdata)"),
        ("text(o.decode)", "bad argument #1 to '?' (msgpack.object expected, got no value)"),
    ],
)
def test_wrong_calls(lua: Lua, call: str, message: str) -> None:
    assert lua(f"{SETUP} return ({call})") == [message]


def test_objects_are_encoded_as_they_are(lua: Lua) -> None:
    assert lua(
        SETUP
        + """
        local raw = msgpack.encode({1, {a = 2}, 'text'})
        return #msgpack.encode(o) == #raw, msgpack.decode(msgpack.encode({o, o}))[2][1], msgpack.is_object(o),
            msgpack.is_object(5), msgpack.is_object(), msgpack.object_from_raw('\\x91\\x07')[1]"""
    ) == [True, 1, True, False, False, 7]


def test_tuples_may_be_objects(lua: Lua) -> None:
    assert lua(
        SETUP
        + """
        local s = box.schema.space.create('s')
        s:create_index('pk')
        return s:insert(msgpack.object({1, 2})), s:replace({7, o})[2][1], text(s.insert, s, msgpack.object(5)),
            (text(s.insert, s, msgpack.object({a = 1})))""",
        configure={"wal_mode": "none"},
    ) == [[1, 2], 1, "Tuple/Key must be MsgPack array", "Tuple/Key must be MsgPack array"]


@pytest.fixture
def remote(lua: Lua, tmp_path: Path) -> Any:
    address = f"unix/:{tmp_path}/n.sock"
    source = """
    local msgpack = require('msgpack')
    local s = box.schema.space.create('s')
    s:create_index('pk')
    box.schema.user.grant('guest', 'super')
    echo = function(...) return ... end
    local conn = require('net.box').connect(...)
    local function raw(value) return msgpack.is_object(value) and value:decode() or {'no object', value} end
    """

    def run(text: str) -> Any:
        return lua(source + text, address, configure={"listen": address, "wal_mode": "none"})

    return run


def test_results_are_objects_if_they_are_to_be_raw(remote: Any) -> None:
    assert remote(
        """
        local opts = {return_raw = true}
        local found = {
            raw(conn:call('echo', {1, {2}}, opts)), raw(conn:eval('return ...', {1}, opts)),
            raw(conn.space.s:insert({8}, opts)), raw(conn.space.s:get({8}, opts)), raw(conn.space.s:select({}, opts)),
            raw(conn.space.s:update({8}, {{'=', 2, 1}}, opts)), raw(conn.space.s.index.pk:min({}, opts)),
            raw(conn:call('echo', {}, opts)),
            raw(conn:call('echo', {1}, {return_raw = true, is_async = true}):wait_result(10)),
        }
        local rows, position = conn.space.s:select({}, {return_raw = true, fetch_pos = true})
        return found, raw(rows), position, conn.space.s:get({88}, opts) == nil, raw(conn.space.s:delete({8}, opts)),
            conn.space.s:upsert({3}, {{'=', 2, 1}}, opts), conn:ping(opts)"""
    ) == [
        [[1, [2]], [1], [8], [8], [[8]], [8, 1], [8, 1], [], [1]],
        [[8, 1]],
        "kQg",
        True,
        [8, 1],
        None,
        True,
    ]


def test_arguments_may_be_objects(remote: Any) -> None:
    assert remote(
        """
        local ok, problem = pcall(conn.call, conn, 'echo', msgpack.object(5))
        local _, wrong = pcall(conn.call, conn, 'echo', {1}, {return_raw = 5})
        return {conn:call('echo', msgpack.object({1, 2}))}, conn.space.s:insert(msgpack.object{9}), tostring(problem),
            tostring(wrong)"""
    ) == [
        [1, 2],
        [9],
        "Tuple/Key must be MsgPack array",
        "Illegal parameters, options parameter 'return_raw' should be of type boolean",
    ]


def test_pushed_messages_are_objects(remote: Any) -> None:
    assert remote(
        """
        local pushed = {}
        conn:call('box.session.push', {5}, {return_raw = true, on_push = function(_, value)
            pushed[1] = raw(value)
        end})
        return pushed"""
    ) == [[5]]
