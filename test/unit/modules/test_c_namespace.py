"""ffi.C has what programs call in Tarantool's executable: functions of its log and of the libraries in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from box.data import _icu

from .conftest import Lua


def test_constants_and_functions_of_the_log(lua: Lua, tmp_path: Path) -> None:
    path = tmp_path / "c.log"
    assert lua(
        """
        local ffi = require('ffi')
        box.cfg{log = ..., log_level = 3}
        ffi.C._say(ffi.C.S_CRIT, 'a.lua', 5, nil, '%s', 'hello')
        ffi.C._say(ffi.C.S_CRIT, 'a.lua', 6, 'why', 'a %s', 'b')
        ffi.C._say(ffi.C.S_WARN, 'a.lua', 7, nil, 'not this')
        return ffi.C.S_CRIT, ffi.C.log_level, type(ffi.C)
        """,
        str(path),
    ) == [3, 3, "userdata"]
    lines = [line.partition(" C> ")[2] for line in path.read_text().splitlines()]
    assert lines[-2:] == ["hello", "a b: why"]
    assert "not this" not in path.read_text()


def test_functions_of_openssl_and_zlib(lua: Lua) -> None:
    """Functions of these libraries are found without `ffi.load`; others are not."""
    assert lua(
        """
        local ffi = require('ffi')
        ffi.cdef('void *TLS_server_method(void); const char *zlibVersion(void); int there_is_no_such_function(void);')
        local function text(f) return tostring(select(2, pcall(f))) end
        return ffi.C.TLS_server_method() ~= nil, ffi.string(ffi.C.zlibVersion()):match('^%d+%.') ~= nil,
            text(function() return ffi.C.there_is_no_such_function end):match('undefined symbol: [%w_]+'),
            text(function() return ffi.C.undeclared end)
        """
    ) == [
        True,
        True,
        "undefined symbol: there_is_no_such_function",
        "test.lua:7: missing declaration for symbol 'undeclared'",
    ]


@pytest.mark.skipif(_icu.library() is None, reason="the machine has no ICU")
def test_functions_of_icu_for_characters_and_for_languages(lua: Lua) -> None:
    """Their names carry the version of ICU, as in Tarantool's executable."""
    assert lua(
        """
        local ffi, version = require('ffi'), ...
        ffi.cdef(('int32_t u_strlen_%s(const uint16_t *); int32_t ucal_getTZDataVersion_%s(void *);')
            :format(version, version))
        return ffi.C['u_strlen_' .. version](ffi.new('uint16_t[3]', {97, 98, 0})),
            type(ffi.C['ucal_getTZDataVersion_' .. version])
        """,
        icu_version(),
    ) == [2, "cdata"]


def icu_version() -> str:
    icu = _icu.library()
    return "" if icu is None else icu.version


def test_variables_of_c_libraries_can_be_set(lua: Lua) -> None:
    assert lua(
        """
        local ffi = require('ffi')
        ffi.cdef('int opterr;')
        ffi.C.opterr = 5
        local seen = ffi.C.opterr
        ffi.C.opterr = 1
        return seen, ffi.C.opterr
        """
    ) == [5, 1]


def test_latches(lua: Lua) -> None:
    """A latch goes to the fiber that has waited longest; neither a wake-up nor a cancellation ends the wait."""
    assert lua(
        """
        local ffi, fiber = require('ffi'), require('fiber')
        ffi.cdef([[
            typedef struct box_latch box_latch_t;
            box_latch_t *box_latch_new(void);
            void box_latch_delete(box_latch_t *latch);
            void box_latch_lock(box_latch_t *latch);
            int box_latch_trylock(box_latch_t *latch);
            void box_latch_unlock(box_latch_t *latch);
        ]])
        local C, seen, fibers = ffi.C, {}, {}
        local latch = ffi.gc(C.box_latch_new(), C.box_latch_delete)
        C.box_latch_lock(latch)
        for i = 1, 3 do
            fibers[i] = fiber.create(function()
                C.box_latch_lock(latch)
                table.insert(seen, i)
                C.box_latch_unlock(latch)
            end)
        end
        fibers[2]:wakeup()
        fiber.sleep(0)
        pcall(fibers[1].cancel, fibers[1])
        fiber.sleep(0)
        local before, taken = #seen, C.box_latch_trylock(latch)
        C.box_latch_unlock(latch)
        fiber.sleep(0)
        C.box_latch_delete(nil)
        return before, taken, seen, C.box_latch_trylock(latch), C.box_latch_trylock(latch)
        """
    ) == [0, 1, [1, 2, 3], 0, 1]
