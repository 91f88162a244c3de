"""Streams, watchers and pagination of net.box. Texts and results are those of 2.11, as client and as server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Lua

SETUP = """
local net_box, fiber = require('net.box'), require('fiber')
local address = ...
local space = box.schema.space.create('s')
space:create_index('pk')
space:create_index('sk', {unique = false, parts = {2, 'unsigned'}})
box.schema.user.grant('guest', 'super')
for i = 1, 10 do space:insert({i, i % 3}) end
local conn = net_box.connect(address)
local function until_true(check)
    for _ = 1, 2000 do
        if check() then return true end
        fiber.sleep(0.005)
    end
    return false
end
local function text(...)
    local ok, problem = pcall(...)
    return ok or tostring(problem)
end
"""


@pytest.fixture
def remote(lua: Lua, tmp_path: Path) -> Any:
    """Run Lua source after SETUP, on a node with MVCC."""
    address = f"unix/:{tmp_path}/n.sock"

    def run(source: str) -> Any:
        options = {"listen": address, "wal_mode": "none", "memtx_use_mvcc_engine": True}
        return lua(SETUP + source, address, configure=options)

    return run


def test_a_transaction_lasts_over_requests_of_its_stream(remote: Any) -> None:
    assert remote(
        """
        local a, b = conn:new_stream(), conn:new_stream()
        a:begin({timeout = 5, txn_isolation = 'read-confirmed'})
        b:begin()
        a.space.s:insert({100, 1})
        b.space.s:replace({101, 1})
        local inside, other, outside = a.space.s:get(100), b.space.s:get(100), conn.space.s:get(100)
        local through_index = a.space.s.index.sk:select(1, {iterator = 'REQ', limit = 1})
        local evaluated, outer = a:eval('return box.is_in_txn()'), conn:eval('return box.is_in_txn()')
        a:commit()
        b:rollback()
        return inside, other == nil, outside == nil, through_index, evaluated, outer, conn.space.s:get(100),
            conn.space.s:get(101) == nil, a:rollback() == nil, a:commit() == nil"""
    ) == [[100, 1], True, True, [[100, 1]], True, False, [100, 1], True, True, True]


def test_requests_of_streams_may_be_asynchronous(remote: Any) -> None:
    assert remote(
        """
        local stream, asynchronous = conn:new_stream(), {is_async = true}
        local futures = {
            stream:begin(nil, asynchronous), stream.space.s:insert({100, 1}, asynchronous), stream:commit(asynchronous),
        }
        for _, future in ipairs(futures) do
            local _, problem = future:wait_result(10)
            assert(problem == nil, problem)
        end
        return conn.space.s:get(100), stream:new_stream()._stream_id, stream.state, stream.space.none == nil"""
    ) == [[100, 1], 2, "active", True]


def test_wrong_calls_of_streams(remote: Any) -> None:
    found = remote(
        """
        local stream = conn:new_stream()
        local result = {
            text(conn.new_stream), text(stream.begin), text(stream.commit), text(stream.rollback),
            text(stream.begin, stream, 1), text(stream.begin, stream, {timeout = 0}),
            text(stream.begin, stream, {timeout = 'x'}), text(stream.begin, stream, {txn_isolation = 'x'}),
            text(stream.begin, stream, {unknown = 1}), text(stream.begin, stream),
        }
        conn:close()
        result[#result + 1] = text(stream.begin, stream)
        return result, conn.begin == nil"""
    )
    level = "Illegal parameters, txn_isolation must be one of box.txn_isolation_level (keys or values)"
    expected = [
        *(f"Use remote:{name}(...) instead of remote.{name}(...):" for name in ("new_stream", "begin")),
        *(f"Use remote:{name}(...) instead of remote.{name}(...):" for name in ("commit", "rollback")),
        "txn_opts should be a table",
        "timeout must be a number greater than 0",
        "timeout must be a number greater than 0",
        level,
        True,
        "Operation is not permitted when there is an active transaction ",
        "Connection closed",
    ]
    assert found[1] is True
    for answer, text in zip(found[0], expected, strict=True):
        assert answer is True if text is True else str(answer).endswith(str(text)), (answer, text)


def test_watchers_are_told_of_each_change_once_they_are_ready(remote: Any) -> None:
    assert remote(
        """
        local log, late = {}, {}
        local watcher = conn:watch('key', function(...) log[#log + 1] = {select('#', ...), ...} end)
        assert(until_true(function() return #log == 1 end))
        box.broadcast('key', {1, 2})
        assert(until_true(function() return #log == 2 end))
        local second = conn:watch('key', function(key, value) late[#late + 1] = value end)
        assert(until_true(function() return #late == 1 end))
        box.broadcast('key')
        assert(until_true(function() return #log == 3 end))
        watcher:unregister()
        box.broadcast('key', 7)
        assert(until_true(function() return late[#late] == 7 end))
        second:unregister()
        box.broadcast('key', 8)
        conn:ping()
        return log, late[1], late[#late], tostring(watcher), text(watcher.unregister, watcher)"""
    ) == [
        [[2, "key"], [2, "key", [1, 2]], [2, "key"]],
        [1, 2],
        7,
        "net.box.watcher",
        "Watcher is already unregistered",
    ]


def test_watchers_outlive_the_connection(remote: Any) -> None:
    assert remote(
        """
        local other, seen = net_box.connect(address, {reconnect_after = 0.01}), {}
        other:watch('key', function(_, value) seen[#seen + 1] = value end)
        box.broadcast('key', 1)
        assert(until_true(function() return seen[#seen] == 1 end))
        box.cfg{listen = ''}
        pcall(other.eval, other, "require('fiber').new(function() box.session.kill(box.session.id()) end)")
        box.cfg{listen = address}
        box.broadcast('key', 2)
        return until_true(function() return seen[#seen] == 2 end)"""
    ) == [True]


def test_wrong_calls_of_watchers(remote: Any) -> None:
    assert remote(
        """
        local watcher = conn:watch('key', function() end)
        return {
            text(conn.watch), text(conn.watch, conn, 1, print), text(conn.watch, conn, 'key', 1),
            text(watcher.unregister), text(watcher.unregister, {}),
        }"""
    ) == [
        [
            "Use remote:watch(...) instead of remote.watch(...):",
            "key must be a string",
            "func must be a function",
            "Use watcher:unregister() instead of watcher.unregister()",
            "Use watcher:unregister() instead of watcher.unregister()",
        ]
    ]


def test_watchers_that_come_and_go_leave_nothing(remote: Any) -> None:
    assert remote(
        """
        local count = 0
        for i = 1, 300 do
            local watcher = conn:watch('key' .. i, function() count = count + 1 end)
            assert(until_true(function() return count == i end))
            watcher:unregister()
        end
        conn._watched['box.shutdown'] = nil -- the connection's own
        return next(conn._watched) == nil"""
    ) == [True]


def test_pages(remote: Any) -> None:
    assert remote(
        """
        local s = conn.space.s
        local function both(...) return {s:select(...)} end
        local future = s:select(nil, {limit = 2, fetch_pos = true, is_async = true})
        local buffer = require('buffer').ibuf()
        return both(nil, {limit = 2, fetch_pos = true}), both(nil, {limit = 2, fetch_pos = true, after = 'kQI'}),
            both(nil, {limit = 2, after = {3}}), both(nil, {limit = 2, after = box.tuple.new({5, 1})}),
            both(1000, {fetch_pos = true}), both(nil, {limit = 1, after = ''}), future:wait_result(10),
            {s:select(nil, {limit = 2, fetch_pos = true, buffer = buffer, skip_header = true})}, buffer:size(),
            {conn:new_stream().space.s.index.sk:select(1, {limit = 1, fetch_pos = true})}"""
    ) == [
        [[[1, 1], [2, 2]], "kQI"], [[[3, 0], [4, 1]], "kQQ"], [[[4, 1], [5, 2]]], [[[6, 0], [7, 1]]], [[]], [[[1, 1]]],
        [[[1, 1], [2, 2]], "kQI"], [11, "kQI"], 11, [[[1, 1]], "kgEB"],
    ]  # fmt: skip


def test_wrong_calls_of_pages(remote: Any) -> None:
    assert remote(
        """
        local s = conn.space.s
        local function refused(options) return text(s.select, s, nil, options) end
        return {
            refused({after = 5}), refused({fetch_pos = 'x'}), refused({after = {a = 1}}), refused({after = '##'}),
        }"""
    ) == [
        [
            "Illegal parameters, options parameter 'after' should be of type string, table, tuple",
            "Illegal parameters, options parameter 'fetch_pos' should be of type boolean",
            "Tuple/Key must be MsgPack array",
            "Iterator position is invalid",
        ]
    ]


def test_features_of_the_server(remote: Any) -> None:
    features = {"streams": True, "transactions": True, "watchers": True, "pagination": True, "error_extension": True}
    assert remote(
        """
        local function state_with(options)
            local other = net_box.connect(address, options)
            return {other.state, other.error}
        end
        return conn.peer_protocol_version, conn.peer_protocol_features,
            state_with({required_protocol_version = 100}), state_with({required_protocol_features = {'streams', 'x'}}),
            state_with({required_protocol_version = 4, required_protocol_features = {'streams'}})[1],
            text(net_box.connect, address, {required_protocol_version = 'a'}),
            text(net_box.connect, address, {required_protocol_features = 'a'})"""
    ) == [
        4,
        features,
        ["error", "Protocol version (4) < required (100)"],
        ["error", "Missing required protocol features: x"],
        "active",
        "Illegal parameters, options parameter 'required_protocol_version' should be of type number",
        "Illegal parameters, options parameter 'required_protocol_features' should be of type table",
    ]


def test_errors_among_results(remote: Any) -> None:
    """Errors among results come as objects if the connection or the session's setting asks for that."""
    assert remote(
        """
        local other = net_box.connect(address, {required_protocol_features = {'error_extension'}})
        local source = "local e = box.error.new('My', 'why') e:set_prev(box.error.new(3)) return e, {e}, (...)"
        source = source:gsub('new%(3%)', "new({code = 3, reason = 'before'})")
        local function found(c, arg)
            local a, b, c = c:eval(source, {arg})
            return {type(a), tostring(a), type(b[1]), type(a) == 'cdata' and a.prev.code or '-', tostring(c)}
        end
        local texts, objects = found(conn, 1), found(other, 1)
        conn:eval('box.session.settings.error_marshaling_enabled = true')
        local after = found(conn, 1)
        box.session.settings.error_marshaling_enabled = true
        local sent = conn:eval('return (...).type', {box.error.new('Sent', 'x')})
        function several() return nil, box.error.new('Q', 'q') end
        local calls = {}
        for i = 1, 5 do calls[i] = other:call('several', {}, {is_async = true}) end
        local called = {}
        for i, future in ipairs(calls) do called[i] = future:wait_result(10)[2].type end
        return texts, objects, after, sent, called, other.peer_protocol_features.error_extension"""
    ) == [
        ["string", "why", "string", "-", "1"],
        ["cdata", "why", "cdata", 3, "1"],
        ["cdata", "why", "cdata", 3, "1"],
        "Sent",
        ["Q"] * 5,
        True,
    ]


def test_a_server_without_the_features(remote: Any) -> None:
    """net.box works with a server like 2.8.1, which knows no ID request and skips unknown keys of a select."""
    assert remote(
        """
        conn._transport.protocol = {0, {watchers = false, pagination = false}}
        local called, s = false, conn.space.s
        conn:watch('key', function() called = true end)
        conn:ping()
        fiber.sleep(0.01)
        return {text(s.select, s, nil, {after = ''}), text(s.select, s, nil, {fetch_pos = true}), called}"""
    ) == [["Remote server does not support pagination", "Remote server does not support pagination", False]]
