"""The options of a stream of changes, checked and typed. Spark hands over their names in lower case.

| option | meaning | default |
|---|---|---|
| path | directory with the `.xlog` files | this or `uri` is required |
| uri | address of a node, which is followed as an anonymous replica: `user:password@host:port` | |
| spaces | names or ids of the spaces whose changes are wanted, separated by commas | all but system spaces |
| system | `true`: changes of system spaces too | false |
| startingVclock | the beginning of a new query: a vclock (`{1: 100}`), `earliest`, `latest` | latest |
| maxRowsPerTrigger | approximate number of rows in a batch; transactions are not divided | all; for a node 100,000 |
| timeout | seconds that a query waits for a node that does not answer, before it fails | 60 |
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from box.errors import illegal_params
from box.wire.vclock import VClock

_KNOWN: Final = frozenset({"path", "uri", "spaces", "system", "startingvclock", "maxrowspertrigger", "timeout"})
_NODE_ROWS: Final = 100_000
"""The default number of rows in a batch from a node, limited because they pass through the memory of the driver."""
_TIMEOUT: Final = 60.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The checked options, of which either `path` or `uri` is given.

    `start` is a vclock, `earliest` or `latest`. An empty `spaces` means all spaces. `max_rows` is None without a limit.
    """

    path: str | None
    uri: str | None
    spaces: frozenset[str]
    shows_system: bool
    start: VClock | str
    max_rows: int | None
    timeout: float

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamOptions:
        """Check and convert options.

        Raises:
            BoxError: ILLEGAL_PARAMS, an option is unknown, missing or wrong.
        """
        values = {name.lower(): value for name, value in options.items()}
        if "space" in values:
            raise illegal_params("a stream has the option 'spaces' (names separated by commas), and no 'space'")
        for name in values:
            if name not in _KNOWN:
                raise illegal_params(f"unexpected option '{name}' of a stream")
        path, uri = values.get("path"), values.get("uri")
        if bool(path) == bool(uri):
            raise illegal_params("one of the options 'path' (a directory) and 'uri' (a node) is required")
        return cls(
            path.rstrip("/") or "/" if path else None,
            uri or None,
            _names(values.get("spaces")),
            _flag(values, "system"),
            _start(values.get("startingvclock", "latest")),
            _limit(values, None if path else _NODE_ROWS),
            _seconds(values),
        )


def _names(text: str | None) -> frozenset[str]:
    if text is None:
        return frozenset()
    names = frozenset(name.strip() for name in next(csv.reader([text], skipinitialspace=True), []))
    if not names or "" in names:
        raise illegal_params("option 'spaces' must be names or ids, separated by commas")
    return names


def _flag(values: Mapping[str, str], name: str) -> bool:
    value = values.get(name, "false").lower()
    if value not in ("true", "false"):
        raise illegal_params(f"option '{name}' must be true or false")
    return value == "true"


def _start(text: str) -> VClock | str:
    value = text.strip()
    if value in ("earliest", "latest"):
        return value
    try:
        return VClock.parse(value)
    except ValueError:
        raise illegal_params(
            f"startingVclock '{text}' is neither 'earliest' nor 'latest' nor a vclock like {{1: 100}}"
        ) from None


def _limit(values: Mapping[str, str], default: int | None) -> int | None:
    value = values.get("maxrowspertrigger")
    if value is None:
        return default
    if not (value.isdecimal() and int(value) > 0):
        raise illegal_params("option 'maxRowsPerTrigger' must be a positive integer")
    return int(value)


def _seconds(values: Mapping[str, str]) -> float:
    try:
        seconds = float(values.get("timeout", _TIMEOUT))
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise illegal_params("option 'timeout' must be a number of seconds")
    return seconds
