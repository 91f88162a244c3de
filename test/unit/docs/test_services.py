"""The services of the guide work as it says."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from test.unit.docs.walkthrough import ROOT

PAGE = (ROOT / "docs" / "guides" / "services.md").read_text()


def blocks() -> list[str]:
    return re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_service_of_aiohttp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that was added reaches the feed, is a conflict the next time, and is there after a restart."""
    pytest.importorskip("aiohttp")
    from aiohttp.test_utils import TestClient, TestServer

    monkeypatch.chdir(tmp_path)

    async def visit(row: dict[str, Any], status: int) -> Any:
        names: dict[str, Any] = {"__name__": "service"}
        exec(compile(blocks()[0], "service.py", "exec"), names)
        async with TestClient(TestServer(names["app"])) as client, client.get("/feed") as feed:
            answer = await client.post("/goods", json=row)
            assert answer.status == status, await answer.text()
            if status == 201:
                assert await answer.json() == row
                line = await asyncio.wait_for(feed.content.readline(), 10)
                return json.loads(line.removeprefix(b"data: "))
            return await answer.text()

    pear = {"id": 1, "name": "pear"}
    assert asyncio.run(visit(pear, 201)) == [1, "pear"]
    assert "Duplicate key exists" in asyncio.run(visit(pear, 409))


def test_the_node_of_flask_starts_at_the_first_request_of_a_fork(tmp_path: Path) -> None:
    """The node is made by the import, and started by the first request, in a process that was forked in between."""
    source = blocks()[2].replace("from flask import Flask\n", "")
    program = f"""
import os, sys
from types import SimpleNamespace
Flask = lambda name: SimpleNamespace(get=lambda path: lambda handler: handler)
{source}
for _ in range(2):
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        continue
    print(count(), flush=True)
    the_node.stop()
    os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "{'goods': 0}\n" * 2), done.stderr


def test_the_service_of_fastapi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of the page, on a stand-in for FastAPI that keeps what it is given."""
    monkeypatch.chdir(tmp_path)

    class FastAPI:
        def __init__(self, lifespan: Any) -> None:
            self.lifespan, self.state = lifespan, SimpleNamespace()

        def get(self, path: str) -> Any:
            return lambda handler: handler

    source = blocks()[1].replace("from fastapi import FastAPI\n", "")
    names: dict[str, Any] = {"FastAPI": FastAPI}
    exec(compile(source, "shop.py", "exec"), names)

    async def run() -> None:
        async with names["lifespan"](names["app"]):
            await names["app"].state.node.space.goods.insert([1, "pear"])
            assert await names["goods"](1) == {"id": 1, "name": "pear"}
            assert await names["goods"](2) is None

    asyncio.run(run())
