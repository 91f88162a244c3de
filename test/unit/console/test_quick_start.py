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
