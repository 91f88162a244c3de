"""What the parts of an instance are made of, imported together when the first part is needed.

A program that never calls `box.cfg` needs no dictionary, transactions, log or replication, whose modules take most of
the time of a start.
"""

from __future__ import annotations

from box.index.release import Releaser
from box.index.untracked import CollectorWatch
from box.instance.checkpoint import Checkpoints
from box.instance.instance_state import InstanceState
from box.instance.journal_opening import JournalOpening
from box.instance.loader import LogLoader, SnapshotLoader
from box.instance.membership import Membership
from box.instance.mode import AccessMode
from box.instance.reconfigure import Reconfiguration, make_setters
from box.instance.startup import Startup
from box.instance.upgrade_at_start import upgrade_at_start
from box.iproto.server import IprotoServer
from box.replication.setup import Replication
from box.schema.system import initial_schema
from box.sql.prepared import PreparedStatements
from box.txn.dml import Dml
from box.txn.engines import make_engines
from box.txn.lifecycle import TransactionManager
from box.txn.limbo import Limbo
from box.txn.mvcc import MvccStorage
from box.txn.storage import TupleStorage
from box.txn.synchro import LimboDriver

__all__ = [
    "AccessMode",
    "Checkpoints",
    "CollectorWatch",
    "Dml",
    "InstanceState",
    "IprotoServer",
    "JournalOpening",
    "Limbo",
    "LimboDriver",
    "LogLoader",
    "Membership",
    "MvccStorage",
    "PreparedStatements",
    "Reconfiguration",
    "Releaser",
    "Replication",
    "SnapshotLoader",
    "Startup",
    "TransactionManager",
    "TupleStorage",
    "initial_schema",
    "make_engines",
    "make_setters",
    "upgrade_at_start",
]
