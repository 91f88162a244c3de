"""Limits of the time that a fiber runs without giving way. Texts and results are those of Tarantool 2.11."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Lua

SETUP = """
local fiber, clock = require('fiber'), require('clock')
local function busy(seconds)
    local stop = clock.monotonic() + seconds
    while clock.monotonic() < stop do end
end
local function text(run, ...)
    local ok, problem = pcall(run, ...)
    return ok or (tostring(problem):gsub('^%S+:%d+: ', ''))
end
"""
SPACE = """
local s = box.schema.space.create('s')
s:create_index('pk')
for i = 1, 1000 do s:insert{i} end
local function many(method, ...)
    for _ = 1, 1000 do s[method](s, ...) end
end
"""
EXCEEDED = "fiber slice is exceeded"


def test_a_fiber_that_runs_too_long_gets_an_error(lua: Lua) -> None:
    """It holds until the fiber gives way; requests look at the clock at each thousandth tuple."""
    found = lua(
        SETUP
        + SPACE
        + """
        fiber.set_max_slice({warn = 100, err = 0.2})
        fiber.yield()
        local before = text(many, 'get', 1)
        busy(0.25)
        local one = text(s.get, s, 1)
        local late = {}
        for _, method in ipairs{'get', 'select', 'count', 'replace', 'update', 'delete'} do
            table.insert(late, text(many, method, {1}, {{'=', 1, 1}}))
        end
        table.insert(late, text(function() for _ = 1, 20 do for _ in s:pairs() do end end end))
        local ok, err = pcall(fiber.check_slice)
        fiber.yield()
        return before, one, late, err.type, text(fiber.check_slice)""",
        configure={"wal_mode": "none"},
    )
    assert found == [True, True, [EXCEEDED] * 7, "FiberSliceIsExceeded", True]


def test_a_slice_can_be_extended_and_set(lua: Lua) -> None:
    assert lua(
        SETUP
        + """
        fiber.set_max_slice(0.01)
        fiber.yield()
        fiber.extend_slice({warn = 10, err = 10})
        busy(0.02)
        local extended = text(fiber.check_slice)
        fiber.set_slice(0.001)
        local set = text(fiber.check_slice)
        fiber.yield()
        return extended, set, text(fiber.check_slice)"""
    ) == [True, EXCEEDED, True]


def test_a_fiber_may_have_a_slice_of_its_own(lua: Lua) -> None:
    """That of all fibers does not hold for it, and its own for no other."""
    assert lua(
        SETUP
        + """
        local function run() busy(0.02) return text(fiber.check_slice) end
        local limited, free = fiber.new(run), fiber.new(run)
        limited:set_joinable(true) free:set_joinable(true)
        limited:set_max_slice(0.01)
        local _, a = limited:join()
        local _, b = free:join()
        return a, b"""
    ) == [EXCEEDED, True]


def test_a_long_turn_is_in_the_log_once(lua: Lua, tmp_path: Path) -> None:
    lua(
        SETUP
        + """
        fiber.set_max_slice{warn = 0.005, err = 100}
        fiber.yield()
        busy(0.01) fiber.check_slice() fiber.check_slice()""",
        configure={"log": str(tmp_path / "x.log"), "log_level": 5, "wal_mode": "none"},
    )
    assert (tmp_path / "x.log").read_text().count("W> fiber has not yielded for more than 0.005 seconds") == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("fiber.set_max_slice", "fiber.set_max_slice([id,] slice): bad arguments"),
        ("fiber.set_max_slice, 1, 2, 3", "fiber.set_max_slice([id,] slice): bad arguments"),
        ("fiber.set_max_slice, -1", "slice value must be >= 0"),
        ("fiber.set_max_slice, {warn = 1}", "slice must be a number or a table {warn = <number>, err = <number>}"),
        ("fiber.set_max_slice, 'x'", "slice must be a number or a table {warn = <number>, err = <number>}"),
        ("fiber.set_max_slice, 12345, 1", "the fiber is dead"),
        ("fiber.set_slice", "fiber.set_slice(slice): bad arguments"),
        ("fiber.extend_slice", "fiber.extend_slice(slice): bad arguments"),
        ("fiber.extend_slice, {}", "slice must be a number or a table {warn = <number>, err = <number>}"),
        ("fiber.check_slice, 1", "fiber.check_slice(): bad arguments"),
    ],
)
def test_wrong_calls(lua: Lua, call: str, message: str) -> None:
    assert lua(f"{SETUP} return text({call})") == [message]


def test_fibers_describe_themselves(lua: Lua) -> None:
    found, switches, after, *without_argument = lua(
        """local fiber = require('fiber')
        local f = fiber.self()
        local before = f:csw()
        fiber.yield()
        return f:info(), before, f:csw(), f.csw(), f.info().csw"""
    )
    assert (found["csw"], after) == (after, switches + 1)
    assert without_argument == [after, after]
    assert set(found) == {"fid", "name", "csw", "time", "backtrace", "memory"}


def test_join_may_have_a_deadline(lua: Lua) -> None:
    assert lua(
        """local fiber = require('fiber')
        local f = fiber.new(function() fiber.sleep(0.05) return 7 end)
        f:set_joinable(true)
        local ok, err = f:join(0.001)
        return ok, err.type, tostring(err), f:join(10)"""
    ) == [False, "TimedOut", "timed out", True, 7]
