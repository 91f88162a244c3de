"""Refuses outputs whose overwriting would delete the files of a node."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from box.errors import illegal_params
from box.spark.paths import local_path

_NODE_FILE: Final = re.compile(r"\d{20}\.(snap|xlog|vylog)")


def check_output(output: str, sources: list[str], *, overwrite: bool) -> None:
    """Check that writing a directory deletes no snapshot or log; `sources` are the directories or files being read.

    A local output is searched, so that the files of other nodes are safe, too.

    Raises:
        BoxError: ILLEGAL_PARAMS, it would, or the directory exists and `overwrite` is false, or cannot be made.
    """
    local = local_path(output)
    if local is None:
        prefix = output.rstrip("/") + "/"
        endangered = next((source for source in sources if (source.rstrip("/") + "/").startswith(prefix)), None)
    else:
        endangered = next(_node_files(local), None)
    if endangered is not None:
        raise illegal_params(f"{output} holds files of a node, such as {endangered}: write to another directory")
    if local is None:
        return
    if os.path.lexists(local) and not overwrite:
        raise illegal_params(f"path {output} already exists: take another one, or --overwrite")
    _check_place(local, output)


def _check_place(local: str, output: str) -> None:
    """Check that a path can be made: its nearest ancestor that is there is a directory in which one may write.

    Raises:
        BoxError: ILLEGAL_PARAMS, it cannot.
    """
    above = os.path.dirname(os.path.abspath(local))
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise illegal_params(f"path {output} cannot be made: {above} is no directory")
    if not os.access(above, os.W_OK | os.X_OK):
        raise illegal_params(f"path {output} cannot be made: {above} is not writable")


def check_page(path: str) -> None:
    """Check that a page does not replace a snapshot or a log, and can be written.

    Raises:
        BoxError: ILLEGAL_PARAMS, it would, or it cannot.
    """
    if _NODE_FILE.fullmatch(os.path.basename(path)):
        raise illegal_params(f"{path} is a file of a node: write to another one")
    above = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise illegal_params(f"{path} is a directory: name a file")
    if not os.path.isdir(above):
        raise illegal_params(f"{path} cannot be written: {above} is no directory")
    if not os.access(path if os.path.exists(path) else above, os.W_OK):
        raise illegal_params(f"{path} cannot be written: no permission")


def _node_files(path: str) -> Iterator[str]:
    """Yield the snapshots and logs that are `path` or lie below it. Links inside it are not followed."""
    if _NODE_FILE.fullmatch(os.path.basename(path)):
        yield path
    for directory, _, names in os.walk(path):
        yield from (os.path.join(directory, name) for name in names if _NODE_FILE.fullmatch(name))
