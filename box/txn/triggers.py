"""Runs the user triggers of a space: before_replace may change the outcome of a request, on_replace sees it.

Triggers may wait. Without versions of tuples others would see the changes of the transaction, so a wait undoes them all
(`TransactionManager.on_yield`), and the commit ends with TRANSACTION_YIELD. After an on_replace trigger has waited, the
statement still has its result, as in Tarantool; after a before_replace trigger it ends with TRANSACTION_YIELD.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from box.data.codec import unpack
from box.data.update import apply_update, apply_upsert, check_operations
from box.errors import ErrorCode, client_error, fiber_is_cancelled
from box.schema.space import NOTHING, Space
from box.txn.storage import changed_key
from box.txn.transaction import TxnState
from box.wire.change import DELETE, NOP, REPLACE, UPDATE, UPSERT, Request
from box.wire.constants import RequestType

_NAMES: dict[int, str] = {request_type.value: request_type.name for request_type in RequestType}
"""The names of request types; a look-up in an enum is slow."""

if TYPE_CHECKING:
    from box.session import Context
    from box.txn.storage import TupleStorage
    from box.txn.transaction import Statement, Transaction


async def before_replace(ctx: Context, txn: Transaction, space: Space, request: Request, storage: TupleStorage) -> None:
    """Call the triggers with a change that is not made yet, and change the request to the outcome that they want.

    Raises:
        TransactionYieldError: TRANSACTION_YIELD, a trigger has waited.
        ClientError: CANT_UPDATE_PRIMARY_KEY, or the error that the request would raise.
        BoxError: the error of a trigger.
    """
    if not (space.before_replace and space.run_triggers):
        return
    preview = preview_of(txn, space, request, storage)
    if preview is None:
        return
    old, new = preview
    outcome = new
    op = _NAMES[request.type]
    yields = txn.yields
    for trigger in list(space.before_replace):
        returned = await trigger.call(ctx, old, outcome, space.name, op)
        _check_open(txn)
        _check_not_yielded(txn, yields)
        if returned is None or isinstance(returned, bytes):
            outcome = returned
        elif returned is not NOTHING:
            raise AssertionError(f"a trigger returned {returned!r}")
    # As in Tarantool it matters which tuple a trigger returns, not what is in it: an equal tuple is stored.
    if outcome is new:
        return
    if old is not None and outcome is not None:
        _check_same_primary_key(space, old, outcome)
    if outcome is old:
        request.become(space.id, NOP)
    elif outcome is not None:
        request.become(space.id, REPLACE, tuple=outcome)
    else:
        assert old is not None
        request.become(space.id, DELETE, key=space.index(0).key_def.extract_values(unpack(old)))


async def on_replace(ctx: Context, txn: Transaction, space: Space, statement: Statement) -> None:
    """Call the triggers with the change of a statement.

    Raises:
        TransactionYieldError: TRANSACTION_YIELD, a trigger of a system space has waited.
        BoxError: the error of a trigger.
    """
    if not space.run_triggers or (statement.old is None and statement.new is None):
        return
    op = _NAMES[statement.type]
    yields = txn.yields
    for trigger in list(space.on_replace):
        await trigger.call(ctx, statement.old, statement.new, space.name, op)
        _check_open(txn)
    if space.system_trigger is not None:  # the definition must not follow a row that is undone already
        _check_not_yielded(txn, yields)


def preview_of(
    txn: Transaction, space: Space, request: Request, storage: TupleStorage
) -> tuple[bytes | None, bytes | None] | None:
    """Return the tuples before and after a request without executing it, or None if it would change nothing."""
    if request.type in (UPDATE, DELETE):
        old = storage.find_by(txn, space, request.index_id, request.key)
        if old is None:
            return None
        if request.type == DELETE:
            return old, None
        return old, apply_update(old, request.ops, fmt=space.format, index_base=request.index_base)
    raw = request.tuple
    old = None
    if space.primary is not None:
        key_def = space.primary.key_def
        old = storage.find(txn, space.primary, key_def.parse(key_def.extract_values(_fields(raw)), True))
    if request.type != UPSERT:
        return old, raw
    if old is None:
        check_operations(request.ops, fmt=space.format, index_base=request.index_base)
        return None, raw
    return old, apply_upsert(old, request.ops, fmt=space.format, index_base=request.index_base)


def _check_open(txn: Transaction) -> None:
    """Raise an error if the transaction was rolled back while a trigger waited, as when the fiber is cancelled."""
    if txn.state is TxnState.ABORTED:
        raise fiber_is_cancelled()


def _check_not_yielded(txn: Transaction, yields: int) -> None:
    # The statement is undone already. A transaction that was aborted before goes on until its commit, as in Tarantool.
    if txn.yields != yields:
        raise client_error(ErrorCode.TRANSACTION_YIELD)


def _check_same_primary_key(space: Space, old: bytes, new: bytes) -> None:
    primary = space.primary
    if primary is not None and primary.key_of(unpack(old)) != primary.key_of(space.format.validate(new)):
        raise changed_key(primary, space)


def _fields(raw: bytes) -> list[Any]:
    fields = unpack(raw)
    if type(fields) is not list:
        raise client_error(ErrorCode.TUPLE_NOT_ARRAY)
    return fields
