"""Requests to a node over the binary protocol, from the same node's Lua. Texts were printed by a running Tarantool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import Lua

SETUP = """
local net_box, fiber = require('net.box'), require('fiber')
local address = ...
local space = box.schema.space.create('tst', {format = {{'id', 'unsigned'}, {'name', 'string'}}})
space:create_index('pk')
space:create_index('nm', {parts = {2, 'string'}, unique = false})
box.schema.user.grant('guest', 'super')
space:insert{1, 'a'}
space:insert{2, 'b'}
function slow() fiber.sleep(0.05) return 'slow' end
function pusher() box.session.push(1) box.session.push({2}) return 'end' end
local conn = net_box.connect(address)
"""


@pytest.fixture
def remote(lua: Lua, tmp_path: Path) -> Any:
    """Run Lua source after SETUP."""
    address = f"unix/:{tmp_path}/n.sock"

    def run(source: str) -> Any:
        return lua(SETUP + source, address, configure={"listen": address, "wal_mode": "none"})

    return run


def test_wrong_calls_of_a_connection(lua: Lua, tmp_path: Path) -> None:
    """Numbers of statements are those of C, a state is indexed, and nothing is resolved that no name can be."""
    address = f"unix/:{tmp_path}/w.sock"
    assert lua(
        """local address = ...
        box.schema.user.grant('guest', 'super')
        local net_box = require('net.box')
        local conn = net_box.connect(address)
        local function text(...)
            local _, problem = pcall(...)
            return (tostring(problem):gsub('^%S+:%d+: ', ''))
        end
        return text(conn.unprepare, conn, 'x'), text(conn.unprepare, conn, -1), text(conn.execute, conn, 1e300),
            text(conn.execute, conn, 'SELECT 1', nil, box.NULL), text(conn.wait_state, conn, false),
            text(conn.on_connect, {}), text(net_box.wrap), conn:timeout(false):ping(),
            net_box.connect(nil, true).error, net_box.connect('localhost', '0x1').error""",
        address,
        configure={"listen": address},
    ) == [
        "box.error(): bad arguments",
        "Prepared statement with id 4294967295 does not exist",
        "Prepared statement with id 0 does not exist",
        "Tuple/Key must be MsgPack array",
        "attempt to index local 'target_state' (a boolean value)",
        "attempt to call field '_on_connect' (a nil value)",
        "Usage: netbox.wrap(socket, greeting, [opts])",
        True,
        "getaddrinfo: Name or service not known",
        "getaddrinfo: Servname not supported for ai_socktype",
    ]


def test_connection_shows_its_state(remote: Any) -> None:
    assert remote(
        """return conn.state, conn:is_connected(), conn:ping(), conn.protocol, #conn.peer_uuid, conn:wait_connected(),
            conn.error == nil, conn.space.tst.index.nm.type"""
    ) == ["active", True, True, "Binary", 36, True, True, "TREE"]


def test_operations_on_spaces(remote: Any) -> None:
    assert remote(
        """local s = conn.space.tst
        local named = s:get{1}
        return s:select(), named.name, box.tuple.is(named), s:get(9) == nil, s:insert{3, 'c'}, s:replace{3, 'd'},
            s:update(3, {{'=', 'name', 'e'}}), s:upsert({4, 'x'}, {{'=', 2, 'y'}}) == nil, s:delete{3},
            s.index.nm:count('a'), s.index.pk:min(), s.index.pk:max(), s.index.nm:select('a'),
            s:select({1}, {iterator = 'GT', limit = 1}), s:format()"""
    ) == [
        [[1, "a"], [2, "b"]], "a", True, True, [3, "c"], [3, "d"], [3, "e"], True, [3, "e"], 1, [1, "a"], [4, "x"],
        [[1, "a"]], [[2, "b"]], [{"name": "id", "type": "unsigned"}, {"name": "name", "type": "string"}],
    ]  # fmt: skip


def test_a_tuple_of_parameters_keeps_varbinary_values(remote: Any) -> None:
    assert remote(
        """conn:execute("CREATE TABLE t (a VARBINARY PRIMARY KEY)")
        conn:execute("INSERT INTO t VALUES (x'00')")
        return conn:execute("SELECT typeof(?)", box.space.T:select()[1]).rows, conn:execute("SELECT ?", {'b'}).rows"""
    ) == [[["varbinary"]], [["b"]]]


def test_points_in_time_and_intervals_travel_both_ways(remote: Any) -> None:
    assert remote(
        """local dt = require('datetime')
        local at = dt.new{year = 2024, month = 2, day = 29, nsec = 7, tz = 'Europe/Berlin'}
        local day = dt.interval.new{month = 1, day = -1, adjust = 'last'}
        local s = box.schema.space.create('times', {format = {{'at', 'datetime'}, {'day', 'interval'}}})
        s:create_index('pk')
        conn:reload_schema()
        local far = conn.space.times
        far:insert{at, day}
        local got = far:get{dt.new{epoch = nil, timestamp = at.epoch, nsec = 7}}
        local called = conn:call('unpack', {{at, day}})
        local sum, back = conn:eval('local at, day = ... return at + day, {at = at}', {at, day})
        local _, refused = pcall(far.insert, far, {day, at})
        return dt.is_datetime(got[1]), dt.interval.is_interval(got.day), tostring(got.at), tostring(got[2]),
            got.day.adjust, dt.is_datetime(called), tostring(sum), back.at == at,
            tostring(far:update(at, {{'=', 'day', dt.interval.new{sec = 1}}}).day), tostring(refused),
            #far:select(at, {iterator = 'LE'}), far:format()"""
    ) == [
        True, True, "2024-02-29T00:00:00.000000007 Europe/Berlin", "+1 months, -1 days", 2, True,
        "2024-03-30T00:00:00.000000007 Europe/Berlin", True, "+1 seconds",
        "Tuple field 1 (at) type does not match one required by operation: expected datetime, got extension", 1,
        [{"name": "at", "type": "datetime"}, {"name": "day", "type": "interval"}],
    ]  # fmt: skip


@pytest.mark.parametrize("wait", ["", "require('fiber').yield()"])
def test_a_transaction_that_a_function_leaves_open_is_rolled_back(remote: Any, wait: str) -> None:
    """A transaction that a function leaves open is rolled back, with Tarantool's error or the function's own."""
    assert remote(
        f"""
        function leave() box.begin() box.space.tst:insert{{3, 'c'}} end
        function fail() {wait} box.begin() box.space.tst:insert{{4, 'd'}} error('no') end
        local _, left = pcall(conn.call, conn, 'leave')
        local _, failed = pcall(conn.call, conn, 'fail')
        local _, evaluated = pcall(conn.eval, conn, "{wait} box.begin() box.space.tst:insert{{5, 'e'}} error('never')")
        return tostring(left), tostring(failed):match('no$'), tostring(evaluated):match('never$'), space:len()"""
    ) == ["Transaction is active at return from function", "no", "never", 2]


def test_errors_of_the_server_are_raised(remote: Any) -> None:
    assert remote(
        """local function text(...) local ok, e = pcall(...) return {ok, tostring(e), e.code} end
        return text(conn.call, conn, 'nope'), text(conn.eval, conn, 'box.error{code = 5, reason = "rr"}'),
            text(conn.space.tst.insert, conn.space.tst, {1, 'x'})[3]"""
    ) == [[False, "Procedure 'nope' is not defined", 33], [False, "rr", 5], 3]


def test_errors_of_the_server_carry_their_place(remote: Any) -> None:
    """Errors of the server have the file and line of Lua code or of the node, for each error of a stack."""
    places = remote(
        """function outer()
            local _, inner = pcall(space.insert, space, {1, 'x'})
            local err = box.error.new{code = 9, reason = 'outer'}
            err:set_prev(inner)
            err:raise()
        end
        local function place(...)
            local _, e = pcall(...)
            return {e.trace[1].file, e.trace[1].line, e.prev and e.prev.trace[1].file}
        end
        return place(conn.eval, conn, '\\n\\nbox.error{code = 5}'), place(conn.call, conn, 'outer'),
            place(conn.eval, conn, 'error(1)'), place(conn.call, conn, 'nope'),
            place(conn.space.tst.insert, conn.space.tst, {1, 'x'}),
            place(conn.eval, conn, "pcall(box.error, 1, 'x') box.error()")"""
    )
    assert places[0] == ["eval", 3]
    assert places[1][0] == "test.lua"
    assert places[1][2].startswith("box/")
    assert places[2] == ["./src/lua/utils.c", 1014]
    assert places[3][0] == "builtin/internal/entry.lua"
    assert places[4][0].startswith("box/")
    assert places[4][1] > 0
    assert places[5] == ["[C]", 0xFFFFFFFF]


def test_call_and_eval(remote: Any) -> None:
    assert remote(
        """return conn:call('math.max', {1, 5}), {conn:eval('return ...', {1, {a = 1}})},
            {conn:eval('return box.space.tst:get(1), {1, {2}}')}, select('#', conn:eval('return'))"""
    ) == [5, [1, {"a": 1}], [[1, "a"], [1, [2]]], 0]


def test_traces_of_requests(remote: Any) -> None:
    """A traceback in a requested function ends with its own frames and the C call below."""
    evaluated, called = remote(
        """function _G.where() local trace = debug.traceback() return trace end
        return conn:eval('local trace = debug.traceback() return trace'), conn:call('where')"""
    )
    assert evaluated.split("\n")[:2] == ["stack traceback:", "\teval:1: in main chunk"]
    for trace in (evaluated, called):
        assert "builtin/" not in trace.partition("[C]: in function 'pcall'")[0]
    assert called.split("\n")[1].startswith("\ttest.lua:13: in function ")


def test_timeouts(remote: Any) -> None:
    assert remote(
        """local _, problem = pcall(conn.call, conn, 'slow', {}, {timeout = 0.001})
        return tostring(problem), conn:call('slow', {}, {timeout = 5})"""
    ) == ["Timeout exceeded", "slow"]


def test_futures(remote: Any) -> None:
    assert remote(
        """local f = conn:call('slow', {}, {is_async = true})
        local _, early = f:result()
        local _, late = f:wait_result(0.001)
        local value = f:wait_result(10)
        local d = conn:call('slow', {}, {is_async = true})
        d:discard()
        local _, discarded = d:result()
        return tostring(early), tostring(late), value, f:is_ready(), f:result(), tostring(discarded),
            conn.space.tst:select({1}, {is_async = true}):wait_result(5)"""
    ) == [
        "Response is not ready", "Timeout exceeded", ["slow"], True, ["slow"], "Response is discarded", [[1, "a"]],
    ]  # fmt: skip


def test_messages_before_the_reply(remote: Any) -> None:
    assert remote(
        """local seen, looped = {}, {}
        local value = conn:call('pusher', {}, {on_push = table.insert, on_push_ctx = seen})
        for i, message in conn:call('pusher', {}, {is_async = true}):pairs() do
            table.insert(looped, {i, message})
        end
        return seen, value, looped"""
    ) == [[1, [2]], "end", [[1, 1], [2, [2]], [3, ["end"]]]]


def test_messages_that_cannot_be_encoded(remote: Any) -> None:
    assert remote(
        """local ok, problem = unpack(conn:eval('local a, b = box.session.push(print) return {a, tostring(b)}'))
        local tail = select(2, pcall(conn.eval, conn, 'return box.session.push()'))
        return ok == nil, problem, tostring(tail)"""
    ) == [True, "eval:1: unsupported Lua type 'function'", "Usage: box.session.push(data)"]


def test_an_error_of_on_push_ends_the_connection(remote: Any) -> None:
    assert remote(
        """local sleeper = conn:eval('require("fiber").sleep(100)', {}, {is_async = true})
        local _, problem = pcall(conn.call, conn, 'pusher', {}, {on_push = function() error('oops', 0) end})
        local _, wrong = pcall(conn.call, conn, 'pusher', {}, {is_async = true, on_push = table.insert})
        local _, slept = sleeper:wait_result(10)
        conn:wait_state('error', 10)
        local _, later = pcall(conn.call, conn, 'pusher')
        return {problem.code, slept.code, later.code}, tostring(problem), tostring(slept), conn.state, conn.error,
            tostring(later), (tostring(wrong):match('To handle.*'))"""
    ) == [[0] * 3, "oops", "oops", "error", "oops", "oops", "To handle pushes in an async request use future:pairs()"]


def test_messages_go_into_the_buffer(remote: Any) -> None:
    """With the option `buffer` messages go into the buffer, with `on_push` and without."""
    assert remote(
        """local buffer, sizes = require('buffer').ibuf(), {}
        local size = conn:call('pusher', {}, {buffer = buffer})
        local all = buffer:size()
        conn:call('pusher', {}, {buffer = buffer, on_push = table.insert, on_push_ctx = sizes})
        return size, all, buffer:size(), sizes"""
    ) == [11, 28, 56, [8, 9]]


def test_the_schema_follows_the_server(remote: Any) -> None:
    assert remote(
        """local events = {}
        conn:on_schema_reload(function() table.insert(events, 'schema') end)
        box.schema.space.create('t2'):create_index('pk')
        local before = conn.space.t2 == nil
        conn:reload_schema()
        return before, conn.space.t2 ~= nil, #events > 0"""
    ) == [True, True, True]


def test_close_is_final(remote: Any) -> None:
    assert remote(
        """local events = {}
        conn:on_disconnect(function() table.insert(events, 'disconnect') end)
        conn:close()
        local _, problem = pcall(conn.call, conn, 'slow')
        return conn.state, conn.error, events, tostring(problem), conn:ping(), conn:wait_connected(1)"""
    ) == ["closed", "Connection closed", ["disconnect"], "Connection closed", False, False]


def test_close_ends_requests_that_wait(remote: Any) -> None:
    assert remote(
        """local f = conn:call('slow', {}, {is_async = true})
        conn:close()
        local _, problem = f:wait_result(5)
        return tostring(problem)"""
    ) == ["Connection closed"]


def test_triggers_of_connections_have_all_rights(remote: Any) -> None:
    """Triggers of connections run with all rights, as in Tarantool, and on_auth with the client's."""
    assert remote(
        """box.schema.user.create('u', {password = 'p'})
        local seen = {}
        local function note(event)
            return function()
                table.insert(seen, {event, box.session.user(), box.session.effective_user()})
            end
        end
        local connect, auth = box.session.on_connect(note('connect')), box.session.on_auth(note('auth'))
        local disconnect = box.session.on_disconnect(note('disconnect'))
        net_box.connect(address, {user = 'u', password = 'p'}):close()
        while #seen < 3 do fiber.sleep(0.001) end
        box.session.on_connect(nil, connect) box.session.on_auth(nil, auth) box.session.on_disconnect(nil, disconnect)
        return unpack(seen)"""
    ) == [["connect", "guest", "admin"], ["auth", "guest", "guest"], ["disconnect", "u", "admin"]]


def test_every_denied_request_is_told(remote: Any) -> None:
    """on_access_denied runs for requests refused before they run, and for function calls, not only for Lua's."""
    assert remote(
        """box.schema.user.create('u', {password = 'p'})
        box.schema.user.grant('u', 'write', 'space', 'tst')
        local seen = {}
        local trigger = box.session.on_access_denied(function(...)
            table.insert(seen, {box.session.user(), ...})
        end)
        local c = net_box.connect(address, {user = 'u', password = 'p'})
        pcall(c.call, c, 'slow')
        pcall(c.eval, c, 'return 1')
        pcall(c.space.tst.select, c.space.tst)
        c:close()
        box.session.on_access_denied(nil, trigger)
        return unpack(seen)"""
    ) == [
        ["u", "Execute", "function", "slow"],
        ["u", "Execute", "universe", ""],
        ["u", "Read", "space", "tst"],
    ]


def test_a_message_that_is_here_already_is_not_waited_for(remote: Any) -> None:
    """Iterating over a future's messages returns those that are here; before, it waited for the next one for ever."""
    assert remote(
        """local goes_on = false
        function tell() box.session.push(10) while not goes_on do fiber.sleep(0.001) end return 20 end
        local future = conn:call('tell', {}, {is_async = true})
        fiber.sleep(0.05)
        local messages, done = {}, fiber.channel(1)
        fiber.create(function()
            for i, message in future:pairs() do
                messages[i] = message
                goes_on = true
            end
            done:put(true)
        end)
        return done:get(5), messages"""
    ) == [True, [10, [20]]]


def test_failures_to_connect(remote: Any) -> None:
    assert remote(
        """box.schema.user.create('u', {password = 'p'})
        local function state(...) local c = net_box.connect(...) return {c.state, c.error} end
        return state('unix/:/no/such.sock'), state(address, {user = 'nosuch', password = 'x'}),
            state(address, {user = 'u', password = 'q'}), (pcall(net_box.connect, address, {password = 'x'})),
            state(address, {user = 'u', password = 'p'})[1]"""
    ) == [
        ["error", "No such file or directory"],
        ["error", "User 'nosuch' is not found"],
        ["error", "Incorrect password supplied for user 'u'"],
        False,
        "active",
    ]


def test_reconnection(remote: Any) -> None:
    assert remote(
        """local c, events = net_box.connect(address, {reconnect_after = 0.01}), {}
        c:on_disconnect(function() table.insert(events, 'down') end)
        c:on_connect(function() table.insert(events, 'up') end)
        local missing = net_box.connect('unix/:/no/such.sock', {reconnect_after = 0.01, wait_connected = 0.03})
        local state = missing.state
        missing:close()
        require('internal.python').netbox_close(c._transport.id)
        c:wait_state('error_reconnect', 5)
        c:wait_connected(5)
        return state, missing.state, events, c:ping()"""
    ) == ["error_reconnect", "closed", ["down", "up"], True]


def test_without_waiting_for_the_connection(remote: Any) -> None:
    assert remote(
        """local c = net_box.connect(address, {wait_connected = false})
        local state = c.state
        return state, c:wait_connected(5), c.state"""
    ) == ["initial", True, "active"]


def test_this_instance(remote: Any) -> None:
    assert remote(
        """local me = net_box.self
        local _, problem = pcall(me.call, me, 'nope')
        return me:ping(), me:is_connected(), me:call('math.max', {3, 4}), me:eval('return 1'), me:eval('1'),
            me:eval('return box.space.tst:get(1)'), me.space.tst:get(1), tostring(problem)"""
    ) == [True, True, 4, 1, 1, [1, "a"], [1, "a"], "Procedure 'nope' is not defined"]


def test_replies_in_a_buffer(remote: Any) -> None:
    assert remote(
        """local buffer, msgpack = require('buffer').ibuf(), require('msgpack')
        local size = conn.space.tst:select({1}, {buffer = buffer, skip_header = true})
        return size, (msgpack.decode(buffer.rpos, buffer:size()))"""
    ) == [9, [[1, "a"]]]


def test_a_port_alone_has_no_host(remote: Any) -> None:
    """A port alone connects to this machine."""
    assert remote(
        """local c = net_box.connect(3, {wait_connected = false})
        local d = net_box.connect('localhost:3', {wait_connected = false})
        return c.host, c.port, d.host"""
    ) == [None, "3", "localhost"]


def test_results_and_arguments_have_room_for_their_fields(remote: Any) -> None:
    """Results and arguments have the table sizes, and so the `pairs()` order, that `msgpack.decode` gives."""
    assert remote(
        """local msgpack, digest = require('msgpack'), require('digest')
        local function order(t)
            local names = {}
            for name in pairs(t) do
                names[#names + 1] = name
            end
            return table.concat(names, ' ')
        end
        function argument_order(t) return order(t) end
        function echo(...) return ... end
        local wrong = {}
        local function expect(kind, found, expected)
            wrong[#wrong + 1] = found ~= expected and kind or nil
        end
        for case = 1, 40 do
            local value = {}
            for i = 1, case % 12 + 1 do
                value[digest.md5_hex(case .. ' ' .. i)] = i
            end
            local bytes = msgpack.encode(value)
            local once = msgpack.decode(bytes)
            local twice = msgpack.decode(msgpack.encode(once))
            expect('call', conn:call('argument_order', {value}), order(once))
            expect('eval', conn:eval('return argument_order(...)', {value}), order(once))
            expect('result', order(conn:call('echo', {value})), order(twice))
        end
        return wrong"""
    ) == [[]]


def test_a_call_by_name_is_no_use_of_an_undeclared_global(remote: Any) -> None:
    """A call by name is no use of an undeclared global for `strict`, which allows look-ups from C code."""
    assert remote(
        """local strict = require('strict')
        strict.on()
        local ok, problem = pcall(conn.call, conn, 'no_such')
        local other_ok, other = pcall(conn.call, conn, 'no_such.member')
        local undeclared = pcall(loadstring('return no_such'))
        strict.off()
        return ok, tostring(problem), other_ok, tostring(other), undeclared"""
    ) == [False, "Procedure 'no_such' is not defined", False, "Procedure 'no_such.member' is not defined", False]


@pytest.mark.parametrize("name", ["dynamic", "nested.dynamic", "nested:method"])
def test_a_called_function_may_come_from_a_metatable(remote: Any, name: str) -> None:
    assert remote(
        """local members = {dynamic = function() return 'found' end}
        nested = setmetatable({}, {__index = setmetatable({}, {__index = function(_, name)
            return name == 'method' and function(self) return self == nested and 'found' end or members[name]
        end})})
        setmetatable(_G, {__index = members})
        local result = conn:call('"""
        + name
        + """')
        setmetatable(_G, nil)
        return result"""
    ) == ["found"]


def test_an_error_of_index_is_that_of_the_call(remote: Any) -> None:
    assert remote(
        """nested = setmetatable({}, {__index = function() error('no members today', 0) end})
        return tostring(select(2, pcall(conn.call, conn, 'nested.any')))"""
    ) == ["no members today"]


@pytest.mark.parametrize("event", ["on_connect", "on_schema_reload"])
def test_a_trigger_may_close_its_connection(remote: Any, printed: list[str], event: str) -> None:
    """A trigger may close its connection, whose state then is closed for everybody."""
    results = remote(
        f"""local seen = {{}}
        local c = net_box.connect(address, {{wait_connected = false, reconnect_after = 0.01}})
        c:{event}(function(closing)
            table.insert(seen, closing.state)
            closing:close()
        end)
        local deadline = fiber.clock() + 5
        while c.state ~= 'closed' and fiber.clock() < deadline do fiber.sleep(0.001) end
        fiber.sleep(0.03)
        local ok, problem = pcall(c.ping, c)
        local called, reason = pcall(c.eval, c, 'return 1')
        return #seen, c.state, c:is_connected(), ok and problem, called, tostring(reason)"""
    )
    assert results == [1, "closed", False, False, False, "Connection closed"]
    assert not any("Traceback" in text or "net.box trigger" in text for text in printed)


def test_names_of_procedures(lua: Lua) -> None:
    """The parts of a name are keys of type string. Containers are tables; the object of a method may be a userdata."""
    names = ["list.1", ".f", "f.", "_G..f", "holder:f", "holder..f", "text.upper", "tuple:bsize", "proxy:x", "proxy.x"]
    answers = lua(
        """box.cfg{listen = 'unix/:./names.sock'}
        box.schema.user.grant('guest', 'super')
        function f() return 'f' end
        list, holder, text, tuple, proxy = {f}, {f = f}, 'abc', box.tuple.new{1}, newproxy(true)
        getmetatable(proxy).__index = function() return f end
        callable, plain = setmetatable({}, {__call = f}), setmetatable({}, {__call = {}})
        local c, answers = require('net.box').connect('unix/:./names.sock'), {}
        for i, name in ipairs(...) do answers[i] = tostring(select(2, pcall(c.call, c, name))) end
        return answers""",
        [*names, "callable", "plain", "text"],
    )[0]
    undefined = {name: f"Procedure '{name}' is not defined" for name in [*names, "text"]}
    undefined["holder:f"] = undefined["proxy:x"] = "f"
    expected = [undefined[name] for name in names] + ["f", "attempt to call a table value", undefined["text"]]
    assert answers == expected


def test_fibers_of_requests_are_called_main(lua: Lua) -> None:
    assert lua(
        """box.cfg{listen = 'unix/:./fibers.sock'}
        box.schema.user.grant('guest', 'super')
        local fiber = require('fiber')
        function slow() fiber.sleep(0.001) return fiber.name() end
        local seen
        box.session.on_connect(function() seen = fiber.name() end)
        local c = require('net.box').connect('unix/:./fibers.sock')
        return seen, c:eval("return require('fiber').name()"), c:call('package.loaded.fiber.name'), c:call('slow'),
            c:eval("local n; require('fiber').create(function() n = require('fiber').name() end) return n")"""
    ) == ["main", "main", "main", "main", "lua"]


def test_a_server_that_closes_without_a_greeting(lua: Lua) -> None:
    assert (
        lua(
            """local socket, connect = require('socket'), require('net.box').connect
        local function error_of(bytes)
            local server = socket.tcp_server('127.0.0.1', 0, function(peer) peer:write(bytes) end)
            local c = connect('127.0.0.1', server:name().port)
            server:close()
            return c.error
        end
        return error_of(''), error_of('hello'), error_of(('x'):rep(128))"""
        )
        == ["Invalid greeting"] * 3
    )


def test_a_server_that_closes_after_its_reply(lua: Lua) -> None:
    """Who gets the last reply finds the connection closed, its triggers run, and other requests failed."""
    assert lua(
        """
        local socket, net_box, msgpack = require('socket'), require('net.box'), require('msgpack')
        local greeting = ('%-63s\\n%-63s\\n'):format('Tarantool 1.10.0 (Binary) 00000000-0000-0000-0000-000000000000',
            require('digest').base64_encode(('s'):rep(32)))
        local function reply(sync, data)
            local body = msgpack.encode({[0] = 0, [1] = sync, [5] = 1}) .. msgpack.encode({[0x30] = data})
            return msgpack.encode(#body) .. body
        end
        local function sync_of(peer)
            local size = msgpack.decode(peer:read(5))
            local header = msgpack.decode(peer:read(size))
            return header[1]
        end
        local server = socket.tcp_server('127.0.0.1', 0, function(peer)
            peer:write(greeting)
            for _ = 1, 3 do peer:write(reply(sync_of(peer), {})) end
            sync_of(peer)
            peer:write(reply(sync_of(peer), {'last'}))
        end)
        local seen = {}
        local conn = net_box.connect('127.0.0.1', server:name().port)
        conn:on_disconnect(function() table.insert(seen, 'disconnected') end)
        local future = conn:call('slow', {}, {is_async = true})
        local ok, result = pcall(conn.call, conn, 'last')
        local _, problem = future:result()
        server:close()
        return ok, result, conn.state, conn.error, seen, future:is_ready(), problem and problem.message
        """
    ) == [True, "last", "error", "Peer closed", ["disconnected"], True, "Peer closed"]
