"""require('swim'): members in one process, what they see of each other, and what they leave behind.

Texts and order of checks are those of Tarantool 2.8.1.
"""

from __future__ import annotations

import socket
from typing import Any

import pytest

from test.unit.modules.conftest import Lua

SETUP = """
local swim, uuid, fiber, ffi = require('swim'), require('uuid'), require('fiber'), require('ffi')
local function id(i)
    return uuid.fromstr(('00000000-0000-1000-8000-%012d'):format(i))
end
local function member(i, options)
    local all = {uuid = id(i), uri = 0, generation = 1, heartbeat_rate = 0.02, ack_timeout = 0.02}
    for name, value in pairs(options or {}) do
        all[name] = value
    end
    return assert(swim.new(all))
end
local function until_true(condition)
    local deadline = fiber.clock() + 15
    while not condition() do
        assert(fiber.clock() < deadline, 'in time')
        fiber.sleep(0.005)
    end
    return true
end
local function meet(...)
    local all = {...}
    for i = 2, #all do
        assert(all[i]:probe_member(all[1]:self():uri()))
    end
    until_true(function()
        for _, s in ipairs(all) do
            if s:size() < #all then return false end
        end
        return true
    end)
end
"""


@pytest.fixture
def swim(lua: Lua) -> Lua:
    """The function `lua` with helpers before the source."""

    def run(source: str, **options: Any) -> Any:
        return lua(SETUP + source, **options)

    return run


def test_members_meet_and_part(swim: Lua) -> None:
    """Members that have met see each other's facts; one that quits is seen to have left, one that is deleted dies."""
    assert swim("""
        local a, b, c = member(1), member(2, {generation = 7}), member(3)
        meet(a, b, c)
        local seen, keys = a:member_by_uuid(id(2)), {}
        for key, m in a:pairs() do
            keys[#keys + 1] = key:str() == m:uuid():str()
        end
        local facts = {seen:status(), seen:uri() == b:self():uri(), seen:uuid() == id(2),
            tostring(seen:incarnation()):match('generation = %d+'), seen:is_dropped(), #keys}
        b:quit()
        until_true(function() return seen:status() == 'left' end)
        until_true(function() return a:member_by_uuid(id(2)) == nil end)
        facts[#facts + 1] = seen:is_dropped()
        c:delete()
        until_true(function() return a:size() == 1 end)
        return facts
    """) == [["alive", True, True, "generation = 7", False, 3, True]]


def test_payloads_travel(swim: Lua) -> None:
    """A payload arrives as the Lua value that it was; decoded once, until there is another."""
    assert (
        swim("""
        local a, b = member(1), member(2)
        meet(a, b)
        local seen, results = a:member_by_uuid(id(2)), {}
        for _, value in ipairs({{list = {1, 2}}, 'text', 5, false}) do
            b:set_payload(value)
            until_true(function() return seen:payload() == value or type(value) == 'table' and seen:payload() end)
            results[#results + 1] = seen:payload() == seen:payload()
        end
        b:set_payload_raw('\\xc1 no MessagePack')
        until_true(function() return seen:payload() == '\\xc1 no MessagePack' end)
        local pointer, size = seen:payload_cdata()
        results[#results + 1] = ffi.string(pointer, size) == seen:payload_str()
        b:set_payload()
        until_true(function() return seen:payload_str() == nil end)
        results[#results + 1] = seen:payload() == nil and seen:payload_cdata() == nil
        return unpack(results)
    """)
        == [True] * 6
    )


def test_events(swim: Lua) -> None:
    """Triggers get the member, what has happened, and their context; an error in one ends this event alone."""
    assert swim("""
        local a, b = member(1), member(2)
        local log = {}
        local f = a:on_member_event(function(m, event, context)
            log[#log + 1] = {m:uuid() == id(2), event, context, event:is_new(), event:is_drop()}
            error('a failing trigger')
        end, 'context')
        meet(a, b)
        until_true(function() return #log > 0 end)
        a:remove_member(id(2))
        until_true(function()    -- the other one may be back before this looks at it
            for _, told in ipairs(log) do
                if told[5] then return true end
            end
        end)
        a:on_member_event(nil, f)
        local count = #log
        a:set_payload(1)
        fiber.sleep(0.05)
        return log[1][1], log[1][3], log[1][4], log[1][5], count == #log, #a:on_member_event()
    """) == [True, "context", True, False, True, 0]


def test_a_trigger_that_waits(swim: Lua) -> None:
    """A trigger may wait; the end of its instance cancels it and waits for it. It may end the instance itself."""
    assert swim("""
        local a, state = member(1), {}
        a:on_member_event(function()
            state[#state + 1] = 'begun'
            local ok = pcall(fiber.sleep, 100)
            state[#state + 1] = ok and 'slept' or 'cancelled'
        end)
        a:set_payload(1)
        until_true(function() return state[1] end)
        a:delete()
        local b = member(2)
        b:on_member_event(function()
            b:quit()
            state[#state + 1] = 'quit'
        end)
        b:set_payload(1)
        until_true(function() return state[3] end)
        return unpack(state)
    """) == ["begun", "cancelled", "quit"]


def test_encryption(swim: Lua) -> None:
    """Members with one key understand each other, those without it do not."""
    assert swim("""
        local a, b, c, d = member(1), member(2), member(3), member(4)
        for _, s in ipairs({a, b}) do
            assert(s:set_codec({algo = 'aes256', mode = 'cbc', key = ('k'):rep(32)}))
        end
        assert(c:set_codec({algo = 'aes256', mode = 'cbc', key = ('x'):rep(32)}))
        a:set_payload('secret')
        c:probe_member(a:self():uri())
        d:probe_member(a:self():uri())
        meet(a, b)
        until_true(function() return b:member_by_uuid(id(1)):payload() == 'secret' end)
        fiber.sleep(0.1)
        return a:size(), b:size(), c:size(), d:size()
    """) == [2, 2, 1, 1]


def test_what_is_left_behind(swim: Lua) -> None:
    """A deleted, a quitted and a collected instance leave neither a socket nor a fiber."""
    assert swim("""
        local function count()
            local found = 0
            for _, f in pairs(fiber.info()) do
                found = found + (f.name:match('^SWIM event handler') and 1 or 0)
            end
            return found
        end
        local a, b, uris = member(1), member(2), {}
        uris[1], uris[2] = a:self():uri(), b:self():uri();
        (function() uris[3] = member(3):self():uri() end)()
        local before = count()
        a:delete()
        b:quit()
        until_true(function()
            collectgarbage()
            return count() == 0
        end)
        for i, uri in ipairs(uris) do
            assert(swim.new({uuid = id(i), uri = uri, generation = 1})):delete()
        end
        return before, select(2, pcall(function() return a:size() end)):match('the swim.*')
    """) == [3, "the swim instance is deleted"]


def test_an_instance_with_a_trigger_of_its_own_is_collected(swim: Lua) -> None:
    """The list of triggers keeps no reference to the instance."""
    assert swim("""
        local a = member(1)
        local uri = a:self():uri()
        a:on_member_event(function() end)
        a = nil
        return until_true(function()
            collectgarbage()
            local s = swim.new({uuid = id(1), uri = uri, generation = 1})
            return s ~= nil and (s:delete() or true)
        end)
    """) == [True]


def test_members_are_kept_while_they_are_referred_to(swim: Lua) -> None:
    """The same member is the same table; a dropped one can still be asked."""
    assert swim("""
        local a = member(1)
        a:add_member({uuid = id(2), uri = 5})
        local m = a:member_by_uuid(id(2))
        local same = m == a:member_by_uuid(id(2))
        a:remove_member(id(2))
        local result = {same, m:is_dropped(), m:uri(), m:status()}
        m = nil
        collectgarbage()
        a:delete()
        return result
    """) == [[True, True, "127.0.0.1:5", "alive"]]


def test_options(swim: Lua) -> None:
    """`cfg` can be read and called, and nothing else; it shows what was given."""
    assert swim("""
        local a = member(1)
        assert(a:cfg({gc_mode = 'off', heartbeat_rate = -1}))
        return a.cfg.gc_mode, a.cfg.heartbeat_rate, a.cfg.generation,
            select(2, pcall(function() a.cfg.uri = 1 end)):match('please.*'),
            select(2, a:cfg({uuid = '00000000-0000-0000-0000-000000000000'})) == nil
    """) == ["off", -1, None, "please, use swim:cfg{key = value} instead of swim.cfg.key = value", True]


REFUSED = {
    "swim.new(1)": "swim:cfg: expected table configuration",
    "swim.new({generation = 1.5})": "swim.new: generation should be non-negative integer",
    "swim.new({x = 1})": "swim:cfg: unknown option x",
    "swim.new({uri = {}})": "swim:cfg: expected string URI or port number",
    "swim.new({uuid = 1})": "swim:cfg: expected string UUID or struct tt_uuid",
    "swim.new({uuid = 'x'})": "swim:cfg: invalid UUID",
    "swim.new({ack_timeout = 'x'})": "swim:cfg: expected number ack_timeout",
    "swim.new({gc_mode = 'x'})": "swim:cfg: unknown gc_mode",
    "a.size({})": "swim:size: first argument is not a SWIM instance",
    "a.size({ptr = ffi.cast('struct swim *', 12345)})": "swim:size: first argument is not a SWIM instance",
    "a:self().uri({ptr = ffi.cast('struct swim_member *', 99)})": "member:uri(): first argument is not a SWIM member",
    "a:add_member()": "swim:add_member: expected table member definition",
    "a:broadcast({})": "swim:broadcast: expected number port",
    "a:set_payload_raw(1)": "swim:set_payload_raw: payload should be either string or cdata",
    "a:set_payload_raw(1ULL, 8)": "swim:set_payload_raw: payload should be either string or cdata",
    "a:set_payload_raw('x', 'y')": "swim:set_payload_raw: expected number payload size",
    "a:set_payload_raw('x', 2)": "swim:set_payload_raw: explicit payload size > string length",
    "a:set_payload_raw(nil, 2)": "swim:set_payload_raw: size can not be set without payload",
    "a:set_payload_raw(ffi.new('char[2]'))": "swim:set_payload_raw: size is mandatory for cdata payload",
    "a:set_codec({algo = 'x'})": "swim:set_codec: unknown crypto algorithm",
    "a:set_codec({algo = 'aes128', mode = 'x'})": "swim:set_codec: unknown crypto algorithm mode",
    "(function() a:self().x = 1 end)()": "swim_member is a read-only object",
    "a:on_member_event(nil, function() end)": "trigger reset: Trigger is not found",
}


@pytest.mark.parametrize("call", REFUSED)
def test_wrong_calls(swim: Lua, call: str) -> None:
    """Arguments of a wrong type raise an error."""
    (text,) = swim(
        f"local a = member(1) return tostring(select(2, pcall(function() local r = {call} end)))"
        if not call.startswith("(function")
        else f"local a = member(1) return tostring(select(2, pcall(function() {call} end)))"
    )
    assert text.endswith(REFUSED[call])


RETURNED = {
    "swim.new({})": ["SwimError", "swim.cfg: UUID and URI are mandatory in a first config"],
    "swim.new({uuid = id(1), uri = 'x'})": ["SocketError", 'invalid uri "x", called on fd -1'],
    "a:probe_member()": ["SwimError", "swim.probe_member: URI is mandatory"],
    "a:probe_member('0.0.0.0:1')": ["IllegalParams", "swim.probe_member: INADDR_ANY is not supported"],
    "a:add_member({})": ["SwimError", "swim.add_member: URI and UUID are mandatory"],
    "a:remove_member()": ["SwimError", "swim.remove_member: UUID is mandatory"],
    "a:set_payload_raw(('x'):rep(1201))": ["IllegalParams", "Payload should be <= 1200 and >= 0"],
    "a:set_payload_raw(ffi.cast('char *', 1), 1201)": ["IllegalParams", "Payload should be <= 1200 and >= 0"],
    "a:set_codec({algo = 'aes128', key = ffi.cast('char *', 1), key_size = 2^30})": [
        "CryptoError",
        "key size expected 16, got 1073741824",
    ],
    "a:probe_member('\\255:1')": ["SocketError", 'invalid uri "\udcff:1", called on fd -1'],
    "a:set_payload_raw('x', -1)": ["IllegalParams", "Payload should be <= 1200 and >= 0"],
    "a:set_codec({algo = 'aes128', key = 'x'})": ["CryptoError", "key size expected 16, got 1"],
}


@pytest.mark.parametrize("call", RETURNED)
def test_refused_calls(swim: Lua, call: str) -> None:
    """What only the member itself finds wrong returns nil and the error, which is the fiber's last."""
    assert swim(f"""
        local a = member(1)
        local ok, problem = {call}
        return ok, problem.type, problem.message, problem.message == box.error.last().message
    """) == [None, *RETURNED[call], True]


def test_packets_of_others(swim: Lua) -> None:
    """Garbage on the socket is logged and has no other effect."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        assert swim(f"""
            local a, b = member(1), member(2)
            local s = require('socket')('AF_INET', 'SOCK_DGRAM', 'udp')
            local host, port = a:self():uri():match('(.*):(.*)')
            for i = 1, 500 do
                s:sendto(host, port, require('digest').urandom(i))
                fiber.yield()
            end
            a:probe_member({port})
            meet(a, b)
            local size = a:size()
            a:delete() b:delete() s:close()
            return size
        """) == [2]
        assert sock.recv(2000)[0] == 0x83


def test_broadcast(swim: Lua) -> None:
    """A broadcast goes to all interfaces, so that a member at the same port of this host hears it."""
    assert swim("""
        local a, b = member(1), member(2)
        assert(a:broadcast(tonumber(b:self():uri():match(':(.*)'))))
        until_true(function() return a:size() == 2 end)
        return a:broadcast()
    """) == [True]


def test_failure_detection_only(swim: Lua) -> None:
    """ERRINJ_SWIM_FD_ONLY keeps tables out of packets: payloads do not arrive."""
    assert swim("""
        local a, b = member(1), member(2)
        box.error.injection.set('ERRINJ_SWIM_FD_ONLY', true)
        b:set_payload('x')
        meet(a, b)
        fiber.sleep(0.1)
        local without = a:member_by_uuid(id(2)):payload()
        box.error.injection.set('ERRINJ_SWIM_FD_ONLY', false)
        return without, until_true(function() return a:member_by_uuid(id(2)):payload() == 'x' end)
    """) == [None, True]
