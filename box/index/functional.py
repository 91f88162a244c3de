"""TREE by the result of a function: the function returns a tuple's key, or any number of keys.

```
tuple -> function -> {'a', 1}                  one key
                     {{'a', 1}, {'b', 2}}      keys, of a function that is multikey
```

The order is that of other trees. The whole primary key is appended in a non-unique index, and in a unique one with
nullable parts: in the latter Tarantool 2.8 never treats keys as equal, nil or not, and accepts any number of them. The
function is declared deterministic, so its latest results are cached: a change needs a tuple's keys twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, Protocol

from box.data.keydef import TOP, KeyDef, SortKey
from box.errors import BoxError, ErrorCode, client_error
from box.index.base import Cursor, Entry, Index, IndexDef
from box.index.iterator_type import IteratorType
from box.index.packed import pack_parts, parts_packer
from box.index.tree import TreeIndex, excluded_fields, has_nil

_KEPT_RESULTS: Final = 64
"""The tuples whose keys are kept: one change asks several times for the keys of the old and of the new tuple."""


_MOST_PREPARED: Final = 1 << 17
"""The bytes of tuples up to which one call of Lua for all of them is cheaper than a call for each."""


class KeyFunction(Protocol):
    """The function of a functional index."""

    is_multikey: bool

    def __call__(self, raw: bytes) -> list[Any] | BoxError:
        """Return the values for a tuple, or the error if they cannot be in a tuple. Raises BoxError."""

    def many(self, tuples: list[bytes]) -> list[list[Any]]:
        """Return the values for tuples up to the first one for which the function fails, or up to any other. Raises
        nothing.
        """


class FunctionalTreeIndex(TreeIndex):
    """An ordered index by the results of a function."""

    has_many_keys = True
    effort = 4

    def __init__(
        self,
        definition: IndexDef,
        primary: KeyDef | None = None,
        *,
        space_name: str = "",
        engine: str = "memtx",
        function: KeyFunction,
    ) -> None:
        super().__init__(definition, primary, space_name=space_name, engine=engine)
        self._function = function
        self._excluded = excluded_fields(definition)
        is_exact = definition.unique and not self.key_def.is_nullable
        self._primary_of = None if is_exact or primary is None else primary.extract
        self._is_bare_primary = primary is not None and len(primary) == 1
        self._results: dict[bytes, list[SortKey]] = {}
        self._values: dict[bytes, list[Any]] = {}
        """The values of tuples whose keys will be asked for next."""
        self._pack = parts_packer(self.cmp_def) if self._is_packed else None

    def _read_from(self, tree: Any) -> None:
        super()._read_from(tree)
        if self.definition.unique and self.key_def.is_nullable:
            self.find = self._find

    def _find(self, key: SortKey) -> Entry | None:
        """Return the entry of a whole key of the tree, or the first one of a user's key."""
        own = len(self.key_def)
        if len(key) > (2 if own == 1 else own):
            found: Entry | None = self._tree.get(key)
            return found
        _, found = next(iter(self._tree.items(key, (*key, TOP), False, True)), (None, None))
        return found

    def _full_key(self, own: KeyDef, primary: KeyDef) -> KeyDef:
        # No part is left out as a duplicate: own parts refer to the function's result, primary parts to the tuple.
        return KeyDef(own.parts + primary.parts)

    @cached_property
    def position_def(self) -> KeyDef:
        return self.key_def if self.primary is None else self._full_key(self.key_def, self.primary)

    def key_of_position(self, values: list[Any]) -> SortKey:
        parts = self.position_def.parse_parts(values)
        if self._primary_of is None:
            parts = parts[: len(self.key_def)]
        elif self._is_one_pair:
            return (*parts[0], *parts[1:])
        return pack_parts(parts) if self._is_packed else parts if len(parts) > 1 else parts[0]

    def values_of_place(self, raw: bytes, fields: list[Any], key: SortKey) -> list[Any]:
        tail = [] if self.primary is None else self.primary.extract_values(fields)
        candidates = ([*values, *tail] for values in self._evaluate(raw))
        return next(values for values in candidates if self.key_of_position(values) == key)

    def keys_of(self, raw: bytes, fields: list[Any]) -> Sequence[SortKey]:
        if self._excluded and has_nil(fields, self._excluded):
            return ()
        known = self._results.get(raw)
        if known is not None:
            return known
        found, sort_key = self._evaluate(raw), self._sort_key
        if len(found) == 1:
            keys = [sort_key(found[0], fields)]
        else:
            keys = list(dict.fromkeys([sort_key(values, fields) for values in found]))
        if len(self._results) >= _KEPT_RESULTS:
            self._results.clear()
        self._results[raw] = keys
        return keys

    def prepare(self, tuples: list[bytes]) -> None:
        is_small = sum(map(len, tuples)) <= _MOST_PREPARED
        self._values = dict(zip(tuples, self._function.many(tuples), strict=False)) if is_small else {}

    def stored_keys(self, raw: bytes, fields: list[Any]) -> Sequence[SortKey]:
        try:
            return self.keys_of(raw, fields)
        except BoxError:
            return ()  # the function has accepted this tuple before and fails now, so it is not deterministic

    def _evaluate(self, raw: bytes) -> list[Any]:
        """Call the function and return the keys for a tuple.

        Raises:
            ClientError: FUNC_INDEX_FUNC or FUNC_INDEX_FORMAT.
        """
        known = self._values.pop(raw, None) if self._values else None
        try:
            values = self._function(raw) if known is None else known
        except BoxError as error:
            raise self._failure("can't evaluate function", error) from None
        if isinstance(values, BoxError):
            raise self._failure("can't get a value returned by function", values)
        if len(values) != 1:
            raise self._misfit("to many values were returned")
        if not self._function.is_multikey:
            return values
        keys = values[0]
        if not isinstance(keys, list):
            raise self._misfit("a multikey function mustn't return a scalar")
        return keys

    def _sort_key(self, values: Any, fields: list[Any]) -> SortKey:
        own = self.key_def
        if not isinstance(values, list):
            raise self._misfit("supplied key type is invalid: expected array")
        if len(values) != len(own):
            raise self._misfit(ErrorCode.EXACT_MATCH.template % (len(own), len(values)))
        try:
            if own.is_nullable:
                parts = own.parse_parts(values)
            else:  # compiled
                parts = own.parse(values) if len(own) > 1 else (own.parse(values),)
        except BoxError as error:
            raise self._misfit("key does not follow functional index definition", error) from None
        if self._primary_of is not None:
            tail = self._primary_of(fields)
            prefix = parts[0] if self._is_one_pair else parts
            key = (*prefix, tail) if self._is_bare_primary else prefix + tail
            return key if self._pack is None else self._pack(key)
        return parts[0] if len(parts) == 1 else parts

    def _failure(self, text: str, cause: BoxError) -> BoxError:
        error = client_error(ErrorCode.FUNC_INDEX_FUNC, self.name, self.space_name, text)
        error.prev = cause
        return error

    def _misfit(self, text: str, cause: BoxError | None = None) -> BoxError:
        error = client_error(ErrorCode.FUNC_INDEX_FORMAT, self.name, self.space_name, text)
        error.prev = cause
        return error


class DisabledIndex(Index):
    """A functional index whose function is unknown, perhaps not yet loaded: it has no keys and refuses reads."""

    has_many_keys = True

    def __init__(
        self, definition: IndexDef, primary: KeyDef | None = None, *, space_name: str = "", engine: str = "memtx"
    ) -> None:
        super().__init__(definition, primary, space_name=space_name, engine=engine)
        self.find = self._find
        self.key_of = self._key_of  # plans of transactions take it, and call `keys_of`

    def _find(self, sort_key: SortKey) -> Entry | None:
        raise self.unsupported_feature("get()")

    def _key_of(self, fields: list[Any]) -> SortKey:
        raise self.unsupported_feature("get()")

    def keys_of(self, raw: bytes, fields: list[Any]) -> Sequence[SortKey]:
        return ()

    def __len__(self) -> int:
        raise self.unsupported_feature("size()")

    def __repr__(self) -> str:
        return f"<{self.definition.type} index '{self.definition.name}' of '{self.space_name}', disabled>"

    def put(self, sort_key: SortKey, entry: Entry) -> None:
        """Do nothing: the index has no keys."""

    def replace(self, sort_key: SortKey, entry: Entry) -> Entry | None:
        """Do nothing: the index has no keys."""
        return None

    def remove(self, sort_key: SortKey) -> None:
        """Do nothing: the index has no keys."""

    def clear(self) -> None:
        """Do nothing: the index is empty."""

    def values_list(self) -> list[Entry]:
        return []

    def random(self, seed: int) -> Entry | None:
        raise self.unsupported_feature("random()")

    def bsize(self) -> int:
        return 0

    def get(self, values: list[Any]) -> Entry | None:
        return self.find(self.key_def.parse(values, True))

    def cursor(self, iterator: int, values: list[Any]) -> Cursor:
        self.iterator_type(iterator)
        self.key_def.parse_parts(values)
        raise self.unsupported_feature("read view")

    def count(self, iterator: int, values: list[Any]) -> int:
        return len(self.cursor(iterator, values).fetch(1))

    def min(self, values: list[Any]) -> Entry | None:
        return next(iter(self.cursor(IteratorType.GE, values).fetch(1)), None)

    def max(self, values: list[Any]) -> Entry | None:
        return next(iter(self.cursor(IteratorType.LE, values).fetch(1)), None)
