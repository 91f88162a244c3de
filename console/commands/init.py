"""`lunabox init DIR`: makes a directory to start an instance from."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Final

from console import streams

_EPILOG: Final = """\
Writes DIR/init.lua, which configures the instance, and DIR/NAME.service, a unit for systemd. Files that are there
already are left alone, which is an error.

examples:
  lunabox init /srv/app --listen 3301
  cd /srv/app && lunabox init.lua
  sudo cp /srv/app/app.service /etc/systemd/system/ && sudo systemctl enable --now app
"""

_SCRIPT: Final = """\
#!/usr/bin/env lunabox
-- Starts an instance in the directory of this file: `lunabox init.lua`.
local fio = require('fio')
local here = fio.dirname(fio.abspath(arg[0]))

box.cfg{{
    -- Where clients and replicas connect: a port, 'host:port', or 'unix/:/path'.
    listen = '{listen}',

    -- Snapshots and logs are in this directory.
    work_dir = fio.pathjoin(here, 'data'),

    -- 'write': a change is in the log when it is acknowledged. 'fsync' waits for the disk, 'none' keeps no log.
    wal_mode = 'write',

    -- A snapshot every hour; the last two are kept.
    checkpoint_interval = 3600,
    checkpoint_count = 2,

    -- Standard error unless it is set: systemd keeps it in its journal. A path makes it a file, relative to work_dir.
    -- log = 'instance.log',
    log_level = 'info',

    -- A replica set: the addresses of all its members, this one among them.
    -- replication = {{'replicator:password@host1:3301', 'replicator:password@host2:3301'}},
    -- read_only = false,
}}

-- Runs once in the life of the replica set; on replicas the result arrives by replication.
box.once('schema-1', function()
    -- local goods = box.schema.space.create('goods', {{
    --     format = {{{{'id', 'unsigned'}}, {{'name', 'string'}}, {{'price', 'number'}}}},
    -- }})
    -- goods:create_index('pk', {{parts = {{'id'}}}})

    -- A user for applications, and one for replicas. Guests may connect, and do nothing.
    -- box.schema.user.create('app', {{password = 'change me'}})
    -- box.schema.user.grant('app', 'read,write,execute', 'universe')
    -- box.schema.user.create('replicator', {{password = 'change me'}})
    -- box.schema.user.grant('replicator', 'replication')
end)

-- Administration without a password, for users who can open the socket: `lunabox connect unix/:{console}`.
require('console').listen('unix/:' .. fio.pathjoin(here, 'admin.sock'))
"""

_UNIT: Final = """\
[Unit]
Description=Lunabox instance {name}
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={executable} {script}
WorkingDirectory={directory}
# User=lunabox
Restart=on-failure
# Changes that were acknowledged are in the log; a stop waits for those that are being written.
KillSignal=SIGTERM
TimeoutStopSec=60
# The log file is opened again: for logrotate.
ExecReload=/bin/kill -HUP $MAINPID
LimitNOFILE=65536
NoNewPrivileges=true
PrivateTmp=true

[Install]
WantedBy=multi-user.target
"""


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    options = argparse.ArgumentParser(
        prog="lunabox init",
        description="Make a directory to start an instance from.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("directory", metavar="DIR", help="is made if it is not there")
    options.add_argument("--listen", metavar="URI", default="3301", help="where the instance listens (3301)")
    return options


def main(arguments: list[str]) -> int:
    """Run the command. Returns the exit code: 0, 1 if files exist or cannot be written, 2 for a wrong command line."""
    try:
        options = parser().parse_args(arguments)
    except SystemExit as end:
        return 2 if end.code else 0
    from box.net.uri import parse

    uri = parse(options.listen)
    if uri is None or uri.service is None:
        streams.complain(f"lunabox init: {options.listen!r} is no URI: a port or host:port expected")
        return 2
    directory = Path(options.directory).absolute()
    try:
        return _write(directory, options.listen)
    except OSError as error:
        streams.complain(f"lunabox init: {error.filename or directory}: {error.strerror}")
        return 1


def _write(directory: Path, listen: str) -> int:
    name = directory.name or "lunabox"
    script, unit = directory / "init.lua", directory / f"{_unit_name(name)}.service"
    for path in (script, unit):
        if os.path.lexists(path):
            streams.complain(f"lunabox init: {path}: File exists")
            return 1
    (directory / "data").mkdir(parents=True, exist_ok=True)
    _create(script, _SCRIPT.format(listen=listen, console=directory / "admin.sock"), 0o755)
    texts = {"name": _escaped(name), "executable": _executable(), "script": _argument(script)}
    # Systemd takes the rest of this line as it is, with spaces and quotes.
    texts["directory"] = _escaped(str(directory))
    _create(unit, _UNIT.format(**texts), 0o644)
    streams.write(f"{script}\n{unit}\n")
    return 0


def _create(path: Path, text: str, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _executable() -> str:
    """Return the command that started this process, with its path, for a systemd unit, which has no PATH."""
    command = Path(sys.argv[0])
    if command.name == "lunabox" and command.exists():
        return _quoted(command.absolute())
    return f"{_quoted(Path(sys.executable))} -m console"


def _unit_name(name: str) -> str:
    """Return a name that systemd accepts: it knows no spaces, and no letters but those of ASCII."""
    return re.sub(r"[^A-Za-z0-9:_.-]+", "-", name).strip("-") or "lunabox"


def _escaped(text: str) -> str:
    """Double percent signs, which begin specifiers in a systemd unit."""
    return text.replace("%", "%%")


def _argument(path: Path) -> str:
    """Quote a path as an argument of a command, where dollar signs begin variables."""
    return _quoted(path).replace("$", "$$")


def _quoted(path: Path) -> str:
    """Quote a path for a command of a systemd unit, where spaces end a word."""
    text = _escaped(str(path))
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if any(c in text for c in " \"'\\") else text
