"""Generated statements of the Lua module `datetime` give equal results on Lunabox and Tarantool 2.11.

`LUNABOX_TARANTOOL_211` names the executable. The campaign `datetimes` of `make soak` runs 20,000 statements.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from contextlib import chdir
from pathlib import Path

import pytest

from box.data.codec import pack
from box.embed import LuaInstance
from test.interop.datetime_statements import DRIVER, Statements

TARANTOOL = os.environ.get("LUNABOX_TARANTOOL_211", "")
COUNT = 500
"""The number of statements of a seed."""

pytestmark = pytest.mark.skipif(not TARANTOOL, reason="LUNABOX_TARANTOOL_211 does not name a 2.11")


def results_of_tarantool(directory: Path) -> list[str]:
    (directory / "driver.lua").write_text(DRIVER)
    subprocess.run([TARANTOOL, "driver.lua"], cwd=directory, check=True, timeout=300)
    return read_results(directory)


def results_of_ours(directory: Path) -> list[str]:
    async def main() -> None:
        instance = LuaInstance(directory, write=lambda data: None)
        instance.node.log.level = 1
        try:
            source = DRIVER.replace("os.exit(0)", "")
            await instance.runtime.eval(source.encode(), pack([]), instance.node.new_context(), "=s")
        finally:
            await instance.stop()

    with chdir(directory):
        asyncio.run(main())
    return read_results(directory)


def read_results(directory: Path) -> list[str]:
    return [json.loads(line) for line in (directory / "results.txt").read_bytes().splitlines()]


def differences(seed: int, count: int, directory: Path) -> list[str]:
    """Run the statements of a seed on both. Returns a text for each whose results differ.

    Raises:
        AssertionError: one of them has run fewer statements.
    """
    statements = Statements(seed).lines(count)
    found = []
    for run in (results_of_tarantool, results_of_ours):
        place = directory / run.__name__
        place.mkdir()
        (place / "statements.txt").write_text("".join(f"{json.dumps(line)}\n" for line in statements))
        found.append(run(place))
    assert [len(results) for results in found] == [count, count]
    return [
        f"{statement}\n  2.11: {theirs!r}\n  ours: {ours!r}"
        for statement, theirs, ours in zip(statements, *found, strict=True)
        if theirs != ours
    ]


@pytest.mark.parametrize("seed", range(2))
def test_statements_give_the_same(seed: int, tmp_path: Path) -> None:
    differing = differences(seed, COUNT, tmp_path)
    assert not differing, f"{len(differing)} of {COUNT} differ\n" + "\n".join(differing[:50])
