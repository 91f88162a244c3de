"""The options of a writer, checked and typed. Spark hands over their names in lower case.

| option | meaning | default |
|---|---|---|
| uri | address of a running node: `user:password@host:port` | this or `path` is required |
| path | directory that does not exist or is empty, for a first snapshot (bulk load) | |
| space | name; for a node also id | required |
| operation | `replace`, `insert`, `upsert` or `delete` | replace |
| operations | for upsert: the operators of columns where it is not `=`, as in `count:+, flags:\\|` | |
| json | names of text columns whose text is JSON that is stored as a value | those of array and map fields |
| batch | number of rows that may wait for an answer | 1000 |
| timeout | seconds that a task waits for a node that does not answer | 60 |
| key | bulk load: the columns of the primary key | |
| types | bulk load: types of fields that differ from the column's, as in `id:unsigned` | |
| setup | bulk load: Lua code that creates the space, in place of `key` and `types` | |
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from box.errors import illegal_params

OPERATIONS: Final = ("replace", "insert", "upsert", "delete")
_OPERATORS: Final = frozenset("=+-&|^")
_NODE: Final = frozenset({"uri", "space", "operation", "operations", "json", "batch", "timeout"})
_BULK: Final = frozenset({"path", "space", "json", "key", "types", "setup"})
_SPARK: Final = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""Options for Spark itself, which it passes on too."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The checked options, of which either `uri` or `path` is given; `operators` has the operators of an upsert by
    column."""

    uri: str | None
    path: str | None
    space: str
    operation: str
    operators: dict[str, str]
    json: frozenset[str]
    batch: int
    timeout: float
    key: tuple[str, ...]
    types: dict[str, str]
    setup: str | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> WriteOptions:
        """Check and convert options.

        Raises:
            BoxError: ILLEGAL_PARAMS, an option is unknown, missing or wrong.
        """
        values = {name.lower(): value for name, value in options.items()}
        uri, path = values.get("uri") or None, values.get("path") or None
        if bool(uri) == bool(path):
            raise illegal_params("one of the options 'uri' (a node) and 'path' (a new directory) is required")
        known = _NODE if uri else _BULK
        for name in values:
            if name not in known | _SPARK:
                raise illegal_params(f"unexpected option '{name}' of a writer into a {'node' if uri else 'directory'}")
        if not values.get("space"):
            raise illegal_params("option 'space' is required")
        operation = values.get("operation", OPERATIONS[0])
        if operation not in OPERATIONS:
            raise illegal_params(f"option 'operation' must be one of: {', '.join(OPERATIONS)}")
        operators = _pairs(values, "operations")
        if operators and operation != "upsert":
            raise illegal_params("option 'operations' is for upserts")
        for name, operator in operators.items():
            if operator not in _OPERATORS:
                raise illegal_params(f"option 'operations': '{operator}' of '{name}' is none of = + - & | ^")
        found = cls(
            uri,
            path.rstrip("/") if path else None,
            values["space"],
            operation,
            operators,
            frozenset(_names(values.get("json"))),
            int(_positive(values, "batch", 1000)),
            _positive(values, "timeout", 60),
            _names(values.get("key")),
            _pairs(values, "types"),
            values.get("setup"),
        )
        if path and bool(found.key) == bool(found.setup):
            raise illegal_params("a bulk load needs one of the options 'key' (columns of the primary key) and 'setup'")
        return found


def _names(text: str | None) -> tuple[str, ...]:
    """Return the names in a list separated by commas; a name with a comma in it has double quotes around it."""
    if not text:
        return ()
    return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), []))


def _pairs(values: Mapping[str, str], option: str) -> dict[str, str]:
    """Return the pairs in a text such as `name:value, name:value`."""
    found: dict[str, str] = {}
    for item in _names(values.get(option)):
        name, colon, value = item.rpartition(":")
        if not (colon and name and value):
            raise illegal_params(f"option '{option}' must be pairs like 'name:value', separated by commas")
        found[name] = value
    return found


def _positive(values: Mapping[str, str], name: str, default: float) -> float:
    try:
        number = float(values.get(name, default))
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9 or (name == "batch" and number != int(number)):
        raise illegal_params(f"option '{name}' must be a positive number")
    return number
