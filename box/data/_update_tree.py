"""A tuple that is opened along the paths of the update operations that act on it.

The states of a place, and what an operation below it makes of them:

    Raw    untouched bytes                  -> Bar
    Bar    bytes with one operation inside  -> Array or Map where the second path leaves the first,
                                               under a Route if they have steps in common
    Route  bytes with one Array or Map inside; follows its path, or branches like a Bar
    Array  a list of places                 -> stays
    Map    keys with places, and raw pairs  -> stays
    Done   the result of an operation       -> error: one operation for each field ('=' in an Array or Map may repeat)

A Bar keeps the order of a map's keys. A Map puts the changed keys first, the last changed one foremost, as Tarantool
stores them. Only what is needed is opened, so that all other bytes stay exactly as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from box.data._update_ops import Operation, Single, pack_result
from box.data.codec import pack, pack_array_header, pack_map_header, read_container, skip, split_array, unpack
from box.data.format import TupleFormat
from box.data.json_path import ANY_INDEX, Path, Step
from box.data.types import FieldType


class Raw:
    """A place whose bytes no operation has touched."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def store(self) -> bytes:
        return self.data


class Done:
    """A place with a value that an operation has set or computed."""

    __slots__ = ("data", "value")

    def __init__(self, data: bytes, value: Any = None) -> None:
        self.data = data
        self.value = value

    def store(self) -> bytes:
        return self.data

    def store_as(self, kind: FieldType) -> bytes:
        """Return the bytes for a field of a type: `double` accepts no single-precision float."""
        return pack_result(self.value, True) if type(self.value) is Single and kind is FieldType.DOUBLE else self.data


class Bar:
    """A place with one operation inside, at `steps` of `source`; `data` is the result."""

    __slots__ = ("changes_container", "data", "operation", "source", "steps")

    def __init__(self, source: bytes, operation: Operation, form: TupleFormat) -> None:
        """Apply the operation; raises before anything is changed."""
        self.source = source
        self.operation = operation
        place = _Place(source, operation)
        first = len(operation.steps)
        place.locate()
        self.steps: Path = tuple(operation.steps[first:])
        self.changes_container = operation.opcode in "!#" or not place.found
        self.data = place.apply(form)

    def store(self) -> bytes:
        return self.data


class Route:
    """A place with an opened container `child` at `steps` of `source`."""

    __slots__ = ("child", "source", "steps")

    def __init__(self, source: bytes, steps: Path, child: Node) -> None:
        self.source = source
        self.steps = steps
        self.child = child

    def store(self) -> bytes:
        start = 0
        for step in self.steps:
            start = _descend(self.source, start, step)
        return self.source[:start] + self.child.store() + self.source[skip(self.source, start) :]


class Array:
    """An opened array."""

    __slots__ = ("form", "items")

    def __init__(self, raw: bytes, form: TupleFormat) -> None:
        self.items: list[Node] = [Raw(element) for element in split_array(raw)]
        self.form = form

    def store(self) -> bytes:
        return pack_array_header(len(self.items)) + b"".join([item.store() for item in self.items])

    def store_root(self) -> bytes:
        """Return the bytes of a whole tuple, with results in the types of its fields."""
        parts = [
            item.store_as(self.form.field_type((number,))) if type(item) is Done else item.store()
            for number, item in enumerate(self.items)
        ]
        return pack_array_header(len(parts)) + b"".join(parts)

    def exchange(self, step: Step, change: Callable[[Raw], Node]) -> None:
        """Replace an unchanged element at a step by `change(element)`."""
        assert isinstance(step, int)
        old = self.items[step]
        assert isinstance(old, Raw)
        self.items[step] = change(old)

    def apply(self, operation: Operation, step: Step) -> None:
        if type(step) is not int:
            raise operation.error("can't update an array by a non-numeric index")
        if not operation.is_last_step:
            number = self._existing(operation, step)
            self.items[number] = apply_below(self.items[number], operation, self.form)
        elif operation.opcode == "#":
            self._delete(operation, step)
        elif operation.opcode == "!" or (operation.opcode == "=" and step >= len(self.items)):
            self._insert(operation, step)
        else:
            number = self._existing(operation, step)
            self.items[number] = _changed(self.items[number], operation, self.form)

    def _existing(self, operation: Operation, step: int, size: int | None = None) -> int:
        size = len(self.items) if size is None else size
        number = step + size if step < 0 else step
        if not 0 <= number < size:
            raise operation.no_such_field()
        if operation.path is None:
            operation.fieldno = number
        return number

    def _insert(self, operation: Operation, step: int) -> None:
        """Insert a value. In the tuple itself, nils fill a gap before a field beyond the end."""
        if step > len(self.items) and operation.is_for_root:
            self.items += [Raw(b"\xc0")] * (step - len(self.items))  # c0 is nil
        self.items.insert(self._existing(operation, step, len(self.items) + 1), Raw(operation.raw))

    def _delete(self, operation: Operation, step: int) -> None:
        if step < len(self.items):
            number = self._existing(operation, step)
            del self.items[number : number + operation.argument]


class _MapItem:
    """A key with its place (the first item may have no key), and the raw pairs that followed it in the original map."""

    __slots__ = ("key", "node", "tail")

    def __init__(self, key: str | None, node: Node | None, tail: list[tuple[bytes, bytes]]) -> None:
        self.key = key
        self.node = node
        self.tail = tail


class Map:
    """An opened map. Newly opened keys go to the front of `items`."""

    __slots__ = ("form", "items")

    def __init__(self, raw: bytes, form: TupleFormat) -> None:
        self.form = form
        self.items = [_MapItem(None, None, _split_map(raw))]

    def exchange(self, step: Step, change: Callable[[Raw], Node]) -> None:
        """Open the key at a step and replace its value by `change(value)`."""
        tail = self.items[0].tail
        number = _position(tail, str(step))
        node = change(Raw(tail[number][1]))
        self.items = [_MapItem(str(step), node, tail[number + 1 :]), _MapItem(None, None, tail[:number])]

    def store(self) -> bytes:
        pairs = [pack(item.key) + item.node.store() for item in self.items if item.node is not None]
        raw_pairs = [key + value for item in self.items for key, value in item.tail]
        return pack_map_header(len(pairs) + len(raw_pairs)) + b"".join(pairs + raw_pairs)

    def apply(self, operation: Operation, step: Step) -> None:
        if not isinstance(step, str):
            raise operation.error("can't update a map by not a string key")
        item = self._find(step)
        if not operation.is_last_step:
            item = self._existing(operation, item)
            assert item.node is not None
            item.node = apply_below(item.node, operation, self.form)
        elif operation.opcode == "#":
            self._delete(operation, item)
        elif operation.opcode == "!" or (operation.opcode == "=" and item is None):
            if item is not None:
                raise operation.error("the key exists already")
            self.items.insert(0, _MapItem(step, Raw(operation.raw), []))
        else:
            item = self._existing(operation, item)
            assert item.node is not None
            item.node = _changed(item.node, operation, self.form)

    def _existing(self, operation: Operation, item: _MapItem | None) -> _MapItem:
        if item is None:
            raise operation.no_such_field()
        return item

    def _delete(self, operation: Operation, item: _MapItem | None) -> None:
        if operation.argument != 1:
            raise operation.error("can delete only 1 field from a map in a row")
        if item is not None:
            item.key = item.node = None

    def _find(self, key: str) -> _MapItem | None:
        """Return the item of a key, opening it if it is in a raw tail."""
        for item in self.items:
            if item.key == key:
                return item
        for item in self.items:
            number = _position(item.tail, key)
            if number < 0:
                continue
            node, rest = Raw(item.tail[number][1]), item.tail[number + 1 :]
            if number == 0 and item.key is None:
                item.key, item.node, item.tail = key, node, rest
                return item
            del item.tail[number:]
            self.items.insert(0, _MapItem(key, node, rest))
            return self.items[0]
        return None


Node = Raw | Done | Bar | Route | Array | Map


def apply_below(node: Node, operation: Operation, form: TupleFormat) -> Node:
    """Apply an operation whose path continues inside `node`. Returns the new state of the place."""
    if isinstance(node, Raw):
        return Bar(node.data, operation, form)
    if isinstance(node, (Array, Map)):
        node.apply(operation, operation.next_step())
        return node
    if isinstance(node, Done):
        raise operation.double_update()
    return _branch(node, operation, form)


def _changed(node: Node, operation: Operation, form: TupleFormat) -> Done:
    """Return the place itself after an operation that sets or computes its value."""
    if operation.opcode == "=":
        return Done(operation.raw)
    if not isinstance(node, Raw):
        raise operation.double_update()
    value = operation.compute(unpack(node.data))
    return Done(pack_result(value, _is_double(operation, form)), value)


def _is_double(operation: Operation, form: TupleFormat) -> bool:
    if not operation.steps:
        return False  # the number of a top-level field is final only when the tuple is stored: `store_as` decides
    return form.field_type((operation.fieldno, *operation.steps)) is FieldType.DOUBLE


def _branch(node: Bar | Route, operation: Operation, form: TupleFormat) -> Node:
    """Open the container where the path of a second operation leaves that of the first."""
    position = 0
    for depth, old in enumerate(node.steps):
        new = None if operation.is_last_step else operation.next_step()
        if new != old:
            container = _open(node.source, position, operation, new, form)
            _put_child(container, node, depth, form)
            container.apply(operation, new)
            return Route(node.source, node.steps[:depth], container) if depth else container
        position = _descend(node.source, position, old)
    if isinstance(node, Bar):
        if not operation.is_last_step and position >= 0:
            _open(node.source, position, operation, operation.next_step(), form)
        raise operation.double_update()
    node.child = apply_below(node.child, operation, form)
    return node


def _open(source: bytes, position: int, operation: Operation, step: Step, form: TupleFormat) -> Array | Map:
    """Open the container at an offset, for an operation that continues with `step`."""
    raw = source[position : skip(source, position)]
    kind, _, _ = read_container(raw)
    if kind == "array":
        if type(step) is not int:
            raise operation.error("can not update array by non-integer index")
        return Array(raw, form)
    if kind == "map":
        if not isinstance(step, str):
            raise operation.error("can not update map by non-string key")
        return Map(raw, form)
    raise operation.no_such_field()


def _put_child(container: Array | Map, node: Bar | Route, depth: int, form: TupleFormat) -> None:
    """Move the change that `node` holds into the container at `depth` of its path."""
    step, rest = node.steps[depth], node.steps[depth + 1 :]
    if isinstance(node, Bar) and not rest and node.changes_container:
        container.apply(node.operation.again(()), step)
        return

    def change(old: Raw) -> Node:
        if isinstance(node, Route):
            return Route(old.data, rest, node.child) if rest else node.child
        return Bar(old.data, node.operation.again(rest), form) if rest else _changed(old, node.operation, form)

    container.exchange(step, change)


class _Place:
    """The place in `source` that an operation's path leads to, as offsets.

    `parent` is the innermost container on the path, `key` the offset of the key in a map; the value is from `start` to
    `end`. If only the last step is missing and may be created, `found` is false and `start` is where it would be.
    """

    __slots__ = ("end", "found", "key", "operation", "parent", "source", "start", "step")

    def __init__(self, source: bytes, operation: Operation) -> None:
        self.source = source
        self.operation = operation
        self.parent = self.key = self.start = self.end = 0
        self.step: Step = None
        self.found = True

    def locate(self) -> None:
        source, operation = self.source, self.operation
        while not operation.is_last_step:
            self.step = operation.next_step()
            if self.step is ANY_INDEX:
                raise operation.error(f"invalid JSON in position {operation.rest.pos - 1}")
            self.parent = self.start
            self.key, self.start = _find_child(source, self.parent, self.step)
            if self.start < 0:
                self._locate_new()
                return
        self.end = skip(source, self.start)

    def _locate_new(self) -> None:
        operation = self.operation
        if operation.opcode not in "!=":
            raise operation.no_such_field()
        if not operation.is_last_step:
            operation.next_step()
            raise operation.no_such_field()
        kind, size, _ = read_container(self.source, self.parent)
        if type(self.step) is int:
            if kind != "array":
                raise operation.error("can not access by index a non-array field")
            if self.step > size:
                raise operation.no_such_field()
        elif kind != "map":
            raise operation.error("can not access by key a non-map field")
        self.found = False
        self.start = self.end = skip(self.source, self.parent)

    def apply(self, form: TupleFormat) -> bytes:
        """Return the source with the operation done."""
        operation = self.operation
        if operation.opcode == "#":
            return self._deleted()
        if operation.opcode == "!" or not self.found:
            return self._inserted()
        if operation.opcode == "=":
            new = operation.raw
        else:
            value = operation.compute(unpack(self.source[self.start : self.end]))
            new = pack_result(value, _is_double(operation, form))
        return self.source[: self.start] + new + self.source[self.end :]

    def _inserted(self) -> bytes:
        source = self.source
        kind, size, body = read_container(source, self.parent)
        if kind == "array":
            header, middle = pack_array_header(size + 1), source[body : self.start] + self.operation.raw
            return source[: self.parent] + header + middle + source[self.start :]
        if self.found:
            raise self.operation.error("the key exists already")
        pair = pack(self.step) + self.operation.raw
        return source[: self.parent] + pack_map_header(size + 1) + pair + source[body:]

    def _deleted(self) -> bytes:
        source = self.source
        kind, size, body = read_container(source, self.parent)
        count: int = self.operation.argument
        if kind == "map":
            if count != 1:
                raise self.operation.error("can delete only 1 field from a map in a row")
            header, start, end = pack_map_header(size - 1), self.key, self.end
        else:
            assert type(self.step) is int
            count = min(count, size - self.step)
            header, start, end = pack_array_header(size - count), self.start, self.end
            for _ in range(count - 1):
                end = skip(source, end)
        return source[: self.parent] + header + source[body:start] + source[end:]


def _find_child(source: bytes, position: int, step: Step) -> tuple[int, int]:
    """Return the offsets of key (in an array: of the value) and value at a step; (-1, -1) if there is none.

    An index also finds an integer key of a map, counted from one, as in Tarantool.
    """
    kind, count, position = read_container(source, position)
    if kind == "array" and type(step) is int and step < count:
        for _ in range(step):
            position = skip(source, position)
        return position, position
    if kind == "map":
        wanted = step + 1 if type(step) is int else step
        for _ in range(count):
            end = skip(source, position)
            key = unpack(source[position:end])
            if type(key) is type(wanted) and key == wanted:
                return position, end
            position = skip(source, end)
    return -1, -1


def _descend(source: bytes, position: int, step: Step) -> int:
    return _find_child(source, position, step)[1]


def _split_map(raw: bytes) -> list[tuple[bytes, bytes]]:
    _, count, position = read_container(raw)
    pairs = []
    for _ in range(count):
        middle = skip(raw, position)
        end = skip(raw, middle)
        pairs.append((raw[position:middle], raw[middle:end]))
        position = end
    return pairs


def _position(pairs: list[tuple[bytes, bytes]], key: str) -> int:
    for number, (raw_key, _) in enumerate(pairs):
        if unpack(raw_key) == key:
            return number
    return -1
