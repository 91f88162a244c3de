"""The value of `box.cfg.log`: where the log goes.

```
path, file:path                a file
|command, pipe:command         the standard input of a shell command
syslog:option=value,...        server=unix:path or host[:port], identity=name, facility=name
```

Source: `say.c` of the 2.8 line.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from box.errors import BoxError, ErrorCode, client_error

FACILITIES: Final = (
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv", "ftp", "ntp",
    "audit", "alert", "cron", *(f"local{number}" for number in range(8)),
)  # fmt: skip
"""The facilities of syslog; the index of each is its number."""


_KINDS: Final = "expecting a file name or a prefix, such as '|', 'pipe:', 'syslog:'"
SYSLOG_PORT: Final = "512"


class Destination(Enum):
    """The kinds of destinations."""

    STDERR = auto()
    FILE = auto()
    PIPE = auto()
    SYSLOG = auto()


class SyslogOptions(NamedTuple):
    """Where syslog listens and how lines are marked: `unix_path`, or `host` with a port; neither of them for the
    system's own socket.
    """

    unix_path: str | None = None
    host: str | None = None
    port: str = SYSLOG_PORT
    identity: str = "tarantool"
    facility: str = "local7"


def split(target: str | None) -> tuple[Destination, str]:
    """Return the kind of a destination and the text after its prefix. Raises CFG for an unknown prefix."""
    if not target:
        return Destination.STDERR, ""
    if target.startswith("|"):
        return Destination.PIPE, target[1:].strip()
    prefix, colon, rest = target.partition(":")
    if not colon:
        return Destination.FILE, target
    match prefix:
        case "file":
            return Destination.FILE, rest or target
        case "pipe":
            return Destination.PIPE, rest.strip()
        case "syslog":
            return Destination.SYSLOG, rest
    raise _bad(_KINDS)


def check_log_target(target: str) -> None:
    """Check a value of `log`. Raises CFG if its prefix is unknown or its options of syslog are wrong."""
    if not target:
        raise _bad(_KINDS)
    kind, rest = split(target)
    if kind is Destination.SYSLOG:
        syslog_options(rest)


def syslog_options(text: str) -> SyslogOptions:
    """Parse the options that follow `syslog:`. Raises CFG."""
    values: dict[str, str] = {}
    for option in text.split(","):
        if not option:
            break  # as in Tarantool, nothing after an empty option is read
        name, equals, value = option.partition("=")
        if not equals or name not in ("identity", "facility", "server"):
            raise _bad(f"bad option '{option}'")
        if name in values:
            raise _bad(f"duplicate option '{name}'")
        if name == "facility" and value not in FACILITIES:
            raise _bad(f"bad syslog facility option '{value}'")
        values[name] = value
    server = values.pop("server", None)
    if server is None:
        return SyslogOptions(**values)
    if server.startswith("unix:"):
        return SyslogOptions(unix_path=server.removeprefix("unix:"), **values)
    host, _, port = server.partition(":")
    return SyslogOptions(host=host, port=port or SYSLOG_PORT, **values)


def _bad(reason: str) -> BoxError:
    return client_error(ErrorCode.CFG, "log", reason)
