"""Creates a new directory with one snapshot from sorted runs; Lunabox or Tarantool can start from it.

A Lunabox node bootstraps in a directory below it (`.load`), creates the space there, and leaves a snapshot with the
definitions. The last step copies this snapshot with the tuples added. The new file gets its final name when it is
complete.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from box.data.codec import unpack
from box.errors import BoxError, ErrorCode, illegal_params
from box.journal.snapshot import SnapshotReader, SnapshotSpace, SnapshotWriter
from box.journal.storage import FileStorage
from box.spark.definitions import SPACE_ID, SpaceInfo, primary_key
from box.spark.paths import newest_snapshot
from box.spark.snapshot import find_space
from box.spark.write.run_file import SortedRun, merged
from box.wire.tuple_run import TupleRun

LOAD: Final = ".load"
"""The directory, below the target, for files that are not complete yet."""

_SETUP_SECONDS: Final = 120
"""Seconds within which the node has to create the space."""
_BOOTSTRAP: Final = """
box.cfg{log = 'setup.log'}
local setup = io.open('setup.lua'):read('*a')
local ok, problem = pcall(assert(loadstring(setup, '=setup')))
if ok then ok, problem = pcall(box.snapshot) end
if not ok then io.stderr:write('setup: ' .. tostring(problem) .. '\\n') end
os.exit(ok and 0 or 1)
"""
"""The script of the node that creates the space."""


def space_setup(space: str, fields: Sequence[tuple[str, str, bool]], key: Sequence[str]) -> str:
    """Return Lua code that creates a space with fields (name, type, nullable or not) and a primary key.

    Raises:
        BoxError: ILLEGAL_PARAMS, a column of the key does not exist.
    """
    types = {name: kind for name, kind, _ in fields}
    names = list(types)
    for name in key:
        if name not in names:
            raise illegal_params(f"option 'key': the frame has no column '{name}'")
    quoted = ", ".join(
        f"{{name = {_lua_text(name)}, type = {_lua_text(kind)}, is_nullable = {str(null and name not in key).lower()}}}"
        for name, kind, null in fields
    )
    parts = ", ".join(f"{{{names.index(name) + 1}, {_lua_text(types[name])}}}" for name in key)
    return (
        f"local s = box.schema.space.create({_lua_text(space)}, {{format = {{{quoted}}}}})\n"
        f"s:create_index('pk', {{parts = {{{parts}}}}})\n"
    )


def _lua_text(text: str) -> str:
    """Return a string literal of Lua, in which bytes other than ASCII letters and digits are escaped."""
    plain = "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\{byte:03d}" for byte in text.encode())
    return f"'{plain}'"


def begin_load(directory: str, space: str, setup: str) -> SpaceInfo:
    """Create the definitions in the directory; return the space.

    Raises:
        BoxError: ILLEGAL_PARAMS, the directory is not empty, or the setup fails; NO_SUCH_SPACE, the setup does not
            create the space.
    """
    if os.path.isdir(directory) and os.listdir(directory):
        raise illegal_params(f"{directory} is not empty: a bulk load makes a new directory")
    place = os.path.join(directory, LOAD)
    os.makedirs(place)
    for name, text in (("setup.lua", setup), ("bootstrap.lua", _BOOTSTRAP)):
        with open(os.path.join(place, name), "w", encoding="utf-8") as file:
            file.write(text)
    command = [sys.executable, "-m", "console", "bootstrap.lua"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, timeout=_SETUP_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode:
            raise illegal_params(f"the space cannot be made: {done.stderr.strip() or done.stdout.strip()}")
        found = find_space(newest_snapshot(place), space)
        primary_key(found)
    except BaseException:
        drop_load(directory)
        raise
    return found


def drop_load(directory: str) -> None:
    """Remove the files of an unfinished load, and the directory if it is empty then."""
    shutil.rmtree(os.path.join(directory, LOAD), ignore_errors=True)
    if os.path.isdir(directory) and not os.listdir(directory):
        os.rmdir(directory)


class _Tuples:
    """Tuples that a snapshot writer fetches in slices."""

    def __init__(self, tuples: Iterator[bytes]) -> None:
        self._tuples = tuples

    def fetch(self, limit: int) -> list[bytes]:
        """Return the next tuples, [] at the end."""
        return list(islice(self._tuples, limit))


def finish_load(directory: str, space: SpaceInfo, runs: Sequence[SortedRun]) -> str:
    """Write the snapshot; return its path.

    Raises:
        BoxError: TUPLE_FOUND, two tuples have the same key.
    """
    storage = FileStorage()
    tuples = merged(runs, primary_key(space), space.name)
    with SnapshotReader(storage, newest_snapshot(os.path.join(directory, LOAD))) as reader:
        system, trailer = _content(reader)
        groups = _groups_of(system)
        spaces = [SnapshotSpace(run.space_id, run.tuples, groups.get(run.space_id, 0)) for run in system]
        place = sum(item.space_id < space.id for item in spaces)
        spaces.insert(place, SnapshotSpace(space.id, _Tuples(tuples), groups.get(space.id, 0)))
        writer = SnapshotWriter(storage, directory, reader.meta.vclock, reader.meta.instance_uuid)
        try:
            writer.write(spaces, trailer)
            writer.commit()
        except BaseException:
            writer.abort()
            raise
    drop_load(directory)
    return writer.path


def _content(reader: SnapshotReader) -> tuple[list[TupleRun], list[Any]]:
    runs: list[TupleRun] = []
    others: list[Any] = []
    for block_runs, rows in reader.tuples():
        others += rows
        for run in block_runs:
            if runs and runs[-1].space_id == run.space_id:
                runs[-1].tuples.extend(run.tuples)
            else:
                runs.append(run)
    return runs, others


def _groups_of(system: Sequence[TupleRun]) -> dict[int, int]:
    """Return the group ids of the spaces that have one, which are the local spaces."""
    rows = [unpack(raw) for run in system if run.space_id == SPACE_ID for raw in run.tuples]
    return {row[0]: int(row[5]["group_id"]) for row in rows if isinstance(row[5], dict) and row[5].get("group_id")}


def check_is_local(directory: str) -> None:
    """Check that the directory is local, because a node can start only from such a directory.

    Raises:
        BoxError: ILLEGAL_PARAMS, it is a URL.
    """
    if "://" in directory:
        raise BoxError(ErrorCode.ILLEGAL_PARAMS, f"'{directory}': a bulk load writes into a directory of this machine")
