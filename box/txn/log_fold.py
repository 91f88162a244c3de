"""Executes runs of the log while an instance starts: many changes with one change of the index for each key.

```
rows of a run, decoded     space and plan are looked up once for each start of a body
each row                   changes what `_Fold.state` tells about its key; the index is only read
the end of the run         the index takes what is left of all keys
```

The state of a key is one of:

```
absent           the index has the tuple, if there is one
a number         the tuple of that row
a list           the decoded fields of a changed tuple
bytes, None      a tuple, no tuple
```

Rows that need more than this code, as operations on parts of fields do, take the functions of `box.txn.fast_path`, with
the state in place of the index. A wrong row ends the run. As the index is unchanged then, the transactions before that
row are executed again, and the caller finds the error.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Final

from box.data.codec import pack, unpack
from box.data.marks import FLOAT32
from box.data.update import FieldChecks, change_fields, check_operations
from box.errors import BoxError
from box.txn.fast_path import CHANGES
from box.wire.change import DELETE, REPLACE, UPDATE, decode_change
from box.wire.constants import Key
from box.wire.split_bodies import decode_rests, index_base_of, is_doubtful, space_id_of

if TYPE_CHECKING:
    from box.data.keydef import SortKey
    from box.index.base import Entry
    from box.journal.plain_runs import PlainRun
    from box.schema.space import Space
    from box.txn.fast_run import SpaceSource
    from box.txn.write_plan import Planner, WritePlan

_ABSENT: Final = object()
"""The state of a key that no row has changed."""
_NO_TUPLE: Final[list[Any]] = []
"""Instead of the fields of a tuple: there is none."""
_TUPLE_KEY: Final = int(Key.TUPLE)
_CHECKED_MAX: Final = 128
"""The number of fields at the beginning of a tuple that operations may change without the functions of `fast_path`."""


def _checks_of(space: Space, plan: WritePlan) -> FieldChecks:
    """Return predicates of the fields that operations may change; those of the primary key may not."""
    key_fields = {part.fieldno for part in space.index(0).definition.parts}
    checks = {number: plan.format.field_checker(number) for number in range(_CHECKED_MAX) if number not in key_fields}
    return {number: check for number, check in checks.items() if check is not None}


class _Fold:
    """Changes of one space that its primary index does not have yet."""

    def __init__(self, space: Space, plan: WritePlan, ignored: list[BoxError]) -> None:
        self.space = space
        self.plan = plan
        self.state: dict[SortKey, Any] = {}
        self.rests: list[bytes] = []
        self.values: list[Any] = []
        """The rows that the state refers to, and their decoded values."""
        self.checks = _checks_of(space, plan)
        self.has_doubles = bool(plan.format.double_fields)
        self.size_limit = 0
        """The size in bytes up to which no row of the run can make a tuple too large."""
        overlay = self._overlay = copy(plan)
        overlay.ignore = ignored.append
        overlay.find, overlay.put, overlay.remove = self._find, self._put, self._remove
        overlay.add, overlay.replace = self._add, self._replace

    # -- the state in place of the index

    def _find(self, sort_key: SortKey) -> bytes | None:
        entry = self.state.get(sort_key, _ABSENT)
        if entry is _ABSENT:
            entry = self.plan.find(sort_key)
        elif type(entry) is int:
            entry = self.rests[entry]
        elif type(entry) is list:
            entry = pack(entry)
        return entry  # type: ignore[no-any-return]

    def _put(self, sort_key: SortKey, entry: Entry) -> None:
        self.state[sort_key] = entry

    def _add(self, sort_key: SortKey, entry: Entry) -> bool:
        if self._find(sort_key) is not None:
            return False
        self.state[sort_key] = entry
        return True

    def _replace(self, sort_key: SortKey, entry: Entry) -> Entry | None:
        old = self._find(sort_key)
        self.state[sort_key] = entry
        return old

    def _remove(self, sort_key: SortKey) -> None:
        self.state[sort_key] = None

    # -- changes

    def change(self, kind: int, body: bytes) -> None:
        """Execute a change of any kind.

        Raises:
            BoxError: it fails.
        """
        _, request = decode_change(kind, body)
        argument: Any = request.tuple if kind <= REPLACE else request
        CHANGES[kind](self._overlay, self.space, argument)

    def fields_of(self, key: SortKey) -> list[Any] | None:
        """Return the fields of the tuple with a key, which are its state then, or `_NO_TUPLE`.

        Returns None if it takes more than changing the fields to change it.
        """
        entry = self.state.get(key, _ABSENT)
        old: bytes | None
        if type(entry) is int:
            old, fields = self.rests[entry], self.values[entry]
        else:
            old = self.plan.find(key) if entry is _ABSENT else entry
            if old is None:
                return _NO_TUPLE
            if len(old) > self.size_limit:
                return None
            fields = unpack(old)
        if pack(fields) != old:
            return None
        self.state[key] = fields
        return fields  # type: ignore[no-any-return]

    def tuple_after(self, ops: Any, rest: bytes) -> bytes | None:
        """Return the tuple of an UPSERT, or None if encoding its decoded operations does not give back their bytes."""
        packed = pack(ops)
        return rest[len(packed) + 1 :] if rest.startswith(packed) else None

    def insert(self, key: SortKey, ops: Any, rest: bytes, index_base: int) -> bool:
        """Insert the tuple of an UPSERT, whose operations are decoded, under a key that has none.

        Returns False, having done nothing, if its bytes are not known.

        Raises:
            BoxError: the operations are malformed.
        """
        raw = self.tuple_after(ops, rest)
        if raw is None:
            return False
        check_operations(ops, fmt=self.plan.format, index_base=index_base)
        self.state[key] = raw
        return True

    def settle(self) -> None:
        """Give the changes to the index."""
        rests = self.rests
        keys, raws = [], []
        changed: list[tuple[SortKey, bytes | None]] = []
        for key, entry in self.state.items():
            if type(entry) is int:
                keys.append(key)
                raws.append(rests[entry])
            else:
                changed.append((key, pack(entry) if type(entry) is list else entry))
        if keys:
            self.plan.replace_all(keys, raws)
        self.plan.set_many(changed)


_Start = tuple[dict[Any, Any], Any, Any, Any, _Fold, Any, FieldChecks, int]
"""What a start of a body stands for: the state of its space, `fits`, `key_of` and `parse`, the fold, the format and the
checks of changed fields, and the number that operations use for the first field."""


class LogFold:
    """Executes runs of plain transactions. `counters` are those of `Dml`."""

    def __init__(self, planner: Planner, counters: list[int]) -> None:
        self._planner = planner
        self._counters = counters
        self._starts: dict[bytes, _Start] = {}
        self._ignored: list[BoxError] = []
        """Errors of upserts, which are reported when the indexes take the changes."""

    def forget(self) -> None:
        """Forget the spaces of the rows so far; they are found again when they are needed."""
        self._starts.clear()

    def execute(self, spaces: SpaceSource, run: PlainRun, first: int, stop: int) -> int:
        """Execute the rows from `first` to `stop`, which are whole transactions, as far as they are usual.

        Returns the number of the first row that was not executed, where a transaction begins.
        """
        while first < stop:
            starts = run.starts[first:stop]
            if not starts or not self._prepare(spaces, starts, run.rests[first:stop]):
                return first
            failed = self._execute(run, first, stop, starts)
            if failed == stop:
                kinds = run.kinds[first:stop]
                for kind in set(kinds):
                    self._counters[kind] += kinds.count(kind)
                return stop
            run.values = None  # the fields of some have changed
            stop = run.end_of_last(failed)
        return first

    def _prepare(self, spaces: SpaceSource, starts: list[bytes], rests: list[bytes]) -> bool:
        """Find the spaces of rows. Returns False if one of them is not usual, or if there may not be enough memory."""
        # The fields that operations have changed may take up to 8 bytes more than their arguments.
        size = 2 * sum(map(len, rests))
        checked: dict[int, Space] = {}
        for start in set(starts):
            space_id = space_id_of(start)
            space = checked.get(space_id)
            try:
                space = space or spaces.space(space_id)
            except BoxError:
                return False
            plan: WritePlan = space.write_plan or self._planner.plan(space)
            if space_id not in checked:
                need = size + space.index(0).weight * len(rests) if plan.is_usual else 0
                if not plan.is_usual or not plan.has_one_index or plan.is_sync or space.has_triggers:
                    return False
                if size > plan.max_size or not plan.memory.extend(need):
                    return False
                checked[space_id] = space
            known = self._starts.get(start)
            if known is None or known[4].plan is not plan:
                known = self._starts[start] = self._learn(start, space, plan)
            known[4].size_limit = plan.max_size - size
        return True

    def _learn(self, start: bytes, space: Space, plan: WritePlan) -> _Start:
        fold = next((known[4] for known in self._starts.values() if known[4].plan is plan), None) or _Fold(
            space, plan, self._ignored
        )
        fmt = plan.format
        return fold.state, fmt.fits, plan.key_of, plan.parse, fold, fmt, fold.checks, index_base_of(start)

    def _execute(self, run: PlainRun, first: int, stop: int, starts: list[bytes]) -> int:
        """Execute rows. Returns the number of the first wrong one, before which nothing was executed, or `stop`."""
        rests = run.rests[first:stop]
        values = decode_rests(starts, rests) if run.values is None else run.values[first:stop]
        if values is None:
            return first
        kinds = run.kinds[first:stop]
        kind, start = kinds[0], starts[0]
        is_uniform = kind <= REPLACE and kinds.count(kind) == len(kinds) and starts.count(start) == len(starts)
        if is_uniform and _store_all(self._starts[start][4].plan, kind, rests, values):
            return stop
        folds = {self._starts[start][4] for start in set(starts)}
        for fold in folds:
            fold.rests, fold.values = rests, values
        done = _fold_rows(self._starts, kinds, starts, rests, values)
        for fold in folds:
            if done == len(rests):
                fold.settle()
            fold.state.clear()
        for error in self._ignored if done == len(rests) else ():
            self._planner.on_ignored(error)
        self._ignored.clear()
        return first + done


def _store_all(plan: WritePlan, kind: int, raws: list[bytes], values: list[Any]) -> bool:
    """Insert or replace tuples, whose decoded values are given. Returns False, having done nothing, if one of them does
    not fit or may be a duplicate.
    """
    if not plan.format.fits_all(raws, values):
        return False
    keys = list(map(plan.key_of, values))
    if kind == REPLACE:
        plan.replace_all(keys, raws)
        return True
    added = plan.add_new(keys, raws)
    if added < len(raws):
        for key in keys[:added]:
            plan.remove(key)
    return added == len(raws)


def _fold_rows(
    known: dict[bytes, _Start], kinds: list[int], starts: list[bytes], rests: list[bytes], values: list[Any]
) -> int:
    """Put rows into the states of their spaces. Returns the number of the first one that fails, or that of all rows."""
    number = -1
    is_certain = not is_doubtful(b"".join(rests))
    try:
        for number, (kind, start, rest, value) in enumerate(zip(kinds, starts, rests, values, strict=True)):
            state, fits, key_of, parse, fold, fmt, checks, base = known[start]
            if kind <= REPLACE:
                if fits(rest, value):
                    key = key_of(value)
                    if kind == REPLACE or (state[key] if key in state else fold.plan.find(key)) is None:
                        state[key] = number
                        continue
            elif kind == DELETE:
                if type(value) is list:
                    state[parse(value, True)] = None
                    continue
            elif kind == UPDATE:
                key_values, mark, ops = value
                if mark == _TUPLE_KEY and type(key_values) is list:
                    key = parse(key_values, True)
                    fields = state.get(key)
                    if type(fields) is not list:
                        fields = fold.fields_of(key)
                    if fields is _NO_TUPLE or (fields is not None and change_fields(fields, ops, fmt, base, checks)):
                        continue
            else:
                ops, mark, fields = value
                # The mark of a float may be in the operations; only one in a field of type double is wrong.
                raw = fold.tuple_after(ops, rest) if fold.has_doubles and FLOAT32 in rest else rest
                if (
                    mark == _TUPLE_KEY
                    and type(mark) is int
                    and raw is not None
                    and (is_certain or not is_doubtful(rest))
                    and fits(raw, fields)
                ):
                    key = key_of(fields)
                    fields = state.get(key)
                    if type(fields) is not list:
                        fields = fold.fields_of(key)
                    if fields is _NO_TUPLE:
                        if fold.insert(key, ops, rest, base):
                            continue
                    elif fields is not None and change_fields(fields, ops, fmt, base, checks):
                        continue
            fold.change(kind, start + rest)
    except BoxError:
        return number
    return len(rests)
