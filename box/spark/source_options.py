"""The options of the data source, checked and typed. Spark hands over their names in lower case.

| option | meaning | default |
|---|---|---|
| path | directory with snapshots, or one `.snap` file; a glob or a URL of fsspec; several by `load([...])` | required |
| space | name or id | required |
| as_of | the moment of the table, from a snapshot and the log: see `moments` | the newest snapshot alone |
| log | directory of the log files, for `as_of` | the snapshot's |
| columns | names of the columns to read, separated by commas; empty for none | all |
| partitions | approximate number of parts in which the files are read | one for 8 MiB, at least 4 |
| unsigned | `long` or `decimal`: column type of unsigned and integer fields | long |
| decimal | precision and scale of decimal columns, as in `20,2` | 38,18 |
| any_as, array_as, map_as | `json`, `binary` (MessagePack) or a Spark type: for any and scalar, array, map | json |
| misfits | `fail`, or `null` for values that do not fit their column; the executor's log has their number | fail |
| rejects | name of a column with the misfits of a row as JSON; the values become null | none |
| rest | name of a column for fields that the format does not name | none: they are left out |
| instance | name of a column with the UUID of the instance that wrote the file | `instance` for several paths |
| onCorrupt | what a damaged block does: `fail` raises an error, `skip` leaves the block out | fail |
| decoder | `compiled` (needs numba), `python`, or `auto` | auto |
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from box.errors import BoxError, illegal_params
from box.spark.columns import ColumnChoice
from box.spark.decoder import DECODERS
from box.spark.moments import Moment
from box.spark.paths import is_glob

_KNOWN: Final = frozenset(
    {
        "path",
        "paths",
        "space",
        "as_of",
        "log",
        "columns",
        "partitions",
        "unsigned",
        "rest",
        "decimal",
        "any_as",
        "array_as",
        "map_as",
        "misfits",
        "rejects",
        "instance",
        "oncorrupt",
        "decoder",
    }
)
_TYPE: Final = re.compile(
    r"(array|bigint|binary|boolean|byte|char|character|date|dec|decimal|double|float|int|integer|interval|long|map|numeric"
    r"|real|short|smallint|string|struct|time|timestamp|timestamp_ltz|timestamp_ntz|tinyint|varchar|variant)\b",
    re.IGNORECASE,
)
"""Matches the first word of a type of Spark's SQL."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The checked options; `paths` may contain globs, and `columns` is None for all columns."""

    paths: tuple[str, ...]
    space: str
    as_of: Moment | None
    log: str | None
    columns: tuple[str, ...] | None
    partitions: int | None
    columns_as: ColumnChoice
    instance: str | None
    skips_corrupt: bool
    decoder: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """Check and convert options.

        Raises:
            BoxError: ILLEGAL_PARAMS, an option is unknown, missing or wrong.
        """
        values = {name.lower(): value for name, value in options.items()}
        for name in values:
            if name not in _KNOWN:
                raise illegal_params(f"unexpected option '{name}'")
        paths = _paths(values)
        if not values.get("space"):
            raise illegal_params("option 'space' is required")
        instance = values.get("instance")
        if instance is None and (len(paths) > 1 or is_glob(paths[0])):
            instance = "instance"
        return cls(
            paths,
            values["space"],
            Moment.parse(values["as_of"]) if "as_of" in values else None,
            values.get("log"),
            _names(values.get("columns")),
            _positive(values, "partitions"),
            _columns_as(values),
            instance,
            _one_of(values, "oncorrupt", "fail", "skip") == "skip",
            _one_of(values, "decoder", *DECODERS),
        )


def _columns_as(values: Mapping[str, str]) -> ColumnChoice:
    precision, scale = _decimal(values.get("decimal", "38,18"))
    any_as, array_as, map_as = (_form(values, name) for name in ("any_as", "array_as", "map_as"))
    misfits = _one_of(values, "misfits", "fail", "null")
    rejects = values.get("rejects")
    if rejects is not None and values.get("misfits") == "fail":
        raise illegal_params("option 'rejects' goes with 'misfits' null")
    return ColumnChoice(
        _one_of(values, "unsigned", "long", "decimal"),
        precision,
        scale,
        any_as,
        array_as,
        map_as,
        rest=values.get("rest"),
        rejects=rejects,
        misfits_are_null=misfits == "null" or rejects is not None,
    )


def _form(values: Mapping[str, str], name: str) -> str:
    """Return the form of a mixed column: `json`, `binary` or a type, of which only the first word is checked here."""
    form = values.get(name, "json").strip() or "json"
    if form != "json" and not _TYPE.match(form):
        raise illegal_params(f"option '{name}' must be json, binary or a type of Spark's SQL, not '{form}'")
    return form


def _decimal(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"\s*(\d{1,2})\s*,\s*(\d{1,2})\s*", text)
    precision, scale = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 0 < precision <= 38 or scale > precision:
        raise illegal_params("option 'decimal' must be precision and scale, as in 20,2: at most 38 digits")
    return precision, scale


def _paths(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths; Spark passes several paths as a JSON array named `paths`."""
    if "paths" in values:
        try:
            paths = json.loads(values["paths"])
        except ValueError:
            paths = None
        if not isinstance(paths, list) or not paths or not all(isinstance(path, str) and path for path in paths):
            raise illegal_params("option 'paths' must be a JSON array of paths")
        return tuple(paths)
    if not values.get("path"):
        raise illegal_params("option 'path' is required")
    return (values["path"],)


def _names(text: str | None) -> tuple[str, ...] | None:
    """Return the names in a list separated by commas; a name with a comma in it has double quotes around it."""
    if text is None:
        return None
    names = next(csv.reader([text], skipinitialspace=True), [])
    return tuple(name.strip() for name in names)


def _positive(values: Mapping[str, str], name: str) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    if not (value.isdecimal() and int(value) > 0):
        raise illegal_params(f"option '{name}' must be a positive integer")
    return int(value)


def _one_of(values: Mapping[str, str], name: str, *allowed: str) -> str:
    value = values.get(name, allowed[0])
    if value not in allowed:
        raise illegal_params(f"option '{name}' must be one of: {', '.join(allowed)}")
    return value


def prefixed(error: BoxError) -> BoxError:
    """Return an error with `box: ` before its text and, for a socket, the operating system's reason after it.

    Spark shows only the text of an exception, so this is the only place for a reason such as `Connection refused`.
    """
    reason = os.strerror(error.errno) if error.type == "SocketError" and error.errno else ""
    behind = f": {reason}" if reason and reason not in error.message else ""
    return BoxError(error.code, f"box: {error.message}{behind}", type=error.type, errno=error.errno)
