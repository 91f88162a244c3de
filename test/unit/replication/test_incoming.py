"""Rows of a peer are grouped into transactions; rows that form none are errors of the peer."""

from __future__ import annotations

import gc
from typing import Any
from uuid import UUID

import pytest

from box.errors import BoxError, ErrorCode, client_error
from box.replication.incoming import IncomingTransaction, expect_ok
from box.wire.constants import TYPE_ERROR, RequestType
from box.wire.error import encode_error_body
from box.wire.messages import heartbeat_row
from box.wire.row import Row


def incoming() -> IncomingTransaction:
    return IncomingTransaction(UUID(int=5))


def row(lsn: int, replica_id: int = 1, kind: int = RequestType.REPLACE, **fields: Any) -> Row:
    return Row(kind, replica_id, lsn, 1.0, body=b"\x80", **fields)


def test_transactions_of_one_row_and_of_several() -> None:
    transaction = incoming()
    assert transaction.add(row(4)) == [row(4)]
    rows = [row(5, tsn=5, is_commit=False), row(6, tsn=5, is_commit=False), row(7, tsn=5)]
    assert [transaction.add(each) for each in rows] == [None, None, rows]
    assert transaction.add(row(8, 2)) == [row(8, 2)]


@pytest.mark.parametrize(
    "signal", [heartbeat_row(1, 1.0), heartbeat_row(0, 1.0), Row(RequestType.RAFT, 1), row(0, kind=RequestType.NOP)]
)
def test_signals_stand_alone(signal: Row) -> None:
    assert incoming().add(signal) == [signal]


def test_errors_of_a_transaction() -> None:
    begun = incoming()
    begun.add(row(5, tsn=5, is_commit=False))
    with pytest.raises(BoxError, match="replication does not support interleaving transactions"):
        begun.add(row(6))
    with pytest.raises(BoxError, match="Transaction id must be equal to LSN of the first row in the transaction"):
        incoming().add(row(6, tsn=5))
    with pytest.raises(BoxError, match="Replica 32 is not registered"):
        incoming().add(row(1, 32))
    refusal = client_error(ErrorCode.READONLY)
    with pytest.raises(BoxError, match="read-only"):
        incoming().add(Row(TYPE_ERROR | refusal.code, body=encode_error_body(refusal)))


@pytest.mark.parametrize(
    ("kind", "lsn"),
    [(77, 5), (77, 0), (RequestType.CALL, 5), (RequestType.RAFT, 5), (RequestType.OK, 5), (RequestType.JOIN, 0)],
)
def test_unknown_types_of_rows_are_refused(kind: int, lsn: int) -> None:
    """A row whose type is neither a change of data nor a signal is an error, and never skipped."""
    with pytest.raises(BoxError, match=f"Unknown request type {kind}"):
        incoming().add(row(lsn, kind=kind))


def test_answers() -> None:
    expect_ok(Row(RequestType.OK))
    with pytest.raises(BoxError, match="Unknown request type 2"):
        expect_ok(row(1, kind=RequestType.INSERT))


def test_the_collector_does_not_look_at_rows_of_a_large_transaction() -> None:
    """The garbage collector does not track the rows of a large transaction, so that collections do not visit them."""
    transaction = incoming()
    for lsn in range(1, 1000):
        transaction.add(row(lsn, tsn=1, is_commit=False))
    rows = transaction.add(row(1000, tsn=1))
    assert rows is not None
    assert sum(map(gc.is_tracked, rows)) < 256
