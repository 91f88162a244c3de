"""Valid and invalid JOIN, FETCH_SNAPSHOT, REGISTER and SUBSCRIBE get equal answers from Lunabox and Tarantool."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from box.data.codec import pack
from box.errors import ErrorCode
from box.net.framing import RowBuffer
from box.wire.auth import encode_auth
from box.wire.constants import GREETING_SIZE, TYPE_ERROR, Key, RequestType
from box.wire.error import decode_error_body
from box.wire.greeting import decode_greeting
from box.wire.row import Row, decode_row, encode_packet
from test.support import until, wait_until

pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(shutil.which("tarantool") is None, reason="Tarantool `tarantool` is not installed"),
]

INSTANCE, REPLICASET, MEMBER, STRANGER = (str(UUID(int=(4 << 76) + (8 << 60) + number)) for number in range(1, 5))
SCRIPT = f"""
box.cfg{{
    listen = 'unix/:./socket', log = 'log.txt', instance_uuid = '{INSTANCE}', replicaset_uuid = '{REPLICASET}',
    memtx_memory = 32 * 1024 * 1024, replication_timeout = 0.2, wal_mode = '%s',
}}
box.schema.user.create('reader', {{password = 'x'}})
box.schema.user.grant('reader', 'read', 'universe')
box.schema.user.create('replica', {{password = 'x'}})
box.schema.user.grant('replica', 'replication')
box.space._cluster:insert{{2, '{MEMBER}'}}
"""
PING = encode_packet(Row(RequestType.PING, sync=99))

BODIES: dict[str, dict[int, Any]] = {
    "stranger": {Key.INSTANCE_UUID: STRANGER},
    "member": {Key.INSTANCE_UUID: MEMBER},
    "itself": {Key.INSTANCE_UUID: INSTANCE},
    "nobody": {},
    "no uuid": {Key.INSTANCE_UUID: "x"},
    "positions": {Key.INSTANCE_UUID: MEMBER, Key.VCLOCK: {1: 100}},
    "wrong vclock": {Key.INSTANCE_UUID: MEMBER, Key.VCLOCK: {"a": 1}},
    "anonymous": {Key.INSTANCE_UUID: STRANGER, Key.REPLICA_ANON: True, Key.VCLOCK: {1: 1000}},
    "anonymous member": {Key.INSTANCE_UUID: MEMBER, Key.REPLICA_ANON: True},
    "wrong flag": {Key.INSTANCE_UUID: MEMBER, Key.REPLICA_ANON: 1},
    "wrong filter": {Key.INSTANCE_UUID: MEMBER, Key.ID_FILTER: [32]},
}
REGISTERING = (RequestType.JOIN, RequestType.REGISTER)
KINDS = (RequestType.JOIN, RequestType.FETCH_SNAPSHOT, RequestType.REGISTER, RequestType.SUBSCRIBE)
CASES = [
    (user, kind, name)
    for user in ("guest", "reader", "replica")
    for kind in KINDS
    for name in BODIES
    if not (kind == RequestType.SUBSCRIBE and name == "anonymous member")  # the installed version takes it
    if not (user == "replica" and kind in REGISTERING and BODIES[name].get(Key.INSTANCE_UUID, STRANGER) == STRANGER)
]


@contextmanager
def instance(command: str, directory: Path, wal_mode: str) -> Iterator[str]:
    """Run an instance for this context, and yield the path of its socket."""
    directory.mkdir()
    (directory / "script.lua").write_text(SCRIPT % wal_mode)
    process = subprocess.Popen(
        [command, "script.lua"], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=-1
    )
    try:
        wait_until(lambda: process.poll() is not None or _is_set_up(directory), "the instance")
        assert process.poll() is None, process.communicate()[1]
        yield str(directory / "socket")
    finally:
        process.kill()
        process.communicate()


def _log(directory: Path) -> str:
    path = directory / "log.txt"
    return path.read_text() if path.exists() else ""


def _is_set_up(directory: Path) -> bool:
    log = _log(directory)
    return "ready to accept requests" in log and f"assigned id 2 to replica {MEMBER}" in log


async def answer(path: str, user: str, kind: RequestType, body: dict[int, Any]) -> list[Any]:
    """Repeat `answers` until the instance has noticed that the connection of the previous subscription is closed."""
    found: list[Any] = []

    async def is_answered() -> bool:
        found[:] = await answers(path, user, kind, body)
        return not any("duplicate connection" in str(part) for part in found)

    await until(is_answered)
    return found


async def answers(path: str, user: str, kind: RequestType, body: dict[int, Any]) -> list[Any]:
    """Send a request and return a summary of what arrives, up to the reply to a PING after it or the end."""
    reader, writer = await asyncio.open_unix_connection(path)
    greeting = decode_greeting(await reader.readexactly(GREETING_SIZE))
    if user != "guest":
        # Await the reply: Tarantool's threads may write it after the answer to the next request.
        writer.write(encode_packet(Row(RequestType.AUTH, sync=1, body=encode_auth(user, "x", greeting.salt))))
        length = int.from_bytes((await reader.readexactly(5))[1:], "big")
        reply = decode_row(await reader.readexactly(length))
        assert reply.type == RequestType.OK, decode_error_body(reply.type, reply.body)
    raw = pack({int(key): value for key, value in body.items()})
    # No PING after SUBSCRIBE: the relay would take it for an acknowledgement.
    writer.write(encode_packet(Row(kind, sync=7, body=raw)) + (b"" if kind == RequestType.SUBSCRIBE else PING))
    found: list[Any] = []
    buffer = RowBuffer()
    try:
        async with asyncio.timeout(10):
            while "pong" not in found and "heartbeat" not in found:
                data = await reader.read(65536)
                if not data:
                    return [*found, "end"]
                buffer.add(data)
                _sum_up(buffer, found)
    finally:
        writer.close()
    return found


def _sum_up(buffer: RowBuffer, found: list[Any]) -> None:
    rows = deque[Row]()
    buffer.take_rows(rows)
    for row in rows:
        if row.sync == 99:
            found.append("pong")
        elif row.type & TYPE_ERROR:
            error = decode_error_body(row.type, row.body)
            if error.code in (ErrorCode.UNKNOWN_REPLICA, ErrorCode.TOO_EARLY_SUBSCRIBE):
                found.append("not registered")  # the text has changed in 2.7
            else:
                found.append((row.sync, error.code, error.message))
        elif row.type != RequestType.OK:
            if "rows" not in found[-1:]:
                found.append("rows")
        else:
            found.append((row.sync, "OK") if row.body else "heartbeat")


@pytest.mark.parametrize("wal_mode", ["write", "none"])
def test_the_same_answers(tmp_path: Path, wal_mode: str) -> None:
    """Lunabox and Tarantool answer each request with the same error or rows, and close the same connections."""
    ours = str(Path(sys.executable).with_name("lunabox"))
    different = []
    with (
        instance(ours, tmp_path / "ours", wal_mode) as here,
        instance("tarantool", tmp_path / "theirs", wal_mode) as there,
    ):
        for user, kind, name in CASES:
            mine, theirs = (asyncio.run(answer(path, user, kind, BODIES[name])) for path in (here, there))
            if kind == RequestType.SUBSCRIBE:  # a heartbeat or a row may come first, as Tarantool's threads run
                mine, theirs = ([part for part in parts if part != "rows"] for parts in (mine, theirs))
            if mine != theirs:
                different.append((user, kind.name, name, mine, theirs))
    assert not different, "\n".join(map(str, different))
