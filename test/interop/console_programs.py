"""Runs console programs, which are lists of statements, on a node of an executable, and returns the replies.

Each program has a connection of its own. After it all spaces, users, sequences, functions, grants, triggers of sessions
and global names that it has made are dropped. What the node writes to its standard output is in the file `output` of
its directory. If a statement gets no reply in time, the node is killed and the next program starts another one.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_REPLY_END = re.compile(rb"(?:^|\n)\.\.\.\n")
_GREETING = re.compile(rb"interactive help *\n")
_START = 60.0
"""Seconds until the console of a new node answers."""
_REPLY = 15.0
"""Seconds until a statement has its reply."""
CRASHED = "<ConnectionResetError>"
"""The reply to a statement that has ended the process."""
LOST = "<TimeoutError>"
"""The reply to a statement that has got none in time."""
_PATH_LIMIT = 90
"""The longest path of a socket in bytes that all systems accept; Linux accepts 107."""

_SCRIPT = """
box.cfg{
    log = 'node.log', memtx_memory = 400 * 1024 * 1024, wal_mode = 'none', checkpoint_interval = 0,
    listen = 'unix/:./iproto.sock', memtx_use_mvcc_engine = os.getenv('USE_MVCC') == '1',
}
known_names = {}
known_grants = {}
local function grant_key(t)
    return table.concat({t[2], t[3], t[4]}, ' ')
end
local function restore_grants()
    local found = {}
    for _, t in ipairs(box.space._priv:select{}) do
        local known = known_grants[grant_key(t)]
        found[grant_key(t)] = known ~= nil and known[5] == t[5]
        if known == nil then
            pcall(box.space._priv.delete, box.space._priv, {t[2], t[3], t[4]})
        end
    end
    for key, t in pairs(known_grants) do
        if not found[key] then
            pcall(box.space._priv.replace, box.space._priv, t)
        end
    end
end
function clean_up()
    pcall(box.rollback)
    pcall(box.session.su, 'admin')
    for _, t in ipairs(box.space._space:select{}) do
        if t[1] > box.schema.SYSTEM_ID_MAX then
            pcall(function() box.space[t[1]]:drop() end)
        end
    end
    for _, t in ipairs(box.space._user:select{}) do
        if t[1] > 5 and t[1] ~= 31 then
            pcall(box.schema[t[4]].drop, t[3])
        end
    end
    for _, t in ipairs(box.space._sequence:select{}) do
        pcall(box.schema.sequence.drop, t[3])
    end
    for _, t in ipairs(box.space._func:select{}) do
        if t[1] > FIRST_FUNCTION then
            pcall(box.schema.func.drop, t[3])
        end
    end
    restore_grants()
    for _, name in ipairs{'on_connect', 'on_disconnect', 'on_auth'} do
        for _, trigger in ipairs(box.session[name]()) do
            box.session[name](nil, trigger)
        end
    end
    for name in pairs(_G) do
        if not known_names[name] then
            _G[name] = nil
        end
    end
end
for _, t in ipairs(box.space._priv:select{}) do
    known_grants[grant_key(t)] = t
end
FIRST_FUNCTION = box.space._func.index[0]:max()[1]
for name in pairs(_G) do
    known_names[name] = true
end
require('console').listen('unix/:./console.sock')
"""


class ConsoleNode:
    """A node in a child process that runs programs at its text console."""

    def __init__(self, executable: str, directory: Path, use_mvcc: bool = False) -> None:
        self._executable = executable
        # Lunabox keeps Tarantool's order of HASH indexes, unless the variable says otherwise.
        self._environment = {"LUNABOX_HASH_ORDER": "slots", **os.environ, "USE_MVCC": str(int(use_mvcc))}
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._read = b""

    def replies(self, program: list[str]) -> list[str]:
        """Run a program and return its replies; a statement without a reply ends the list with the reason."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        found: list[str] = []
        try:
            self._connect()
            for statement in program:
                found.append(self._ask(statement))
            self._connect()
            self._ask("clean_up()")
        except OSError as error:
            found.append(f"<{type(error).__name__}>")
            self.stop()
        return found

    def stop(self) -> None:
        """Kill the node's process, if there is one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        (self._directory / "node.lua").write_text(_SCRIPT)
        with (self._directory / "output").open("wb") as output:
            self._process = subprocess.Popen(
                [self._executable, "node.lua"],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
            )
        deadline = time.monotonic() + _START
        while True:
            try:
                self._connect()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _connect(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._read = b""
        path = str(self._directory / "console.sock")
        assert len(path) < _PATH_LIMIT, path
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_REPLY)
        self._socket.connect(path)
        self._until(_GREETING)

    def _ask(self, statement: str) -> str:
        assert self._socket is not None
        self._socket.sendall(statement.replace("\n", " ").encode() + b"\n")
        return self._until(_REPLY_END).decode(errors="backslashreplace")

    def _until(self, pattern: re.Pattern[bytes]) -> bytes:
        assert self._socket is not None
        while not (found := pattern.search(self._read)):
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError
            self._read += data
        result, self._read = self._read[: found.end()], self._read[found.end() :]
        return result


@contextmanager
def console_node(executable: str, use_mvcc: bool = False) -> Iterator[ConsoleNode]:
    """Run a node for this context, in a temporary directory with a short path, because paths of sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="lb") as directory:
        node = ConsoleNode(executable, Path(directory) / "n", use_mvcc)
        try:
            yield node
        finally:
            node.stop()


_UNLIKE: list[tuple[str, str]] = [
    (r"\n +", " "),  # where YAML breaks a line depends on the rest of it
    (r"builtin/[\w./]+\.lua:\d+:", "builtin:N:"),  # names and lines of built-in modules
    (r"0x[0-9a-f]{6,}", "0xN"),
    (r"function: (?:builtin#\d+|0xN)", "function"),
    (r"\(no value\)|got (?:no value|nil)\b", "got nil"),  # LuaJIT 2.0 and 2.1 say one or the other
    (r"struct (?:lunabox_decimal|\d+)", "struct decimal"),
    (r"- file: (?:builtin|box|/\S*/src)/\S+ line: \d+", "- a file of the server"),
    (r"peer_uuid: \S+", "peer_uuid: N"),
    (r"\bid: \d{3,}", "id: N"),  # numbers of fibers
    (r"console/unix/:\S*", "console"),
    (r"/\S*/lb\w+/n\b", "/cwd"),  # the directory of the node
]


def normalised(reply: str) -> str:
    """Return a reply without parts that vary: addresses, line numbers of modules, breaks of lines, order of maps."""
    for pattern, text in _UNLIKE:
        reply = re.sub(pattern, text, reply)
    return _sorted_maps(reply)


def _sorted_maps(reply: str) -> str:
    """Sort the entries of each line that is a map: the order of a hash table varies."""
    return "\n".join(map(_sorted_map, reply.splitlines()))


def _sorted_map(line: str) -> str:
    is_map = re.search(r"[\w'\"]+: ", line) and "error: " not in line
    return " ".join(sorted(line.split())) if is_map else line
