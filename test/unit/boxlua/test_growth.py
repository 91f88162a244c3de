"""Public calls take time in proportion to their data: ten times the data take about ten times as long."""

from __future__ import annotations

import pytest

from box.sync import Node
from test.bench.growth import OWN_COMMAND, measure

LIMIT = 1.6
"""The greatest allowed exponent: quadratic growth shows 2, and other work on the machine shifts linear growth by
tenths.
"""
ATTEMPTS = 4
LISTS = ("objects", "tuples", "decimals", "uuids", "errors")
CALLS = [
    *(f"msgpack.encode.{kind}" for kind in LISTS),
    *(f"msgpack.decode.{kind}" for kind in ("decimals", "uuids", "maps")),
    *(f"net_box.{way}.{kind}" for way in ("send", "receive") for kind in LISTS[:4]),
    *(
        f"{codec}.encode.{kind}"
        for codec in ("json", "yaml")
        for kind in ("document", "indented", "paragraphs", "maps")
    ),
    *(f"{codec}.decode.{kind}" for codec in ("json", "yaml") for kind in ("document", "quoted", "maps")),
    *(f"tuple.{name}" for name in ("pairs", "ipairs", "find", "findall", "update_many", "tostring", "totable")),
    "uri.parse",
    "fiber.yield",
    "fiber.cancel",
    "channel.timeouts",
    "cond.broadcast",
    "space.transaction",
    "space.savepoints",
    "socket.lines",
    "socket.far_delimiter",
    "console.answer",
]


def test_no_call_grows_faster_than_its_data() -> None:
    """No call grows faster than its data; one above the limit is measured again, because other work may have disturbed
    it.
    """
    steep = dict.fromkeys(CALLS, 0.0)
    for _ in range(ATTEMPTS):
        found = measure(OWN_COMMAND, list(steep))
        assert set(found) == set(steep), "a scenario has ended the node"
        exponents = {name: growth.exponent for name, growth in found.items()}
        assert None not in exponents.values(), "a scenario has failed"
        steep = {name: exponent for name, exponent in exponents.items() if exponent is not None and exponent > LIMIT}
        if not steep:
            return
    raise AssertionError(f"exponents above {LIMIT}: {steep}")


SIMILAR = """
local use = ...
local clock, run, N = require('clock'), assert(loadstring('local s, id, value = ... ' .. use)), 20000
local s = box.space.s
local function seconds(value_of)
    s:truncate()
    for id = 1, N do s:replace{id, 1} end
    collectgarbage()
    collectgarbage('stop')
    local start = clock.proc()
    for id = 1, N do run(s, id, value_of(id)) end
    local spent = clock.proc() - start
    collectgarbage('restart')
    return spent
end
local least = math.huge
for _ = 1, 2 do
    local other = seconds(function(id) return {a = id} end)
    least = math.min(least, seconds(function(id) return {a = id, b = 'x'} end) / other)
    if least < 1.5 then break end -- only a measurement that other work may have disturbed is repeated
end
return least
"""
"""Returns how much longer a call takes with values whose bytes differ in their middle, where LuaJIT 2.0 does not look
for the hash of a string.
"""


@pytest.mark.parametrize(
    "use",
    ["s:update(id, {{'=', 3, value}})", "s:upsert({id, 'x'}, {{'=', 3, value}})", "s:get(1):update{{'=', 2, value}}"],
)
def test_similar_values_take_no_longer_than_others(use: str) -> None:
    with Node(wal_mode="none") as node:
        node.eval("box.schema.space.create('s'):create_index('pk')")
        assert node.eval(SIMILAR, use) < 2
