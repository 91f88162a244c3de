"""Sends generated malformed packets to a node and checks its answers.

```
conversation   a login state (guest, user, wrong password, replicator, relay) and up to six packets
packet         the length, a header and a body; rarely the length is wrong
header         request type and sync; rarely other keys, values of other types, another order, broken bytes
body           each key of the request with a valid value, any value, or left out; rarely other keys or broken bytes
```

Checked: every answer is a reply of the protocol, no error text contains a name of Python, no task or session stays,
the log has no traceback, and memory stays below a limit. `python -m test.crash.packets [--examples 20000] [--seed N]`
prints its seed and runs a campaign.
"""

from __future__ import annotations

import argparse
import asyncio
import builtins
import random
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgpack
import psutil
import uvloop
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from box import Node
from box.wire.auth import encode_auth
from box.wire.constants import GREETING_SIZE, TYPE_ERROR, Key, RequestType
from box.wire.greeting import decode_greeting
from box.wire.messages import fetch_snapshot_row, subscribe_row
from box.wire.row import Row, encode_packet
from box.wire.vclock import VClock

SPACE = 512
_ANSWER_SECONDS = 20.0
"""Seconds for one conversation."""
_MEMORY_GROWTH = 96 * 1024 * 1024
"""The bytes by which the process may grow in a campaign of any length."""

# --- values ---------------------------------------------------------------------------------------------------------

_INTEGERS = st.sampled_from(
    (0, 1, 2, 5, 11, 12, 127, 128, 255, 256, 257, 280, 281, 288, 304, SPACE, SPACE + 1, 2**16, 2**31 - 1, 2**31, 2**32)
) | st.sampled_from((2**32 + SPACE, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -1, -128, -(2**31), -(2**63)))
_TEXTS = st.sampled_from(
    ("", "a", "=", "+", "#", ":", "!", "|", "[1]", "\0", "guest", "user", "tostring", "f", "box.space.t:get", "\udcff")
)
_SCALARS = (
    st.none()
    | st.booleans()
    | _INTEGERS
    | _TEXTS
    | st.sampled_from((b"", b"\xff\xfe", 0.5, float("nan"), float("inf"), -0.0, 1e300))
    | st.builds(msgpack.ExtType, st.sampled_from((0, 1, 2, 3, 100, 127)), st.binary(max_size=20))
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.none() | _INTEGERS | _TEXTS, inner, max_size=3),
    max_leaves=8,
)
_MALFORMED = st.sampled_from(
    (
        b"",
        b"\xc1",  # the one byte that MessagePack never uses
        b"\xc4",  # bin 8 without its length
        b"\xd9\xff",  # str 8, array 16, array 32, map 32 and ext 32 that announce more than there is
        b"\xdb\x7f\xff\xff\xff",
        b"\xdc\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\xc7\x00\x01",  # a decimal (extension 1) of no bytes
        b"\xc7\x02\x01\x28\x1c",  # a decimal whose scale, 40, exceeds 38
        b"\xd8\x02" + bytes(16),  # a UUID (extension 2) of zeros: valid
        b"\x81\x90\x01",  # maps whose key is an array or a map
        b"\x81\x80\x80",
        b"\x91" * 100 + b"\x01",  # nested arrays and maps, deeper than decoders go
        b"\x91" * 900 + b"\x01",
        b"\x91" * 6000 + b"\x01",
        b"\x81\x01" * 6000 + b"\x01",
        b"\x91" * 40_000,  # nested arrays without an end
    )
)
"""Bytes that are no MessagePack, announce more than there is, nest deeply, or are maps with containers as keys."""


def _packed(value: Any) -> bytes:
    return bytes(msgpack.packb(value, unicode_errors="surrogateescape"))


_RAW = _VALUES.map(_packed) | _MALFORMED
_TUPLES = st.lists(_SCALARS, max_size=4).map(_packed)
_KEYS = st.lists(_SCALARS, max_size=2).map(_packed)
_OPS = st.lists(
    st.tuples(st.sampled_from("=+-&|^:#!?"), _INTEGERS | _TEXTS, _SCALARS).map(list) | _SCALARS, max_size=3
).map(_packed)
_SPACES = st.sampled_from((SPACE, SPACE, SPACE, 280, 281, 277, 320, 999, 2**32 + SPACE)).map(_packed)
_NAMES = st.sampled_from(("f", "tostring", "error", "box.error", "box.space.t:get", "box.space.t:select", "no.such"))
_SOURCES = st.sampled_from(
    ("return ...", "error(...)", "box.error(...)", "return box.space.t:select(...)", "return box.session.push(...)")
) | st.sampled_from(("box.begin()", "return setmetatable({}, {__serialize = error})", "return function() end", "x x"))
_UUIDS = st.uuids().map(str).map(_packed) | st.sampled_from(("", "x" * 36)).map(_packed)
_COUNTS = _INTEGERS.filter(lambda number: number >= 0).map(_packed)

# --- requests -------------------------------------------------------------------------------------------------------

_FIELDS: dict[int, dict[int, st.SearchStrategy[bytes]]] = {
    RequestType.SELECT: {
        Key.SPACE_ID: _SPACES,
        Key.INDEX_ID: _COUNTS,
        Key.LIMIT: _COUNTS,
        Key.OFFSET: _COUNTS,
        Key.ITERATOR: _COUNTS,
        Key.KEY: _KEYS,
    },
    RequestType.INSERT: {Key.SPACE_ID: _SPACES, Key.TUPLE: _TUPLES},
    RequestType.REPLACE: {Key.SPACE_ID: _SPACES, Key.TUPLE: _TUPLES},
    RequestType.UPDATE: {
        Key.SPACE_ID: _SPACES,
        Key.INDEX_ID: _COUNTS,
        Key.INDEX_BASE: _COUNTS,
        Key.KEY: _KEYS,
        Key.TUPLE: _OPS,
    },
    RequestType.DELETE: {Key.SPACE_ID: _SPACES, Key.INDEX_ID: _COUNTS, Key.KEY: _KEYS},
    RequestType.UPSERT: {Key.SPACE_ID: _SPACES, Key.INDEX_BASE: _COUNTS, Key.TUPLE: _TUPLES, Key.OPS: _OPS},
    RequestType.CALL: {Key.FUNCTION_NAME: _NAMES.map(_packed), Key.TUPLE: _TUPLES},
    RequestType.CALL_16: {Key.FUNCTION_NAME: _NAMES.map(_packed), Key.TUPLE: _TUPLES},
    RequestType.EVAL: {Key.EXPR: _SOURCES.map(_packed), Key.TUPLE: _TUPLES},
    RequestType.AUTH: {Key.USER_NAME: _TEXTS.map(_packed), Key.TUPLE: _TUPLES},
    RequestType.EXECUTE: {Key.SQL_TEXT: _TEXTS.map(_packed), Key.SQL_BIND: _TUPLES, Key.OPTIONS: _RAW},
    RequestType.PREPARE: {Key.STMT_ID: _COUNTS},
    RequestType.PING: {},
    RequestType.VOTE: {},
    RequestType.VOTE_DEPRECATED: {},
    RequestType.JOIN: {Key.INSTANCE_UUID: _UUIDS, Key.SERVER_VERSION: _COUNTS},
    RequestType.FETCH_SNAPSHOT: {Key.SERVER_VERSION: _COUNTS},
    RequestType.REGISTER: {Key.INSTANCE_UUID: _UUIDS, Key.VCLOCK: _RAW},
    RequestType.SUBSCRIBE: {
        Key.INSTANCE_UUID: _UUIDS,
        Key.CLUSTER_UUID: _UUIDS,
        Key.VCLOCK: _RAW,
        Key.SERVER_VERSION: _COUNTS,
        Key.REPLICA_ANON: _RAW,
        Key.ID_FILTER: _RAW,
    },
    RequestType.OK: {Key.VCLOCK: _RAW},
    RequestType.NOP: {},
    RequestType.RAFT: {0: _COUNTS, 1: _COUNTS, 3: _RAW},
    RequestType.PROMOTE: {Key.REPLICA_ID: _COUNTS, Key.LSN: _COUNTS, Key.TERM: _COUNTS},
    RequestType.CONFIRM: {Key.REPLICA_ID: _COUNTS, Key.LSN: _COUNTS},
    RequestType.ROLLBACK: {Key.REPLICA_ID: _COUNTS, Key.LSN: _COUNTS},
    RequestType.CHUNK: {Key.DATA: _RAW},
    TYPE_ERROR | 3: {Key.ERROR_24: _RAW, Key.ERROR: _RAW},
    99: {},
}
_rarely = st.integers(0, 9).map(lambda number: number == 0)


def _map_of(pairs: list[bytes]) -> bytes:
    count = len(pairs)
    head = bytes((0x80 | count,)) if count < 16 else b"\xde" + count.to_bytes(2, "big")
    return head + b"".join(pairs)


@st.composite
def bodies(draw: st.DrawFn, request_type: int) -> bytes:
    """Draw the body of a request: a map with its keys, in which some parts may be wrong."""
    if draw(_rarely):
        return draw(_RAW)
    pairs = []
    for key, right in _FIELDS[request_type].items():
        choice = draw(st.integers(0, 19))
        if choice:
            pairs.append(_packed(int(key)) + draw(_RAW if choice < 3 else right))
    if draw(_rarely):
        pairs.append(draw(_RAW) + draw(_RAW))
    if draw(_rarely):
        pairs = draw(st.permutations(pairs))
    body = _map_of(pairs)
    if draw(_rarely):
        return _broken(draw, body)
    return body


def _broken(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, max(0, len(data) - 1)))
    return draw(st.sampled_from((data[:at], data + data[at:], data[:at] + b"\xc1" + data[at + 1 :], b"\x80" + data)))


@st.composite
def headers(draw: st.DrawFn, request_type: int, sync: int) -> bytes:
    """Draw a header, in which some parts may be wrong; its type may have bits above the lowest eight."""
    kind = request_type + draw(st.sampled_from((0, 0, 0, 256, 512, 1024, 2**16, 2**32)))
    pairs = [b"\x00" + _packed(kind), b"\x01" + _packed(sync)]
    if draw(_rarely):
        pairs.append(_packed(draw(st.integers(0, 0x60))) + draw(_RAW))
    if draw(_rarely):
        pairs[draw(st.integers(0, len(pairs) - 1))] = draw(_RAW) + draw(_RAW)
    if draw(_rarely):
        pairs.reverse()
    header = _map_of(pairs)
    return _broken(draw, header) if draw(_rarely) else header


@st.composite
def packets(draw: st.DrawFn, sync: int) -> bytes:
    """Draw a packet; rarely its length is wrong or not an integer at all."""
    request_type = draw(st.sampled_from(sorted(_FIELDS)))
    data = draw(headers(request_type, sync)) + draw(bodies(request_type))
    if draw(_rarely) and draw(_rarely):
        return (
            draw(st.sampled_from((b"\xa1x", b"\xc1", b"\xcf" + b"\xff" * 8, b"\xce\x80\x00\x00\x00", b"\xd3"))) + data
        )
    size = len(data) + (draw(st.sampled_from((-1, 1, 5))) if draw(_rarely) and draw(_rarely) else 0)
    return b"\xce" + max(0, size).to_bytes(4, "big") + data


STATES = ("guest", "user", "wrong password", "replicator", "relay")


class Conversation(NamedTuple):
    """The packets of one client: it logs in as `state` says, and sends its bytes in writes of about `piece` bytes."""

    state: str
    packets: list[bytes]
    piece: int

    def __repr__(self) -> str:
        """Abbreviate long packets: the seed reproduces them."""
        shown = [packet if len(packet) < 500 else (packet[:100], len(packet), packet[-20:]) for packet in self.packets]
        return f"Conversation({self.state!r}, {shown}, {self.piece})"


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """Draw a login state and up to six packets, with syncs from 100 on."""
    count = draw(st.integers(1, 6))
    return Conversation(
        draw(st.sampled_from(STATES)),
        [draw(packets(sync)) for sync in range(100, 100 + count)],
        draw(st.sampled_from((1, 7, 100, 1 << 20))),
    )


# --- the target -----------------------------------------------------------------------------------------------------

_ERRORS = [name for name, value in vars(builtins).items() if isinstance(value, type) and name.endswith("Error")]
_PYTHON_NAMES = re.compile(rf"\b(?:{'|'.join(_ERRORS)}|struct\.error|UnpackException|Traceback|NoneType|islice)\b")


def check_reply(header: Any, body: Any) -> None:
    """Check one decoded reply.

    Raises:
        AssertionError: it is no reply of the protocol, or its error text contains a name of Python.
    """
    assert isinstance(header, dict), header
    kind = header.get(int(Key.REQUEST_TYPE))
    assert isinstance(kind, int), header
    if not kind & TYPE_ERROR:
        return
    text = body[int(Key.ERROR_24)]
    assert isinstance(text, (str, bytes)), body
    shown = text if isinstance(text, str) else text.decode(errors="replace")
    assert not _PYTHON_NAMES.search(shown), shown
    assert body[int(Key.ERROR)], body


def check_answers(data: bytes) -> list[int]:
    """Check all replies after the greeting; the last one may be cut. Returns their types.

    Raises:
        AssertionError: something is no reply of the protocol.
    """
    kinds, pos = [], 0
    while pos + 5 <= len(data):
        assert data[pos] == 0xCE, data[pos : pos + 20]
        end = pos + 5 + int.from_bytes(data[pos + 1 : pos + 5], "big")
        if end > len(data):
            break
        unpacker = msgpack.Unpacker(
            strict_map_key=False, unicode_errors="surrogateescape", max_buffer_size=0, ext_hook=msgpack.ExtType
        )
        unpacker.feed(data[pos + 5 : end])
        header = unpacker.unpack()
        # Only errors are decoded: a stored tuple may be nested deeper than this decoder goes.
        kind = header.get(0) if isinstance(header, dict) else None
        check_reply(header, unpacker.unpack() if isinstance(kind, int) and kind & TYPE_ERROR else None)
        kinds.append(int(kind or 0))
        pos = end
    return kinds


class Target:
    """The node that gets the packets, with a space, a user with few rights and a user who may replicate."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._problems: list[Any] = []
        self._node: Node
        self._address = ""
        self._process = psutil.Process()
        self._tasks = self._sessions = self._memory = 0

    def start(self) -> None:
        """Start the node."""
        self._runner.run(self._start())

    async def _start(self) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, problem: self._problems.append(problem))
        self._node = Node(str(self._directory), listen="127.0.0.1:0", log=str(self._directory / "log"))
        await self._node.__aenter__()
        await self._node.eval(
            """
            local s = box.schema.space.create('t')
            s:create_index('pk')
            s:create_index('sk', {parts = {{2, 'string', is_nullable = true}}, unique = false})
            for id = 1, 100 do s:insert{id, 'name', id / 2} end
            function f(...) return ... end
            box.schema.user.create('user', {password = 'secret'})
            box.schema.user.grant('user', 'read,write', 'space', 't')
            box.schema.user.grant('user', 'execute', 'universe')
            box.schema.user.create('replicator', {password = 'secret'})
            box.schema.user.grant('replicator', 'replication')
            """
        )
        self._address = self._node.info["listen"]
        self._replicaset = UUID(self._node.info["cluster"]["uuid"])

    def settle(self) -> None:
        """Record the tasks, sessions and memory of now: `stop` compares with them."""
        core = self._node._embedding.core
        self._tasks = len(self._runner.run(self._all_tasks()))
        self._sessions = len(core.sessions.by_id)
        self._memory = self._process.memory_info().rss

    @staticmethod
    async def _all_tasks() -> set[asyncio.Task[Any]]:
        return asyncio.all_tasks()

    def stop(self) -> None:
        """Stop the node.

        Raises:
            AssertionError: memory has grown too much, the node does not run, or its log has a traceback.
            TimeoutError: tasks or sessions of clients stay.
        """
        try:
            self._runner.run(self._until_quiet())
            grown = self._process.memory_info().rss - self._memory
            assert grown < _MEMORY_GROWTH, f"{grown} bytes more than at the beginning"
            assert self._runner.run(self._node.eval("return box.info.status")) == "running"
        finally:
            self._runner.run(self._node.__aexit__(None, None, None))
            self._runner.close()
        log = (self._directory / "log").read_text(errors="replace")
        assert "Traceback" not in log, log[log.index("Traceback") :][:3000]

    async def _until_quiet(self) -> None:
        async with asyncio.timeout(30):
            while len(asyncio.all_tasks()) > self._tasks or len(self._sessions_now()) > self._sessions:
                await asyncio.sleep(0.01)

    def _sessions_now(self) -> dict[int, Any]:
        sessions: dict[int, Any] = self._node._embedding.core.sessions.by_id
        return sessions

    def play(self, conversation: Conversation) -> list[int]:
        """Send the packets of a conversation, check all replies and return their types."""
        kinds = self._runner.run(self._play(conversation))
        assert not self._problems, self._problems
        return kinds

    async def _play(self, conversation: Conversation) -> list[int]:
        host, port = self._address.rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                salt = decode_greeting(await reader.readexactly(GREETING_SIZE)).salt
                stream = self._prologue(conversation.state, salt) + b"".join(conversation.packets)
                step = conversation.piece * (1 + len(stream) // 2000)
                try:
                    for at in range(0, len(stream), step):
                        if writer.transport.is_closing():
                            break
                        writer.write(stream[at : at + step])
                        await asyncio.sleep(0)
                    if not writer.transport.is_closing():
                        writer.write_eof()
                    data = await reader.read(-1)
                except OSError:  # the node has closed the connection with unread input, which resets it
                    return []
                return check_answers(data)
        finally:
            writer.transport.abort()

    def _prologue(self, state: str, salt: bytes) -> bytes:
        if state == "guest":
            return b""
        user = "user" if state in ("user", "wrong password") else "replicator"
        password = "wrong" if state == "wrong password" else "secret"
        login = encode_packet(Row(RequestType.AUTH, sync=1, body=encode_auth(user, password, salt)))
        if state != "relay":
            return login
        snapshot = fetch_snapshot_row()
        subscribe = subscribe_row(self._replicaset, UUID(int=77), VClock({}), anon=True)
        subscribe.sync = snapshot.sync = 2
        return login + encode_packet(snapshot) + encode_packet(subscribe)


@contextmanager
def target() -> Iterator[Target]:
    """Start a node for this context, and check it at the end as `Target.stop` does."""
    with tempfile.TemporaryDirectory(prefix="packets") as directory:
        made = Target(directory)
        made.start()
        try:
            for state in STATES:
                made.play(Conversation(state, [], 100))
            made.settle()
            yield made
        finally:
            made.stop()


_BATCH = 250
"""Conversations of one run of Hypothesis, which keeps all of them in memory."""


def campaign(examples: int, number: int) -> None:
    """Run `examples` conversations from the seed `number`; Hypothesis shrinks the first one that fails and raises."""
    with target() as made:
        for batch in range(0, examples, _BATCH):

            @seed(number + batch)
            @settings(
                max_examples=min(_BATCH, examples - batch),
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(conversations())
            def run(conversation: Conversation) -> None:
                made.play(conversation)

            run()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m test.crash.packets", description=__doc__)
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1_000_000))
    args = parser.parse_args()
    print(f"seed {args.seed}, {args.examples} conversations", flush=True)
    campaign(args.examples, args.seed)
    print("no wrong answer")


if __name__ == "__main__":
    main()
