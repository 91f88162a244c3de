"""Scripts print equal text on Tarantool and here."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .support import Lua

pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(shutil.which("tarantool") is None, reason="the `tarantool` executable is not on PATH"),
]

Run = Callable[..., Any]

# What the scripts use of `box`, which these modules do not have.
BOX = """
box = {NULL = require('internal.msgpack').NULL, tuple = {new = function(value)
    return require('internal.tuple').new(require('internal.msgpack').encode(value))
end}}
"""

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.lua"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.stem))
def test_same_output(request: pytest.FixtureRequest, run: Run, tmp_path: Path, script: Path) -> None:
    if script.stem == "table_new" and "luajit21" in request.node.name:
        pytest.skip("that compiler orders the fields of tables in its own way")
    source = script.read_text()
    (tmp_path / "s.lua").write_text(source + "\nio.stdout:flush() os.exit(0)\n")
    tarantool = subprocess.run(["tarantool", "s.lua"], capture_output=True, timeout=60, cwd=tmp_path)

    async def test(lua: Lua) -> bytes:
        await lua.eval("io.write = function(...) require('internal.python').print(table.concat({...})) end")
        await lua.eval(BOX)
        await lua.eval(source, chunk_name="@s.lua")
        return lua.printed

    assert _lines(run(test)) == _lines(tarantool.stdout)


def _lines(output: bytes) -> list[str]:
    """Return lines without addresses and positions inside built-in modules."""
    text = output.decode("utf-8", "replace")
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", text)
    return re.sub(r"builtin/[\w./]+:\d+: ", "", text).splitlines()
