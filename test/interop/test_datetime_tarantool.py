"""Generated statements of the Lua module `datetime` give equal results on Lunabox and Tarantool 2.11.

`LUNABOX_TARANTOOL_211` names the executable, `DATETIME_STATEMENTS` the number of statements of a seed.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from box.data.codec import pack
from box.embed import LuaInstance
from test.interop.datetime_statements import DRIVER, Statements

TARANTOOL = os.environ.get("LUNABOX_TARANTOOL_211", "")
COUNT = int(os.environ.get("DATETIME_STATEMENTS", "500"))

pytestmark = pytest.mark.skipif(not TARANTOOL, reason="LUNABOX_TARANTOOL_211 does not name a 2.11")


def results_of_tarantool(directory: Path) -> list[str]:
    (directory / "driver.lua").write_text(DRIVER)
    subprocess.run([TARANTOOL, "driver.lua"], cwd=directory, check=True, timeout=300)
    return read_results(directory)


def results_of_ours(directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(directory)

    async def main() -> None:
        instance = LuaInstance(directory, write=lambda data: None)
        instance.node.log.level = 1
        try:
            source = DRIVER.replace("os.exit(0)", "")
            await instance.runtime.eval(source.encode(), pack([]), instance.node.new_context(), "=s")
        finally:
            await instance.stop()

    asyncio.run(main())
    return read_results(directory)


def read_results(directory: Path) -> list[str]:
    return [json.loads(line) for line in (directory / "results.txt").read_bytes().splitlines()]


@pytest.mark.parametrize("seed", range(int(os.environ.get("DATETIME_SEEDS", "2"))))
def test_statements_give_the_same(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = Statements(seed + int(os.environ.get("DATETIME_FIRST_SEED", "0"))).lines(COUNT)
    found = []
    for name in ("tarantool", "ours"):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "statements.txt").write_text("".join(f"{json.dumps(line)}\n" for line in statements))
        found.append(
            results_of_tarantool(directory) if name == "tarantool" else results_of_ours(directory, monkeypatch)
        )
    assert [len(results) for results in found] == [COUNT, COUNT]
    differing = [
        f"{statement}\n  2.11: {theirs!r}\n  ours: {ours!r}"
        for statement, theirs, ours in zip(statements, *found, strict=True)
        if theirs != ours
    ]
    assert not differing, f"{len(differing)} of {COUNT} differ\n" + "\n".join(differing[:50])
