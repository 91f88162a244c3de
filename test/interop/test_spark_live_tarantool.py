"""The Spark source and writer, without Spark, on a running Tarantool: streams, writes, and directories made for it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from box.data.codec import pack
from box.spark.definitions import primary_key
from box.spark.node_facts import look_at
from box.spark.stream.change_rows import CHANGE_TYPES
from box.spark.stream.log_stream import DirectoryLog
from box.spark.stream.replica_stream import NodeLog
from box.spark.stream.stream_options import StreamOptions
from box.spark.write.bulk_load import begin_load, finish_load, space_setup
from box.spark.write.node_client import NodeClient
from box.spark.write.run_file import write_runs
from box.spark.write.upsert_marks import Upserts, forget_job_row, prepare_row
from box.wire.constants import RequestType
from box.wire.row import Row
from test.support import wait_until

TARANTOOL = shutil.which(os.environ.get("LUNABOX_TARANTOOL", "tarantool")) or ""

pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(not TARANTOOL, reason="Tarantool's executable is not installed"),
]

SCRIPT = """
box.cfg{log = 'tarantool.log', wal_max_size = 4096}
box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
s = box.schema.space.create('goods', {if_not_exists = true, format = {
    {'id', 'unsigned'}, {'name', 'string'}, {'d', 'double'}, {'c', 'decimal', is_nullable = true},
    {'u', 'uuid', is_nullable = true}, {'v', 'varbinary', is_nullable = true}}})
s:create_index('pk', {if_not_exists = true})
box.cfg{listen = 'unix/:./socket'}
"""
TUPLE: list[Any] = [
    1, "one", 2.0, Decimal("1.50"), UUID("64d22e4d-ac92-4a23-899a-e59f34af5479"), b"\xff\x00",
]  # fmt: skip


@contextmanager
def tarantool(directory: Path, script: str = SCRIPT) -> Iterator[str]:
    """Run Tarantool for this context, and yield its address once the space `goods` exists."""
    (directory / "script.lua").write_text(script)
    process = subprocess.Popen([TARANTOOL, "script.lua"], cwd=directory, stdin=subprocess.DEVNULL)
    try:
        wait_until((directory / "socket").exists, "Tarantool serves")
        uri = f"unix/:{directory}/socket"
        wait_until(lambda: "goods" in evaluate(uri, "return box.space.goods and 'goods' or ''"), "the space is made")
        yield uri
    finally:
        process.kill()
        process.wait()


def evaluate(uri: str, text: str) -> list[Any]:
    """Evaluate Lua over the binary protocol and return the list of its results."""
    body = b"\x82\x27" + pack(text) + b"\x21\x90"  # {EXPR: text, TUPLE: []}
    found: list[Any] = ask(uri, Row(RequestType.EVAL, body=body))
    return found


def ask(uri: str, row: Row) -> Any:
    async def run() -> Any:
        client = NodeClient(uri, 10, 20)
        try:
            return await client.call(row)
        finally:
            client.close()

    return asyncio.run(run())


def follow(log: NodeLog | DirectoryLog, since: Any, count: int) -> tuple[list[dict[str, Any]], Any]:
    """Read at least `count` changes after the offset `since`; return them and the offset after the last."""
    found: list[dict[str, Any]] = []

    def has_enough() -> bool:
        nonlocal since
        until = log.next(since, None)
        if until != since:
            options = StreamOptions.of({"path": "unused", "spaces": "goods"})
            for part in log.parts(since, until):
                for batch in part.read(options, list(CHANGE_TYPES)):
                    found.extend(batch.to_pylist())
        since = until
        return len(found) >= count

    wait_until(has_enough, f"{count} changes")
    return found, since


def test_tarantool_is_followed_through_its_restart(tmp_path: Path) -> None:
    log, since, found = None, None, []
    for number in range(2):
        with tarantool(tmp_path) as uri:
            log = log or NodeLog(uri, 20.0)
            since = since or log.begin("latest")
            evaluate(uri, f"for i = 1, 50 do s:insert{{{number} * 50 + i, 'x', 0.5}} end")
            evaluate(
                uri,
                f"n = {number} * 50 + 1 box.begin() s:update(n, {{{{'=', 2, 'y'}}}}) s:delete(n + 1) box.commit()",
            )
            more, since = follow(log, since, 52)
            found += more
    assert log is not None
    log.close()
    inserts = [change["key"] for change in found if change["operation"] == "insert"]
    assert inserts == [f"[{number}]" for number in range(1, 101)]
    assert [change["operation"] for change in found if change["operation"] != "insert"] == ["update", "delete"] * 2
    files = DirectoryLog(str(tmp_path))
    again, _ = follow(files, files.begin("earliest"), 104)
    assert again == found


def test_rows_of_every_type_are_written_into_tarantool(tmp_path: Path) -> None:
    async def write(uri: str, operation: str, tuples: list[list[Any]]) -> int:
        space = (await look_at(uri, 10)).definitions.space("goods")
        client = NodeClient(uri, 100, 20)
        try:
            return await client.write(operation, space.id, primary_key(space), iter([pack(item) for item in tuples]))
        finally:
            client.close()

    with tarantool(tmp_path) as uri:
        tuples = [[number, *TUPLE[1:]] for number in range(1000)]
        assert asyncio.run(write(uri, "insert", tuples)) == 1000
        assert asyncio.run(write(uri, "insert", tuples)) == 1000
        assert asyncio.run(write(uri, "delete", [[number] for number in range(2, 1000)])) == 998
        space = asyncio.run(look_at(uri, 10)).definitions.space("goods")
        body = b"\x84\x10" + pack(space.id) + b"\x12\x0a\x14\x02\x20\x90"
        assert ask(uri, Row(RequestType.SELECT, body=body)) == tuples[:2]


def test_upserts_into_tarantool_count_once(tmp_path: Path) -> None:
    script = SCRIPT.replace(", {'v', 'varbinary', is_nullable = true}", "")
    with tarantool(tmp_path, script) as uri:
        space = asyncio.run(look_at(uri, 10)).definitions.space("goods")
        upserts = Upserts(space, [(0, "id"), (1, "name"), (2, "d")], {"d": "+"})
        ask(uri, prepare_row())
        for _ in range(3):
            for _, row in upserts.rows("job", 0, iter([[1, "x", 1.0], [1, "x", 1.0], [2, "y", 3.0]]), 2):
                ask(uri, row)
        assert evaluate(uri, "return s:get(1).d, s:get(2).d, box.space.lunabox_writes:len()") == [2.0, 3.0, 3]
        ask(uri, forget_job_row("job"))
        assert evaluate(uri, "return box.space.lunabox_writes:len()") == [0]


def test_tarantool_starts_from_a_loaded_directory(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    fields = [("id", "unsigned", False), ("name", "string", True), ("d", "double", True)]
    space = begin_load(str(directory), "goods", space_setup("goods", fields, ["id"]))
    rows = [[number, f"name {number}", number + 0.5] for number in range(3000)]
    runs = write_runs(space, map(pack, rows), str(directory / ".load"))
    finish_load(str(directory), space, runs)
    script = "box.cfg{log = 'tarantool.log'} s = box.space.goods"
    script += " box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})"
    script += " box.cfg{listen = 'unix/:./socket'}"
    with tarantool(directory, script) as uri:
        assert evaluate(uri, "s:insert{3000, 'more', 1.5} return s:len(), s:get(2999).name") == [3001, "name 2999"]
