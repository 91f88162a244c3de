"""What nobody uses any more is collected: fibers, connections and triggers keep nothing after their end."""

from __future__ import annotations

import pytest

from .conftest import Lua

CONNECT = "local c = net.connect(uri, {reconnect_after = 0.01}) "

USES = {
    "a fiber": "fiber.new(function() fiber.sleep(0.001) return object end)",
    "a storage of a fiber": "fiber.new(function() fiber.self().storage.object = object end)",
    "a fiber that is cancelled": """
        local f = fiber.new(function() fiber.sleep(9) return object end)
        fiber.yield()
        f:cancel()
    """,
    "a fiber that is joined": """
        local f = fiber.new(function() return object end)
        f:set_joinable(true)
        f:join()
    """,
    "an error": "fiber.new(function() pcall(error, object) end)",
    "a trigger": """
        local function trigger() return object end
        box.session.on_connect(trigger)
        box.session.on_connect(nil, trigger)
    """,
    "a connection": CONNECT + "c.object = object c:close()",
    "a connection that is not closed": CONNECT + "c.object = object",
    "a connection that waits for the next attempt": """
        local c = net.connect('unix/:./nobody', {wait_connected = false, reconnect_after = 0.01})
        c:on_disconnect(function() return object end)
        fiber.sleep(0.02)
    """,
    "a trigger of a connection": CONNECT + "c:on_disconnect(function() return object end)",
    "a request": CONNECT + "c.object = object c:eval('return 1', {}, {is_async = true}):wait_result(1)",
    "a request without an answer": CONNECT
    + "c.object = object pcall(c.eval, c, 'fiber.sleep(9)', {}, {timeout = 0.001})",
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_what_nobody_uses_is_collected(lua: Lua, use: str) -> None:
    assert lua(
        f"""
        fiber, net, uri = require('fiber'), require('net.box'), 'unix/:./kept.sock'
        box.cfg{{listen = uri}}
        box.schema.user.grant('guest', 'super')
        local kept = setmetatable({{}}, {{__mode = 'v'}})
        local function use(object) {use} end
        do
            local object = {{}}
            kept[1] = object
            use(object)
        end
        for _ = 1, 100 do
            collectgarbage()
            if kept[1] == nil then return 'collected' end
            fiber.sleep(0.01)
        end
        """
    ) == ["collected"]
