"""The mutations of `make teeth`: changes of the product that break a promise, by name.

Each is a text of a file that occurs once, what stands there instead, and the runs that are to notice.
"""

from __future__ import annotations

from typing import Final

from test.election_mutations import ELECTIONS
from test.mutation import Edit, Mutation

JOURNAL: Final = (
    Mutation(
        "an answer before the write",
        "box/journal/journal.py",
        "        pending.append(entry)\n",
        "        pending.append(entry)\n"
        "        told, entry.on_complete = entry.on_complete, lambda entry: None\n"
        "        self._loop.call_soon(told, entry)\n",
        "async",
        "process,write",
        1,
    ),
    Mutation(
        "a batch without its sync",
        "box/journal/wal.py",
        "            if self._fsync:\n                self._file.sync()\n",
        "",
        "async",
        "power",
    ),
    Mutation(
        "a new file whose meta is not synced",
        "box/journal/wal.py",
        "            if self._fsync:\n                file.sync()\n            if self.is_provisional:\n",
        "            if self.is_provisional:\n",
        "async",
        "outage",
    ),
    Mutation(
        "a new file without the sync of its directory",
        "box/journal/wal.py",
        "path)\n        if self._fsync:\n            self._storage.sync_directory(self.directory.path)\n",
        "path)\n",
        "async",
        "power",
    ),
    Mutation(
        "a failed write that stays in the file",
        "box/journal/wal.py",
        "            path = self._file.path\n            self._cut_back()\n",
        "            path = self._file.path\n",
        "async",
        "sync,kill",
    ),
    Mutation(
        "an answer for a write that failed",
        "box/journal/journal.py",
        "            entry.error = self._refusal()\n",
        "            pass\n",
        "async",
        "write,sync,kill",
    ),
    Mutation(
        "undoing the oldest first",
        "box/journal/journal.py",
        "rollback = self._rollback[::-1]",
        "rollback = self._rollback[:]",
        "bank",
        "write,sync,latency",
    ),
    Mutation(
        "writing on during a rollback",
        "box/journal/wal_thread.py",
        "        if self.is_in_rollback:\n            return batch\n",
        "",
        "bank",
        "full,write,sync,latency",
    ),
    Mutation(
        "lsns of a failed write are not taken again",
        "box/journal/wal.py",
        "            clock = self.vclock.copy()\n            blocks",
        "            clock = self.vclock\n            blocks",
        "async",
        "write,sync,kill",
    ),
    # A transaction is one block of the file. Half of a block shows that the log has rolled back what it takes for the
    # rest of it.
    Mutation(
        "recovery that takes half a transaction",
        "box/journal/recovery.py",
        "        if row.is_commit:\n            yield transaction\n            transaction = []\n",
        "        yield transaction\n        transaction = []\n",
        "bank",
        "doubt",
    ),
    Mutation(
        "recovery that stops at the last file but one",
        "box/journal/reader.py",
        "        following = self._directory.after(self._file)\n        if following is None and",
        "        following = self._directory.after(self._file)\n"
        "        if following is self._directory.files[-1]:\n            return None\n        if following is None and",
        "async",
        "kill,restart",
    ),
    # This shows in a start from a snapshot that was made while a transaction waited which was rolled back afterwards.
    Mutation(
        "a snapshot that does not wait for confirmation",
        "box/instance/checkpoint.py",
        "        await self._synchro.wait_confirm()\n",
        "",
        "set",
        "doubt",
        seconds=20,
    ),
    Mutation(
        "garbage collection without consumers",
        "box/journal/gc.py",
        "            needed.merge_min(consumer.vclock)\n",
        "            pass\n",
        "async",
        "away,kill",
        seconds=20,
    ),
    Mutation(
        "a start that does not sync what it has read",
        "box/instance/local_recovery.py",
        '        if resources.config["wal_mode"].lower() != "fsync":\n',
        "        if True:\n",
        "set",
        "relapse,flush",
        seconds=20,
        corpus="rows-that-were-never-synced",
    ),
    Mutation(
        "a relay that reads ahead of the writer",
        "box/journal/journal.py",
        "limit=self.vclock, ",
        "limit=None, ",
        "async",
        "restart,reset,flush,latency",
        seconds=20,
        corpus="a-relay-ahead-of-the-writer",
    ),
)

_CONFIRMS_UNLATCHED: Final = Edit(
    "box/replication/row_sink.py",
    "        if is_large(rows) or self._latches[first.replica_id].locked():\n",
    "        if is_large(rows) or (self._latches[first.replica_id].locked() and first.type != RequestType.CONFIRM):\n",
)
"""A CONFIRM that needs no wait overtakes the transactions before it."""

TRANSACTIONS: Final = (
    Mutation(
        "a quorum that is one too small",
        "box/txn/limbo.py",
        "return acknowledged[self._quorum - 1]",
        "return acknowledged[self._quorum - 2]",
        "set",
        "isolate,slow",
    ),
    Mutation(
        "a confirmation of one transaction too many",
        "box/txn/limbo.py",
        "if entry.wait_ack and (entry.lsn == NO_LSN or entry.lsn > lsn):",
        "if entry.wait_ack and (entry.lsn == NO_LSN or entry.lsn > lsn + 1):",
        "set",
        "isolate,slow,halt",
    ),
    Mutation(
        "a rollback that leaves the last transaction",
        "box/txn/limbo.py",
        "                if entry.lsn < lsn:\n",
        "                if entry.lsn <= lsn:\n",
        "set",
        "isolate,halt",
    ),
    Mutation(
        "a confirmation that counts before it is written",
        "box/txn/synchro.py",
        "        self.limbo.begin(Decision(request.type, 0 if is_claim else request.lsn), request.replica_id)\n",
        "        self.limbo.begin(Decision(request.type, 0 if is_claim else request.lsn), request.replica_id)\n"
        "        self.settle(self.limbo.process(request))\n",
        "set",
        "kill,latency,isolate,write",
        seconds=20,
    ),
    Mutation(
        "no latch between transactions and decisions",
        "box/replication/row_sink.py",
        "        async with self._latches[row.replica_id]:\n            if self._has(row):\n",
        "        if True:\n            if self._has(row):\n",
        "set",
        "network",
        also=(_CONFIRMS_UNLATCHED,),
    ),
    Mutation(
        "a lost undo",
        "box/txn/lifecycle.py",
        "        for statement in sorted(statements, key=applied_as, reverse=True):\n",
        "        for statement in sorted(statements, key=applied_as, reverse=True)[1:]:\n",
        "bank",
        "isolate,write,halt",
    ),
    Mutation(
        "a transaction that is undone in the wrong order",
        "box/txn/lifecycle.py",
        "        for statement in sorted(statements, key=applied_as, reverse=True):\n",
        "        for statement in sorted(statements, key=applied_as):\n",
        "bank",
        "isolate,write,halt",
    ),
    Mutation(
        "a conflict that is passed over",
        "box/txn/lifecycle.py",
        "txn.state is TxnState.CONFLICTED or (txn.state",
        "(txn.state",
        "transactions",
        "none",
    ),
    Mutation(
        "a read view that writes",
        "box/txn/lifecycle.py",
        " or (txn.state is TxnState.IN_READ_VIEW and txn.count):",
        ":",
        "transactions",
        "none",
    ),
    Mutation(
        "phantoms",
        "box/txn/read_set.py",
        "        return any(place.index is index and place.covers(key) for place in self.ranges)\n",
        "        return False\n",
        "transactions",
        "none",
    ),
    Mutation(
        "reads that are not remembered",
        "box/txn/read_set.py",
        "        return value in self.tuples.get(space_id, ())\n",
        "        return False\n",
        "transactions",
        "none",
    ),
    Mutation(
        "a read view that sees its writer",
        "box/txn/versions.py",
        "is_placed = writer.psn and (not txn.read_view or writer.psn < txn.read_view)",
        "is_placed = writer.psn and (not txn.read_view or writer.psn <= txn.read_view)",
        "transactions",
        "none",
        seconds=30,
    ),
    Mutation(
        "a rollback of what others have read",
        "box/txn/mvcc.py",
        "                self._readers.compare(txn, slot, slot.last_of(txn), slot.below(txn))\n",
        "                pass\n",
        "transactions",
        "write,sync,isolate,latency",
        seconds=30,
    ),
)

REPLICATION: Final = (
    Mutation(
        "a confirmation that the replica does not act on",
        "box/txn/incoming_confirms.py",
        "            host.settle(host.promotions.process(row, request))\n",
        "            pass\n",
        "set",
        "none",
    ),
    Mutation(
        "a rollback that the replica does not act on",
        "box/replication/row_sink.py",
        "                await self._synchro.apply(row, is_next)\n",
        "                pass\n",
        "set",
        "isolate,halt",
    ),
    Mutation(
        "rows that are applied twice",
        "box/replication/row_sink.py",
        "        return row.lsn <= self.applied[origin] or (",
        "        return False and (",
        "async",
        "network",
    ),
    Mutation(
        "an applied row that is not remembered",
        "box/replication/row_sink.py",
        "        self._synchro.note_nops(rows)\n        self._advance(rows[-1])\n",
        "        self._synchro.note_nops(rows)\n",
        "async",
        "network,latency",
    ),
    Mutation(
        "an acknowledgement of what is not written",
        "box/replication/subscription.py",
        "messages.ack_row(self._host.instance.vclock,",
        "messages.ack_row(self._host.sink.applied,",
        "set",
        "latency,kill,write,flush",
    ),
    Mutation(
        "a gap between files and tail",
        "box/journal/follow.py",
        "            reader.close()\n            self._reader = None\n            check_reached(self.vclock",
        "            reader.close()\n            self._reader, self._next = None, self._tail.end\n"
        "            check_reached(self.vclock",
        "async",
        "lag",
    ),
    Mutation(
        "a relay that forgets where it stood",
        "box/replication/relay.py",
        "            vclock = self.vclock.copy()\n",
        "            vclock = self.host.instance.vclock.copy()\n",
        "register",
        "depose,only,cut",
        elections="candidate",
        seconds=20,
    ),
    Mutation(
        "a replica that is joined anew and forgets its local rows",
        "box/instance/startup.py",
        "            if not ballot.vclock.covers(vclock):\n",
        "            if not ballot.vclock.covers(vclock, ignore_zero=True):\n",
        "local",
        "away,kill,isolate",
        seconds=20,
    ),
    Mutation(
        "a join that acknowledges rows which a crash loses",
        "box/instance/startup.py",
        "                await self._replication.give_back_undecided()\n",
        "                if self._replication._synchro.limbo.entries:\n"
        "                    self._finish(is_new=True)\n"
        "                    self._sources.follow()\n"
        "                    await self._checkpoints.make()\n"
        "                    return\n",
        "set",
        "away,only,isolate,kill,power,latency,flush",
        seconds=30,
        rate=10,
        corpus="a-join-that-acknowledges-too-early",
    ),
    Mutation(
        "a failed journal that appliers do not hear of",
        "box/replication/row_sink.py",
        "        self.applied = self._instance.vclock.copy()\n        self.on_failure(error)\n",
        "        self.on_failure(error)\n",
        "async",
        "write,sync,latency",
    ),
)

MUTATIONS: Final = (*JOURNAL, *TRANSACTIONS, *REPLICATION, *ELECTIONS)
