"""A running node as a stream: its rows pass through the driver once, and go to the workers with the parts of a batch.

A broken connection is made again, for as long as the option `timeout` allows. A restarted query subscribes from the
position in its checkpoint; the rows between two positions are the same every time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final

from box.errors import BoxError, ErrorCode, illegal_params
from box.spark.node_facts import NodeFacts, look_at
from box.spark.stream.cut_points import CutFinder, changed
from box.spark.stream.replica_thread import ReplicaThread
from box.spark.stream.stream_offset import StreamOffset
from box.spark.stream.stream_parts import StreamPart, log_is_gone
from box.wire.row import Row, encode_row
from box.wire.vclock import VClock

_PASSING: Final = frozenset({ErrorCode.NO_CONNECTION, ErrorCode.SYSTEM, ErrorCode.LOADING, ErrorCode.CFG})
"""The errors of a node that is down or starting, or has not noticed yet that the last connection has ended."""
_PAUSE: Final = 0.02
"""Seconds between two attempts."""
_PART_ROWS: Final = 20_000
"""The rows of a part."""


class NodeLog:
    """The log of one node. It must not be used by several threads at a time."""

    def __init__(self, uri: str, timeout: float) -> None:
        self._uri = uri
        self._timeout = timeout
        self._thread: ReplicaThread | None = None
        self._since = VClock()
        """The position from which on the thread has all rows."""
        self._failing_since: float | None = None
        self._seen = (-1, VClock())

    # -- beginnings -----------------------------------------------------------------------------

    def begin(self, start: VClock | str) -> StreamOffset:
        """Return the position where a new stream begins: a vclock, `earliest` (the oldest row that the node has) or
        `latest`.

        Raises:
            BoxError: the node refuses the connection, or cannot be reached within `timeout`.
        """
        facts = self._look()
        if isinstance(start, VClock):
            return StreamOffset(start, facts.replicaset)
        return StreamOffset(facts.oldest if start == "earliest" else facts.vclock, facts.replicaset)

    def _look(self) -> NodeFacts:
        while True:
            try:
                facts = asyncio.run(look_at(self._uri, self._timeout))
            except BoxError as error:
                self._pardon(error)
                time.sleep(_PAUSE)
            else:
                self._failing_since = None
                return facts

    def _pardon(self, error: BoxError) -> None:
        """Return if the error is temporary and has not lasted too long.

        Raises:
            BoxError: the given error otherwise.
        """
        now = time.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        if error.code not in _PASSING or now - self._failing_since > self._timeout:
            raise error

    # -- batches --------------------------------------------------------------------------------

    def next(self, since: StreamOffset, limit: int | None) -> StreamOffset:
        """Return the end of the batch after `since`; `since` itself if there is no new row or the node cannot be
        reached.

        Raises:
            BoxError: the node cannot be reached for longer than `timeout`, or an error that is not temporary.
        """
        thread = self._following(since)
        if thread is None:
            return since
        thread.drop_until(since.vclock)
        self._since = since.vclock
        state = (thread.count, since.vclock)
        if state == self._seen:
            return since
        finder = self._find(thread, since.vclock, limit)
        if finder.found.vclock == since.vclock:
            self._seen = state
            return since
        return StreamOffset(finder.found.vclock, since.source)

    def _find(self, thread: ReplicaThread, since: VClock, limit: int | None) -> CutFinder:
        definitions = thread.wait_begun().definitions
        finder = CutFinder(since, definitions.synchronous(), limit)
        for transaction in thread.transactions():
            finder.take(transaction)
            if finder.is_over:
                break
        return finder

    def _following(self, since: StreamOffset) -> ReplicaThread | None:
        """Return a thread that has the rows after `since`; None while the node cannot be reached."""
        thread = self._thread
        if thread is not None and thread.error is None and since.vclock.covers(self._since):
            self._failing_since = None
            return thread
        if thread is not None:
            thread.close()
        self._thread, self._seen = None, (-1, VClock())
        try:
            if thread is not None and thread.error is not None and since.vclock.covers(self._since):
                self._check_error(thread.error, since.vclock)
            self._thread = self._subscribed(since)
        except BoxError as error:
            self._pardon(error)
            return None
        self._since, self._failing_since = since.vclock, None
        return self._thread

    def _check_error(self, error: BoxError, since: VClock) -> None:
        """Check whether a new subscription may succeed after the error that has ended the last one.

        Raises:
            BoxError: it may not.
        """
        if error.code == ErrorCode.XLOG_GAP:
            raise log_is_gone(self._uri.rpartition("@")[2], since)
        if error.code not in _PASSING:
            raise error

    def _subscribed(self, since: StreamOffset) -> ReplicaThread:
        thread = ReplicaThread(self._uri, since.vclock, self._timeout)
        try:
            facts = thread.wait_begun()
        except BoxError:
            thread.close()
            raise
        if facts.replicaset != since.source:
            thread.close()
            raise illegal_params(
                f"the node is of replica set {facts.replicaset}, the stream's checkpoint of {since.source}: "
                "a stream of another replica set needs a checkpoint of its own"
            )
        if not facts.vclock.covers(since.vclock, ignore_zero=True):
            thread.close()
            raise BoxError(
                ErrorCode.LOADING,
                f"the node has the rows up to {facts.vclock}, the stream has seen those up to {since.vclock}: "
                "it is behind, or has lost some",
            )
        return thread

    def parts(self, since: StreamOffset, until: StreamOffset) -> list[StreamPart]:
        """Return the parts of a batch; waits up to `timeout` for rows that the node has to send again.

        Raises:
            BoxError: TIMEOUT, the rows have not come.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            thread = self._following(since)
            if thread is not None:
                finder = self._find(thread, since.vclock, None)
                if finder.found.vclock.covers(until.vclock):
                    break
            if time.monotonic() > deadline:
                raise BoxError(
                    ErrorCode.TIMEOUT, f"the rows up to {until.vclock} did not come within {self._timeout:g} s"
                )
            time.sleep(_PAUSE)
        left_out = frozenset(item for item in finder.decisions.without_effect() if item[1] <= until.vclock[item[0]])
        definitions, parts = thread.wait_begun().definitions, []
        for rows in _groups(thread.transactions(), since.vclock, until.vclock):
            data = b"".join([encode_row(row) for row in rows])
            parts.append(StreamPart(since.vclock, until.vclock, definitions, left_out, rows=data))
            definitions = changed(definitions, rows)
        return parts

    def newest(self, since: StreamOffset) -> VClock:
        """Return the position where a query ends that takes the rows that exist now; waits until they have come.

        Raises:
            BoxError: TIMEOUT, the rows have not come.
        """
        target, deadline = self._look().vclock, time.monotonic() + self._timeout
        while True:
            thread = self._following(since)
            rows = [] if thread is None else [row for item in thread.transactions() for row in item]
            come = VClock(since.vclock)
            come.merge_max({row.replica_id: row.lsn for row in rows})
            if thread is not None and come.covers(target, ignore_zero=True):
                return self._find(thread, since.vclock, None).found.vclock
            if time.monotonic() > deadline:
                raise BoxError(ErrorCode.TIMEOUT, f"the rows up to {target} did not come within {self._timeout:g} s")
            time.sleep(_PAUSE)

    def close(self) -> None:
        """Close the connection."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None


def _groups(transactions: list[list[Row]], since: VClock, until: VClock) -> Iterator[list[Row]]:
    """Return the rows between two positions in groups of about the rows of a part; a transaction is not divided."""
    rows: list[Row] = []
    for transaction in transactions:
        rows += [row for row in transaction if since[row.replica_id] < row.lsn <= until[row.replica_id]]
        if len(rows) >= _PART_ROWS:
            yield rows
            rows = []
    if rows:
        yield rows
