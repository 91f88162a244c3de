"""Creates and connects the parts of one instance's replication.

```
Sources           fetching rows: appliers, the sync quorum, joining
RowSink           applying the rows of all appliers
ReplicaRequests   serving rows to others: joins, relays
Registration      ids in `_cluster`
Elections         choosing the instance that may write, by Raft
PromotionQuorum   asking a quorum before this instance takes over the limbo
Comparer          comparing the data of this instance with that of another one (`box.ctl.compare`)
ReplicaSet        the members, shared by all of the above
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from box.errinj import ErrorInjections
from box.errors import BoxError
from box.log import Log
from box.replication.comparison import Comparer
from box.replication.elections import Elections
from box.replication.local import LocalInstance, OptionValues, ReplicationOptions
from box.replication.promotion import PromotionQuorum
from box.replication.registration import Registration
from box.replication.replicaset import ReplicaSet
from box.replication.requests import ReadView, ReplicaRequests
from box.replication.row_sink import RowSink
from box.replication.sources import Sources
from box.session import Sessions
from box.wire.constants import RequestType
from box.wire.entry import JournalEntry
from box.wire.messages import RaftRequest
from box.wire.row import Row

if TYPE_CHECKING:
    from box.index.view import TupleView
    from box.journal.gc import GarbageCollector
    from box.journal.journal import Journal
    from box.net.network import Network
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.txn.dml import Dml
    from box.txn.lifecycle import TransactionManager
    from box.txn.synchro import LimboDriver


class Replication:
    """The replication of one instance.

    `view_of` opens a view of all tuples of a space without a task switch, for joins. `clock` returns seconds since the
    epoch.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        instance: LocalInstance,
        values: OptionValues,
        *,
        schema: Schema,
        txns: TransactionManager,
        dml: Dml,
        synchro: LimboDriver,
        sessions: Sessions,
        collector: GarbageCollector,
        view_of: Callable[[Space], TupleView],
        network: Network,
        clock: Callable[[], float],
        random: Random,
        log: Log,
        errinj: ErrorInjections,
    ) -> None:
        self._loop = loop
        self._instance = instance
        self._collector = collector
        self._synchro = synchro
        self._schema = schema
        self._view_of = view_of
        options = ReplicationOptions(values)
        self.replicaset = ReplicaSet()
        self.elections = Elections(
            loop,
            random,
            log,
            own_vclock=lambda: instance.vclock,
            coming=lambda: self.sink.coming,
            write=self._write_row,
            push=self._push_raft,
            synchro=synchro,
        )
        self.sink = RowSink(
            instance,
            options,
            self.elections,
            schema=schema,
            txns=txns,
            dml=dml,
            synchro=synchro,
            log=log,
            errinj=errinj,
        )
        self.sources = Sources(
            loop,
            instance,
            options,
            self.replicaset,
            self.sink,
            self.elections,
            schema=schema,
            sessions=sessions,
            network=network,
            clock=clock,
            log=log,
            errinj=errinj,
        )
        self.promotion = PromotionQuorum(loop, instance, options, self.replicaset, synchro.limbo, network)
        self.elections.is_member = self.replicaset.by_id.__contains__
        self.elections.before_promotion = self.promotion.catch_up
        self.requests = ReplicaRequests(
            loop,
            instance,
            options,
            self.replicaset,
            Registration(instance, self.replicaset, schema=schema, dml=dml, sessions=sessions),
            self.elections,
            open_read_view=self._open_read_view,
            collector=collector,
            synchro=synchro,
            clock=clock,
            log=log,
            errinj=errinj,
        )

        self.comparer = Comparer(
            loop,
            instance,
            options,
            schema=schema,
            open_views=lambda: {space.id: view_of(space) for space in self._replicated_spaces()},
            journal=lambda: self.requests.journal,
            synchro=synchro,
            network=network,
        )
        dml.on_busy = self._tell_alive

    def _tell_alive(self) -> None:
        """Send heartbeats and acknowledgements during a long computation, so that peers do not disconnect."""
        for replica in self.replicaset.by_uuid.values():
            if replica.applier is not None:
                replica.applier.tell_alive()
            if replica.relay is not None:
                replica.relay.tell_alive()

    def use_journal(self, journal: Journal) -> None:
        """Set the open journal, from which rows can be followed and sent."""
        self.sources.journal = self.requests.open_journal = journal

    def on_cluster_change(self, replica_id: int, uuid: UUID, is_registered: bool) -> None:
        """Note a row that was inserted into `_cluster` or deleted from it.

        After a start old log files are kept until every other member has subscribed or was deleted, or until
        `wal_cleanup_delay` is over.
        """
        if is_registered:
            self.replicaset.register(replica_id, uuid)
        else:
            self.replicaset.unregister(replica_id)
        if uuid != self._instance.instance_uuid:
            self._collector.delay_ref() if is_registered else self._collector.delay_unref()

    async def give_back_undecided(self) -> None:
        """Undo the undecided transactions that a join has brought, so that the master sends them again.

        The first checkpoint, with which the instance begins to exist, holds only decided transactions. If the others
        were acknowledged before it, a quorum would count rows that a crash loses.
        """
        undone = await self._synchro.give_back()
        if undone is not None:
            vclock = self._instance.vclock
            vclock.reset(undone.origin_id, undone.lsn)
            self.sources.sink.reset(vclock)

    async def _write_row(self, row: Row) -> None:
        """Write a row to the log and wait until it is written.

        Raises:
            ClientError: WAL_IO; LOADING, the log is not open yet.
        """
        written: asyncio.Future[BoxError | None] = self._loop.create_future()

        def complete(entry: JournalEntry) -> None:
            if not written.done():
                written.set_result(entry.error)

        self.requests.journal.submit(JournalEntry([row], complete))
        error = await written
        if error is not None:
            raise error

    def _push_raft(self, request: RaftRequest) -> None:
        for replica in self.replicaset.by_uuid.values():
            if replica.relay is not None:
                replica.relay.push_raft(request)

    def _open_read_view(self) -> ReadView:
        return [(space.body_prefix(RequestType.INSERT), self._view_of(space)) for space in self._replicated_spaces()]

    def _replicated_spaces(self) -> list[Space]:
        return self._schema.joined_spaces()

    async def stop(self) -> None:
        """Stop elections, appliers and relays."""
        await self.elections.stop()
        await self.sources.stop()
        await self.requests.stop()
