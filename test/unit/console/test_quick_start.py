"""The command's quicker imports are the packages' own code, with the same sizes of nodes."""

from __future__ import annotations

import json
import subprocess
import sys

LOOK = """
import json, sys
if sys.argv[1] == "quick":
    from console import quick_start
    quick_start.prepare()
from BTrees.OOBTree import OOBTree, OOBucket
from BTrees.QOBTree import QOBTree, QOBucket
from crc32c import crc32c
tree = QOBTree({number: number for number in range(1000)})
print(json.dumps([
    OOBTree.max_leaf_size, OOBTree.max_internal_size, QOBTree.max_leaf_size, QOBTree.max_internal_size,
    list(tree.keys(500, 510)), crc32c(b"abc"), [kind.__module__ for kind in (OOBTree, OOBucket, QOBTree, QOBucket)],
]))
"""


def look(way: str) -> object:
    done = subprocess.run([sys.executable, "-c", LOOK, way], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_quick_imports_are_like_the_usual_ones() -> None:
    assert look("quick") == look("usual")


RECORDS = """
import copy, json, pickle, sys
if sys.argv[1] == "quick":
    from console import quick_start
    quick_start.prepare()
from dataclasses import FrozenInstanceError, asdict, dataclass, field, replace

@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    names: list[str] = field(default_factory=list, compare=False)

@dataclass
class Base:
    a: int

    def __post_init__(self):
        self.a += 1

@dataclass
class Derived(Base):
    b: str = "b"

def frozen():
    try:
        Point(1).x = 3
    except FrozenInstanceError as error:
        return str(error)

def refused():
    try:
        Point(1, 2, 3, 4, 5)
    except TypeError as error:
        return str(error)

base = Derived(1)
print(json.dumps([
    repr(Point(1)), Point(1) == Point(1, 2, ["a"]), Point(1) == Point(2), hash(Point(1)) == hash(Point(1)),
    frozen(), refused(), repr(replace(Point(1), y=5)), asdict(Point(1)), repr(copy.copy(Point(4))), repr(base),
    repr(Base(5)), base == Derived(1), repr(pickle.loads(pickle.dumps(Point(7)))), Point.__init__.__qualname__,
]))
"""


def test_methods_that_are_compiled_late_are_the_same() -> None:
    def run(way: str) -> object:
        done = subprocess.run(
            [sys.executable, "-c", RECORDS, way], capture_output=True, text=True, timeout=60, check=True
        )
        return json.loads(done.stdout)

    assert run("quick") == run("usual")


LOOPS = """
import json, sys
from console import quick_start
quick_start.prepare()
import asyncio, uvloop

async def talk():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    data = await reader.read()
    writer.close()
    server.close()
    return data == b""

found = "ssl" in sys.modules, uvloop.run(talk())
import ssl
print(json.dumps([*found, hasattr(ssl.create_default_context(), "check_hostname")]))
"""


def test_loops_without_tls_work_and_tls_can_be_had() -> None:
    done = subprocess.run([sys.executable, "-c", LOOPS], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [False, True, True]
