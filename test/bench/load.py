"""Clients for the fairness table, each a process of its own.

Usage: `python -m test.bench.load quiet URI SECONDS` prints the latencies of single requests, in seconds, a line each;
`python -m test.bench.load MODE URI SPACE CLIENTS` makes load until it is killed, and prints `ready` when it has begun.
MODE is `quick` (selects of one tuple, 1,000 a call), `views` (selects of all of `_vcollation`, 1,000 a call), `whole`
(selects of all of SPACE one after the other), `unread` (4 MB of selects of `_vcollation`, replies never read) or
`calls` (2,000 calls of a function that waits a moment and returns a megabyte, replies never read).
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time

import msgpack

from box.wire.constants import Key, RequestType
from box.wire.row import Row, encode_packet
from test.bench.pipelined import Client, select_body

COLLATIONS = 277
"""Id of `_vcollation`."""
BATCH = 1000
UNREAD_BYTES = 4_000_000
UNREAD_CALLS = 2000
_ALL = 0xFFFFFFFF
_PERIOD = 0.001
"""Seconds between the requests of the quiet client."""


def _requests(body: bytes, count: int, kind: RequestType = RequestType.SELECT) -> bytes:
    return b"".join(encode_packet(Row(kind, sync=100_000 + n, body=body)) for n in range(count))


def quiet(uri: str, seconds: float) -> None:
    """One request at a time, a pause after each."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)  # so that the figures are the server's
    client = Client(uri, timeout=600)
    request = _requests(select_body(client.space_id("bench"), 1, [1]), 1)
    reply_size = client.reply_size_of(request)
    latencies = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        client.send(request)
        client.read(reply_size)
        latencies.append(time.perf_counter() - start)
        time.sleep(_PERIOD)
    sys.stdout.write("".join(f"{latency}\n" for latency in latencies))


def _pipeline(client: Client, one: bytes, many: bytes, count: int) -> None:
    reply_size = client.reply_size_of(one)
    while True:
        client.send(many)
        client.read(count * reply_size)


def _never_read(client: Client, requests: bytes) -> None:
    with contextlib.suppress(TimeoutError):  # a server may stop reading what it cannot answer
        client.send(requests)
    threading.Event().wait()


def load(mode: str, uri: str, space: int, clients: int) -> None:
    """Run `clients` connections for ever."""
    body, count = {
        "quick": (select_body(space, 1, [1]), BATCH),
        "views": (select_body(COLLATIONS, _ALL, []), BATCH),
        "whole": (select_body(space, _ALL, []), 1),
        "unread": (select_body(COLLATIONS, _ALL, []), 1),
        "calls": (msgpack.packb({int(Key.FUNCTION_NAME): "wait_a_moment", int(Key.TUPLE): []}), 1),
    }[mode]
    one = _requests(body, 1)
    threads = []
    for _ in range(clients):
        client = Client(uri, timeout=600)
        if mode == "unread":
            work = threading.Thread(target=_never_read, args=(client, one * (UNREAD_BYTES // len(one))))
        elif mode == "calls":
            work = threading.Thread(target=_never_read, args=(client, _requests(body, UNREAD_CALLS, RequestType.CALL)))
        else:
            work = threading.Thread(target=_pipeline, args=(client, one, _requests(body, count), count))
        threads.append(work)
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    if sys.argv[1] == "quiet":
        quiet(sys.argv[2], float(sys.argv[3]))
    else:
        socket.setdefaulttimeout(600)
        load(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
