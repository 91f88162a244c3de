"""Errors as values in Lua: extensions in sessions with `error_marshaling_enabled`, texts in others.

Bytes and results with the setting are those of 2.11, which knows no other form. 2.8.1 cannot read its own form there.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from box import Node
from box.errors import CustomError, DuplicateKeyError

SETUP = """
local msgpack, json, yaml = require('msgpack'), require('json'), require('yaml')
local err = box.error.new('My', 'hello %s', 'w')
err:set_prev(box.error.new(box.error.UNKNOWN))
local function text(...)
    local ok, problem = pcall(...)
    return not ok and tostring(problem) or nil
end
"""
MARSHALING = "box.session.settings.error_marshaling_enabled = true " + SETUP


def ask(source: str, *args: Any) -> Any:
    async def scenario() -> Any:
        async with Node() as node:
            return await node.eval(source, *args)

    return asyncio.run(scenario())


def test_an_error_is_its_text_in_other_sessions() -> None:
    assert ask(
        SETUP + "return msgpack.encode(err), box.tuple.new({err})[1], msgpack.decode(msgpack.encode({err}))[1], err"
    ) == ["\xa7hello w".encode("latin-1").decode("utf-8", "surrogateescape"), "hello w", "hello w", "hello w"]


def test_an_option_of_msgpack_turns_errors_into_texts() -> None:
    """`encode_error_as_ext` is not among the options until it is set, and belongs to one serializer."""
    assert ask(
        MARSHALING
        + """
        local other = msgpack.new()
        local before = msgpack.cfg.encode_error_as_ext
        msgpack.cfg{encode_error_as_ext = false}
        local set, text, whole = msgpack.cfg.encode_error_as_ext, msgpack.encode(err), other.encode(err)
        local stored = box.tuple.new{err}[1]
        msgpack.cfg{encode_error_as_ext = 1}
        local again = msgpack.encode(err) == whole
        return before == nil, set, text, #whole > 20, stored, msgpack.cfg.encode_error_as_ext, again,
            json.cfg.encode_error_as_ext == nil
        """
    ) == [
        True,
        False,
        "\xa7hello w".encode("latin-1").decode("utf-8", "surrogateescape"),
        True,
        "hello w",
        True,
        True,
        True,
    ]


def test_the_same_option_makes_errors_travel() -> None:
    """Not to clients of the binary protocol: they get what they have announced."""
    assert ask(
        SETUP
        + """
        msgpack.cfg{encode_error_as_ext = true}
        local sock = os.tmpname() .. '.sock'
        box.cfg{listen = 'unix/:' .. sock}
        box.schema.user.grant('guest', 'super')
        local client = require('net.box').connect('unix/:' .. sock)
        return type(msgpack.decode(msgpack.encode(err))), type(box.tuple.new{err}[1]), client:eval('return ...', {1}),
            client:eval('return box.error.new{type = "My", reason = "text"}')
        """
    ) == ["cdata", "cdata", 1, "text"]


def test_an_error_survives_its_encoding() -> None:
    """Encoding an error during the encoding of the same error works."""
    assert ask(
        MARSHALING
        + """
        local back = msgpack.decode(msgpack.encode({('x'):rep(100000), err, 7, {a = err}}))
        return #back[1], back[2]:unpack().type, back[2].prev.message, back[2].prev.prev == nil, back[3],
            back[4].a.custom_type, json.encode({back[2]}), yaml.encode({back[2]}), type(back[2]), err.trace[1].line
        """
    ) == [100000, "My", "Unknown error", True, 7, "My", '["hello w"]', "---\n- hello w\n...\n", "cdata", 3]


def test_an_error_in_a_tuple() -> None:
    assert ask(
        MARSHALING
        + """
        local format = {{'id', 'unsigned'}, {'b', 'any'}, {'c', 'any', is_nullable = true}}
        local s = box.schema.space.create('s', {format = format})
        s:create_index('pk')
        local t = s:replace({1, err, {a = err, b = {err}}})
        local read = s:get(1)
        return tostring(t), read.b.message, t['[3].a'].type, type(t:totable()[3].b[1]), json.encode(t),
            s:update(1, {{'=', '[3].a', 5}, {'=', 'b', err}}).b.prev.message,
            text(s.update, s, 1, {{'+', 'b', 1}}), text(s.update, s, 1, {{'=', 'b.x', 1}}),
            text(s.create_index, s, 'sk', {parts = {{2, 'scalar'}}}), text(s.get, s, err):match(': (.*)'),
            text(s.insert, s, {1, 1}):match('%- %[1, {"stack": %[{"type": "CustomError", "line": 3, "file": "(.-)"')
        """
    ) == [
        "[1, null, {'a': null, 'b': [null]}]",
        "hello w",
        "My",
        "cdata",
        '[1,"hello w",{"a":"hello w","b":["hello w"]}]',
        "Unknown error",
        "Argument type in operation '+' on field 'b' does not match field type: expected a number",
        "Field 'b.x' UPDATE error: can not access by key a non-map field",
        "Tuple field 2 (b) type does not match one required by operation: expected scalar, got extension",
        "cannot convert 'string' to 'ctype'",
        "eval",
    ]


def test_bad_extensions() -> None:
    assert ask(
        SETUP
        + r"""
        local texts = {}
        for _, body in ipairs({'\x80', '\x01', '\x81\x00', '\x81\x00\x91\x80', '\xc1', ''}) do
            texts[#texts + 1] = text(msgpack.decode, '\xc7' .. string.char(#body) .. '\x03' .. body)
        end
        texts[#texts + 1] = text(msgpack.decode, '\xd4\x07\x01')
        texts[#texts + 1] = text(msgpack.decode, '\xd4\xf9\x01')
        return texts
        """
    ) == [
        *(["Can not parse an error from MsgPack"] * 6),
        "Unsupported MsgPack extension type: 7",
        "Unsupported MsgPack extension type: -7",
    ]


def test_custom_types_are_cut_at_63_bytes() -> None:
    assert ask("""
        local long = ('T'):rep(100)
        return #box.error.new(long, 'x').type, #box.error.new({type = long}).custom_type""") == [63, 63]


def test_an_error_in_python(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Node(tmp_path) as node:
            space = await node.schema.create_space("s", format=[("id", "unsigned"), ("problem", "any")])
            await space.create_index("pk")
            await space.insert([1, None])
            duplicate = None
            try:
                await space.insert([1, None])
            except DuplicateKeyError as error:
                duplicate = error
            duplicate.prev = CustomError(0, "as you wish", type="CustomError", custom_type="Wish")
            await space.insert([2, duplicate])
            assert await node.eval("return type(box.space.s:get(2).problem), (...).prev.type", duplicate) == [
                "cdata",
                "Wish",
            ]
            await node.eval("box.snapshot()")
            await space.insert([3, {"of": duplicate}])
        async with Node(tmp_path) as node:
            rows = [row.problem for row in await node.space["s"].select()]
            for error in (rows[1], rows[2]["of"]):
                assert isinstance(error, DuplicateKeyError)
                assert (error.prev.custom_type, error.prev.message) == ("Wish", "as you wish")
                assert error.file == "box/txn/fast_path.py"

    asyncio.run(scenario())


def test_an_error_in_sql() -> None:
    """In SQL an error value is varbinary with the bytes of its MessagePack, as in 2.8.1 and 2.11."""
    assert ask(
        MARSHALING
        + """
        local s = box.schema.space.create('T', {format = {{'ID', 'unsigned'}, {'E', 'any'}}})
        s:create_index('pk')
        s:insert{1, err}
        local bytes = msgpack.encode(err)
        local function value(sql) return box.execute(sql).rows[1][1] end
        return value('SELECT E FROM T') == bytes and value('SELECT E FROM T WHERE ID = 1') == bytes
                and box.execute('SELECT * FROM T WHERE ID = 1').rows[1][2] == bytes,
            value('SELECT CAST(E AS STRING) FROM T') == bytes,
            value('SELECT LENGTH(E) FROM T') == #bytes,
            text(function() local _, e = box.execute('SELECT CAST(E AS INTEGER) FROM T') error(e) end)
        """
    ) == [True, True, True, "Type mismatch: can not convert varbinary to integer"]
