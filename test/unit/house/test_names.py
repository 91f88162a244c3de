"""Names of classes, Python modules and Lua modules are unique."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from test.unit.house.source import PACKAGES, ROOT, modules

SAME_NAME = {
    "`schema/ddl/` holds the triggers on what the module above describes": {
        "box/schema/ddl/access.py",
        "box/schema/ddl/collation.py",
        "box/schema/ddl/function.py",
        "box/schema/ddl/sequence.py",
        "box/schema/ddl/space.py",
    },
    "a directory of Lua modules is their public name: box.schema.index is not box.index": {
        "lua/modules/box/error.lua",
        "lua/modules/box/schema/index.lua",
        "lua/modules/box/schema/space.lua",
        "lua/modules/box/tuple.lua",
        "lua/modules/internal/msgpack.lua",
        "lua/modules/net/box.lua",
        "lua/modules/net/box/schema.lua",
    },
    "the binary protocol and the console's text protocol each have a server": {"lua/text_console/server.py"},
    "the suite runner has sessions of its own": {"console/suite/session.py"},
    "`lunabox` finds the module of a command by the name of the command": {"console/commands/sql.py"},
    "each command has a command line": {"console/suite/cli.py"},
    "the journal writes snapshots, the exporter reads them in parallel": {"box/spark/snapshot.py"},
    "files are stored by the journal, tuples by transactions": {"box/txn/storage.py"},
    "a node is served by the sockets of its network, Lua modules use those of its machine": {"lua/machine/sockets.py"},
}
"""Files that share a name with another one, by the reason why each keeps it."""

SAME_CLASS = {"PEP 249 and the errors of the node both have one": {"DataError"}}
"""Classes that share a name with another class, by the reason why they may."""

BINDINGS = "lua/bindings"
"""The directory whose files are named after the Lua modules that they are the Python half of."""

VAGUE = re.compile(r"(apply|common|helpers?|manager|misc|mod_.*|service|tools?|utils?)$")
"""Names of modules that do not say what is inside."""


def _files() -> list[Path]:
    """Return the product's files, relative to the repository; an `__init__.py` has the name of its directory."""
    found = (file for package in PACKAGES for file in (ROOT / package).rglob("*") if file.suffix in (".py", ".lua"))
    return sorted(file.relative_to(ROOT) for file in found if file.name != "__init__.py")


def test_no_two_classes_share_a_name() -> None:
    places = defaultdict(list)
    for module in modules().values():
        for definition in module.classes():
            places[definition.name].append(f"{module.path}:{definition.lineno}")
    listed = set().union(*SAME_CLASS.values())
    shared = [f"{name}: {', '.join(lines)}" for name, lines in places.items() if len(lines) > 1 and name not in listed]
    assert not shared, "\n".join(shared)


def test_modules_that_share_a_name_have_a_reason() -> None:
    places = defaultdict(list)
    for file in _files():
        if str(file.parent) != BINDINGS:
            places[file.name].append(str(file))
    listed = set().union(*SAME_NAME.values())
    shared = {path for paths in places.values() if len(paths) > 1 for path in paths}
    new = [paths for paths in places.values() if len(set(paths) - listed) > 1]
    assert not new, f"one name, and no reason in SAME_NAME: {new}"
    assert listed <= shared, f"alone with their names; take them out of SAME_NAME: {sorted(listed - shared)}"


def test_names_of_modules_tell_what_is_inside() -> None:
    vague = [str(file) for file in _files() if VAGUE.match(file.stem)]
    assert not vague, f"nobody can tell what is inside: {vague}"
