"""The contents of all logs of a cluster: a row is the same wherever it is, and a log tells its story in order.

```
every row             the same type and body at every node, by origin and lsn; with elections it may be a NOP where it
                      came from a leader whose time was over
rows of elections     terms never go back, and a term has one vote; what a node tells of itself stands in its log, also
                      after it has recovered from a snapshot and the log
```

The logs are read as they grow, because old files go. A row counts once the node's vclock covers it: what is behind may
yet be taken back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from box.errors import BoxError
from box.journal.directory import LogDirectory, LogKind
from box.journal.reader import LogReader
from box.testing.simulation.simulated_node import SimulatedNode
from box.wire.constants import GROUP_LOCAL, RequestType
from box.wire.messages import decode_raft
from box.wire.row import Row
from box.wire.vclock import VClock


@dataclass
class _OneLog:
    """The log of one node, as far as it was read."""

    checked: VClock = field(default_factory=VClock)
    process: object = None
    reader: LogReader | None = None
    pending: list[Row] = field(default_factory=list)
    """Rows that the node has not counted yet."""
    term: int = 0
    vote: int = 0
    """Of the last row of elections; no term while none was read."""


class LogContents:
    """See the module's text."""

    def __init__(self, *, has_elections: bool) -> None:
        self.violations: dict[str, None] = {}
        self._has_elections = has_elections
        self._rows: dict[tuple[int, int], tuple[int, bytes, str]] = {}
        self._logs: dict[str, _OneLog] = {}

    def look_at(self, node: SimulatedNode) -> None:
        """Read on in the log of a running node."""
        log = self._logs.setdefault(node.name, _OneLog())
        if log.process is not node.process:
            log.process, log.reader, log.pending = node.process, None, []
        try:
            self._read_on(node, log)
        except BoxError as error:
            # Files have gone that were not read yet, or the disk cannot be read now.
            log.reader, log.pending = None, []
            log.term = log.vote = 0
            if node.disk.failures == 0:
                log.checked = VClock(node.instance.state.vclock)
                log.checked.reset(0)
                node.log.lines.append(f"the log could not be compared: {error.message}")

    def read(self, name: str, directory: LogDirectory) -> None:
        """Read the log of a node that has ended in order, as far as its files are there. Raises what the files do."""
        directory.scan()
        if not directory.files:
            return
        log = _OneLog()
        reader = LogReader(directory, directory.files[0].vclock.copy())
        while (rows := reader.next_rows()) is not None:
            for row in rows:
                self._compare(name, log, row)
        reader.close()

    def _read_on(self, node: SimulatedNode, log: _OneLog) -> None:
        vclock = node.instance.state.vclock
        if log.reader is None:
            directory = _directory(node, LogKind.XLOG)
            if not directory.files:
                return
            start = log.checked.copy()
            start.merge_max(directory.files[0].vclock)
            log.reader = LogReader(directory, start)
        while (rows := log.reader.next_rows()) is not None:
            log.pending += rows
        counted = [row for row in log.pending if row.lsn <= vclock[row.replica_id]]
        log.pending = [row for row in log.pending if row.lsn > vclock[row.replica_id]]
        for row in counted:
            self._compare(node.name, log, row)
        if log.checked[0] < vclock[0] and self._are_gone(node, log):
            log.term = log.vote = 0
        self._compare_votes(node, log)

    def _are_gone(self, node: SimulatedNode, log: _OneLog) -> bool:
        """Whether the next rows of the node itself may have been in files that a snapshot has made needless since the
        last look. Older files may still be there: where a file cannot be removed, the next ones are."""
        snapshots = _directory(node, LogKind.SNAP).files
        return bool(snapshots) and snapshots[-1].vclock[0] > log.checked[0]

    def _compare(self, name: str, log: _OneLog, row: Row) -> None:
        if row.lsn > log.checked[row.replica_id]:
            log.checked[row.replica_id] = row.lsn
        if row.group_id == GROUP_LOCAL or not row.replica_id:
            if row.type == RequestType.RAFT:
                self._follow_raft(name, log, row)
            return
        if row.type == RequestType.NOP and self._has_elections:
            return
        key, body = (row.replica_id, row.lsn), bytes(row.body)
        kind, other, where = self._rows.setdefault(key, (row.type, body, name))
        if (kind, other) != (row.type, body):
            text = f"row {key} differs between {where} and {name}: {kind} {other!r}, {row.type} {body!r}"
            self.violations[text] = None

    def _follow_raft(self, name: str, log: _OneLog, row: Row) -> None:
        request = decode_raft(row)
        if request.term < log.term or (request.term == log.term and log.vote and request.vote != log.vote):
            text = f"{name}: term {request.term}, vote {request.vote} stands in the log"
            self.violations[f"{text} behind term {log.term}, vote {log.vote}"] = None
        log.term, log.vote = request.term, request.vote

    def _compare_votes(self, node: SimulatedNode, log: _OneLog) -> None:
        """A row is written before the node tells of it, so the log may be ahead."""
        told = node.instance.elections.raft.local_state()
        if log.term and (told.term > log.term or (told.term == log.term and told.vote not in (0, log.vote))):
            text = f"{node.name}: tells of term {told.term}, vote {told.vote}; its log has {log.term}, {log.vote}"
            self.violations[text] = None


def _directory(node: SimulatedNode, kind: LogKind) -> LogDirectory:
    """The files of a kind that are there now."""
    directory = LogDirectory(node.disk, ".", kind, instance_uuid=node.instance.state.instance_uuid)
    directory.scan()
    return directory
