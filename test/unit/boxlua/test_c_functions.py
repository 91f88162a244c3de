"""Stored functions in C: their libraries are loaded and reloaded as in Tarantool; the functions are not called."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .box_support import Box, Run

_COMPILER = shutil.which("cc")


def _compile(source: str, target: Path) -> None:
    assert _COMPILER is not None
    command = [_COMPILER, "-shared", "-fPIC", "-x", "c", "-o", str(target), "-"]
    subprocess.run(command, input=source.encode(), check=True)


def test_functions_without_a_library(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.so").write_text("not a library")

    async def body(box: Box) -> None:
        await box("box.schema.func.create('none.f', {language = 'C'}) box.schema.func.create('bad', {language = 'C'})")
        missing = "Failed to dynamically load module 'none': module not found"
        assert await box.fails("box.func['none.f']:call()") == missing
        assert await box.fails("box.schema.func.call('none.f')") == missing
        await box("package.cpath = ...", f"{tmp_path}/?.so")
        broken = await box.fails("box.func.bad:call()")
        assert re.fullmatch(r"Failed to dynamically load module 'bad': \S*/tnt\w{6}/bad.so: file too short", broken)

    run(body)


def test_arguments_of_reload(run: Run) -> None:
    async def body(box: Box) -> None:
        wrong = "test:1: bad argument #1 to 'reload' (string expected, got"
        assert await box.fails("box.schema.func.reload()") == f"{wrong} no value)"
        assert await box.fails("box.schema.func.reload({})") == f"{wrong} table)"
        assert await box.fails("box.schema.func.reload('none.f')") == "Module 'none.f' does not exist"
        assert await box.fails("box.schema.func.reload(1)") == "Module '1' does not exist"
        await box("box.schema.user.create('u')")
        assert await box.fails("box.session.su('u', box.schema.func.reload, 'x')") == (
            "Usage access to universe '' is denied for user 'u'"
        )

    run(body)


@pytest.mark.skipif(_COMPILER is None, reason="no C compiler")
def test_functions_with_a_library(run: Run, tmp_path: Path) -> None:
    """A reload that lacks a function in use keeps the old library."""
    library = tmp_path / "lib.so"
    # It needs functions that nobody has: they are looked up when the function runs.
    _compile("int box_return_tuple(void *, void *); int f(void *c) { return box_return_tuple(c, 0); }", library)

    async def body(box: Box) -> None:
        await box("package.cpath = ...", f"{tmp_path}/?.so")
        await box("for _, name in ipairs({'f', 'g'}) do box.schema.func.create('lib.' .. name, {language = 'C'}) end")
        absent = await box.fails("box.func['lib.g']:call()")
        assert re.fullmatch(
            r"Failed to dynamically load function 'g': \S*/tnt\w{6}/lib.so: undefined symbol: g", absent
        )
        assert await box.fails("box.schema.func.reload('lib')") == "Module 'lib' does not exist"
        assert await box.fails("box.func['lib.f']:call()") == "Lunabox does not support functions in C"
        await box("box.schema.func.reload('lib')")
        _compile("int g(void) { return 0; }", library)
        assert "undefined symbol: f" in await box.fails("box.schema.func.reload('lib')")
        assert await box.fails("box.func['lib.f']:call()") == "Lunabox does not support functions in C"

    run(body)


def test_modules_of_box_lib(run: Run) -> None:
    async def body(box: Box) -> None:
        wrong = "Expects box.lib.load('name') but no name passed"
        assert await box.fails("box.lib.load()") == wrong
        assert await box.fails("box.lib.load('x')") == "Failed to dynamically load module 'x': module not found"

    run(body)
