"""A journal whose process is killed has every row that it acknowledged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from box.journal import FileStorage

from .helpers import recover

WRITER = textwrap.dedent(
    """
    import asyncio, os, sys
    from uuid import UUID
    import msgpack
    from box.wire.row import Row
    from box.journal import FileStorage, Journal, JournalEntry
    from box.wire.vclock import VClock

    async def main(directory, mode, inline):
        loop = asyncio.get_running_loop()
        journal = Journal(loop, FileStorage(directory), wal_mode=mode, wal_max_size=20000, inline_limit=inline)
        journal.start(VClock(), UUID(int=1))
        journal.instance_id = 1
        keys = iter(range(1, 10**9))

        def submit(entry=None):
            if entry is not None:
                assert entry.error is None
                os.write(1, b"%d\\n" % msgpack.unpackb(entry.rows[-1].body, strict_map_key=False)[0x21][0])
            rows = [Row(3, body=msgpack.packb({0x10: 512, 0x21: [next(keys), "x" * 40]})) for _ in range(2)]
            journal.submit(JournalEntry(rows, submit))

        for _ in range(10):
            submit()
        await asyncio.Event().wait()

    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    """
)


@pytest.mark.parametrize(("mode", "inline"), [("write", 0), ("write", 100), ("fsync", 0)])
def test_acknowledged_rows_survive_kill(tmp_path: Path, mode: str, inline: int) -> None:
    """After `kill -9` the log has a prefix of what was submitted, with everything that was acknowledged."""
    command = [sys.executable, "-c", WRITER, str(tmp_path), mode, str(inline)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=os.getcwd()) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(400)]
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().splitlines(keepends=True)
    acknowledged += [int(line) for line in rest if line.endswith(b"\n")]
    keys, vclock = recover(FileStorage(str(tmp_path)))
    assert acknowledged == list(range(2, 2 * len(acknowledged) + 2, 2))
    assert keys == list(range(1, len(keys) + 1))
    assert keys[-1] >= acknowledged[-1]
    assert len(keys) % 2 == 0
    assert vclock == {1: len(keys)}
