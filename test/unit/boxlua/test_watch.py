"""box.watch, box.broadcast, the built-in events of a node, box.iproto and box.info.features."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from box import Node


def ask(source: str, **options: Any) -> Any:
    async def scenario() -> Any:
        async with Node(**options) as node:
            return await node.eval(source)

    return asyncio.run(scenario())


def test_watchers() -> None:
    assert ask("""
        local fiber, log = require('fiber'), {}
        local watcher = box.watch('key', function(...)
            log[#log + 1] = {select('#', ...), ...}
            fiber.sleep(0.01)
        end)
        fiber.sleep(0)
        fiber.sleep(0)
        for i = 1, 3 do
            box.broadcast('key', {i})
        end
        fiber.sleep(0.03)
        box.broadcast('key')
        fiber.sleep(0.03)
        watcher:unregister()
        box.broadcast('key', 4)
        fiber.sleep(0.03)
        return log, tostring(watcher)
    """) == [[[1, "key"], [2, "key", [3]], [1, "key"]], "box.watcher"]


def test_a_watcher_that_fails_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    assert (
        ask("""
        local fiber, count = require('fiber'), 0
        box.watch('key', function() count = count + 1 error('as you wish') end)
        fiber.sleep(0.01)
        box.broadcast('key', 1)
        fiber.sleep(0.01)
        return count
    """)
        == 2
    )
    assert "as you wish" in caplog.text


def test_wrong_arguments() -> None:
    assert ask("""
        local texts = {}
        local watcher = box.watch('key', print)
        watcher:unregister()
        for _, call in ipairs{
            function() box.watch('key') end,
            function() box.watch({}, print) end,
            function() box.watch('key', 'x') end,
            function() box.broadcast() end,
            function() box.broadcast({}) end,
            function() box.broadcast('box.id', 1) end,
            function() watcher:unregister() end,
            function() watcher.unregister() end,
        } do
            texts[#texts + 1] = tostring(select(2, pcall(call))):gsub('^eval:%d+: ', '')
        end
        return texts
    """) == [
        "Usage: box.watch(key, function)",
        "bad argument #1 to 'watch' (string expected, got table)",
        "bad argument #2 to 'watch' (function expected, got string)",
        "Usage: box.broadcast(key[, value])",
        "bad argument #1 to 'broadcast' (string expected, got table)",
        "System event can't be override",
        "Watcher is already unregistered",
        "bad argument #1 to 'unregister' (box.watcher expected, got no value)",
    ]


def test_events_of_the_node() -> None:
    """A built-in event is sent again when its value has changed."""
    found = ask("""
        local fiber, log = require('fiber'), {}
        for _, key in ipairs{'box.id', 'box.status', 'box.election', 'box.schema'} do
            log[key] = {}
            box.watch(key, function(_, value) table.insert(log[key], value) end)
        end
        fiber.sleep(0.01)
        box.cfg{read_only = true}
        fiber.sleep(0.01)
        box.cfg{read_only = false}
        box.schema.space.create('s')
        box.cfg{election_mode = 'candidate'}
        while log['box.election'][#log['box.election']].role ~= 'leader' do fiber.sleep(0.01) end
        return log, box.info.uuid, box.info.cluster.uuid
    """)
    log, uuid, cluster = found
    (only,) = log["box.id"]
    assert (only["id"], str(only["instance_uuid"]), str(only["replicaset_uuid"])) == (1, uuid, cluster)
    assert [status["is_ro"] for status in log["box.status"]][:2] == [False, True]
    assert log["box.status"][1] == {"is_ro": True, "is_ro_cfg": True, "status": "running"}
    assert log["box.election"][0] == {"term": 1, "role": "follower", "is_ro": False, "leader": 0}
    assert log["box.election"][-1]["leader"] == 1
    versions = [schema["version"] for schema in log["box.schema"]]
    assert versions == sorted(set(versions))
    assert len(versions) >= 2


def test_features() -> None:
    found = ask("""
        local shown = {}
        for name in pairs(box.info()) do shown[name] = true end
        return box.iproto.protocol_version, box.iproto.feature.streams, box.iproto.protocol_features.watchers,
            box.iproto.key.STREAM_ID, box.iproto.type.ROLLBACK, box.info.features, shown.features
    """)
    assert found[:5] == [4, 0, True, 10, 16]
    assert found[5]["streams"] is True
    assert found[6] is None
