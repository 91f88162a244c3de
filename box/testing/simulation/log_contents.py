"""Checks of the logs of a cluster: a row is the same at every node, and rows of elections come in order.

```
every row             equal type and body at all nodes, by origin and lsn; with elections it may be a NOP at some, if a
                      leader wrote it after its time
rows of elections     terms never go back, and a term has one vote; the log has the term and vote that its node reports,
                      also after a recovery from a snapshot and the log
```

The logs are read as they grow, because old files are deleted. A row counts only once the node's vclock covers it,
because later rows may still be undone.
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
    """Rows that the node's vclock does not cover yet."""
    term: int = 0
    vote: int = 0
    """The term and the vote of the last row of elections; the term is 0 if none was read."""


class LogContents:
    """Compares the logs of all nodes."""

    def __init__(self, *, has_elections: bool) -> None:
        self.violations: dict[str, None] = {}
        self._has_elections = has_elections
        self._rows: dict[tuple[int, int], tuple[int, bytes, str]] = {}
        self._logs: dict[str, _OneLog] = {}

    def look_at(self, node: SimulatedNode) -> None:
        """Read the new rows in the log of a running node."""
        log = self._logs.setdefault(node.name, _OneLog())
        if log.process is not node.process:
            log.process, log.reader, log.pending = node.process, None, []
        try:
            self._read_on(node, log)
        except BoxError as error:
            # Files were deleted before they were read, or reads of the disk fail now.
            log.reader, log.pending = None, []
            log.term = log.vote = 0
            if node.disk.failures == 0:
                log.checked = VClock(node.instance.state.vclock)
                log.checked.reset(0)
                node.log.lines.append(f"the log could not be compared: {error.message}")

    def read(self, name: str, directory: LogDirectory) -> None:
        """Read the whole log of a node that was stopped, as far as its files exist.

        Raises:
            BoxError: a file cannot be read.
        """
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
        """Return True if the next local rows may have been in files that a newer snapshot has made unnecessary.

        Older files may still exist, because a file that cannot be removed does not stop the removal of later ones.
        """
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
        """Compare the term and vote that a node reports with its log, which may be ahead: it is written first."""
        told = node.instance.elections.raft.local_state()
        if log.term and (told.term > log.term or (told.term == log.term and told.vote not in (0, log.vote))):
            text = f"{node.name}: tells of term {told.term}, vote {told.vote}; its log has {log.term}, {log.vote}"
            self.violations[text] = None


def _directory(node: SimulatedNode, kind: LogKind) -> LogDirectory:
    """Return the files of a kind that exist now."""
    directory = LogDirectory(node.disk, ".", kind, instance_uuid=node.instance.state.instance_uuid)
    directory.scan()
    return directory
