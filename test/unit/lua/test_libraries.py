"""Lua modules in C from the rocks of a project."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LUNABOX = str(Path(sys.executable).with_name("lunabox"))
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

# What Lua 5.1's lua.h declares, as far as the modules below need it.
DECLARATIONS = """
#include <stddef.h>
typedef struct lua_State lua_State;
typedef int (*lua_CFunction)(lua_State *);
extern void lua_createtable(lua_State *, int, int);
extern void lua_pushcclosure(lua_State *, lua_CFunction, int);
extern void lua_pushinteger(lua_State *, ptrdiff_t);
extern void lua_setfield(lua_State *, int, const char *);
extern ptrdiff_t luaL_checkinteger(lua_State *, int);
"""
SQUARES = """
static int square(lua_State *L) {
    ptrdiff_t side = luaL_checkinteger(L, 1);
    lua_pushinteger(L, side * side);
    return 1;
}
int luaopen_shapes_squares(lua_State *L) {
    lua_createtable(L, 0, 1);
    lua_pushcclosure(L, square, 0);
    lua_setfield(L, -2, "square");
    return 1;
}
"""
# A stored procedure that expects the functions of Tarantool's module.h.
PROCEDURES = """
extern int box_txn_begin(void);
int luaopen_procedures(lua_State *L) {
    lua_pushinteger(L, box_txn_begin());
    return 1;
}
"""


def build(directory: Path, name: str, source: str) -> None:
    """Compile a module into the rocks of a directory."""
    library = directory / ".rocks/lib/tarantool" / f"{name.replace('.', '/')}.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    text = directory / "module.c"
    text.write_text(DECLARATIONS + source)
    assert COMPILER is not None
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, text], check=True, timeout=60)


def run(directory: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Return the output of a node that runs a script in a directory."""
    (directory / "script.lua").write_text(script)
    return subprocess.run(
        [LUNABOX, "script.lua"], cwd=directory, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )


def test_module_in_c(tmp_path: Path) -> None:
    build(tmp_path, "shapes.squares", SQUARES)
    ended = run(
        tmp_path,
        "local squares = require('shapes.squares')\n"
        "print(squares.square(12))\n"
        "print(pcall(squares.square, {}))\n"
        "local path = '.rocks/lib/tarantool/shapes/squares.so'\n"
        "print(package.loadlib(path, 'luaopen_shapes_squares')().square(3))\n"
        "os.exit(0)\n",
    )
    expected = "144\nfalse\tbad argument #1 to '?' (number expected, got table)\n9\n"
    assert (ended.returncode, ended.stdout) == (0, expected), ended.stderr


def test_module_that_needs_the_functions_of_tarantool(tmp_path: Path) -> None:
    build(tmp_path, "procedures", PROCEDURES)
    ended = run(tmp_path, "print(pcall(require, 'procedures'))\nos.exit(0)\n")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("false\t")
    assert "undefined symbol: box_txn_begin" in ended.stdout


def test_what_cannot_be_loaded_from_the_paths_is_an_error_of_its_own(tmp_path: Path) -> None:
    """A module file that is found but cannot be loaded raises its own error, not "not found"."""
    build(tmp_path, "procedures", PROCEDURES)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/broken.lua").write_text("x x")
    ended = run(
        tmp_path,
        "package.setsearchroot('/nonexistent')\n"
        "package.path, package.cpath = './modules/?.lua', './.rocks/lib/tarantool/?.so'\n"
        "print(pcall(function() local made = require('broken') return made end))\n"
        "print(pcall(require, 'procedures'))\n"
        "os.exit(0)\n",
    )
    assert ended.stdout == (
        "false\terror loading module 'broken' from file './modules/broken.lua':\n"
        "\t./modules/broken.lua:1: '=' expected near 'x'\n"
        "false\terror loading module 'procedures' from file './.rocks/lib/tarantool/procedures.so':\n"
        "\t./.rocks/lib/tarantool/procedures.so: undefined symbol: box_txn_begin\n"
    ), ended.stderr
