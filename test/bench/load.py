"""The client processes of `test.bench.fairness`: the quiet client that is measured, and clients that make load.

python -m test.bench.load quiet URI SECONDS          prints the latency of each request in seconds, one a line
python -m test.bench.load MODE URI SPACE CLIENTS     prints `ready` and makes load until it is killed

quick     selects of one tuple, 1,000 in one write
views     selects of all of `_vcollation`, 1,000 in one write
whole     selects of all rows of SPACE, one after another
unread    4 MB of selects of `_vcollation` whose replies are not read
calls     2,000 calls of a function that returns a megabyte after 10 ms; replies are not read
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
"""The id of the space `_vcollation`."""
BATCH = 1000
"""Requests in one write."""
UNREAD_BYTES = 4_000_000
UNREAD_CALLS = 2000
_ALL = 0xFFFFFFFF
"""The limit of selects without a limit."""
_PERIOD = 0.001
"""Seconds between a reply to the quiet client and its next request."""


def _requests(body: bytes, count: int, kind: RequestType = RequestType.SELECT) -> bytes:
    return b"".join(encode_packet(Row(kind, sync=100_000 + n, body=body)) for n in range(count))


def quiet(uri: str, seconds: float) -> None:
    """Select one tuple at a time for `seconds`, pause after each reply, and print all latencies."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)  # so that waits for a processor are the server's, not the client's
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
    with contextlib.suppress(TimeoutError):  # a server may stop to read while its replies are not read
        client.send(requests)
    threading.Event().wait()


def load(mode: str, uri: str, space: int, clients: int) -> None:
    """Make load in one of the modes with `clients` connections, a thread each, until the process is killed."""
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
