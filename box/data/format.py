"""Tuple formats: the rules for the fields of a space's tuples.

A format joins the space's field list with the parts of all its indexes, as in Tarantool. If an index part is stricter
than the field, the part's type counts. A field that only indexes mention takes its nullability from the first part.
JSON paths of index parts add a tree of inner fields.

Order of checks (`tuple_format.c` of 2.8.1): field count, then the type of every present field from left to right, then
the first required field that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from msgpack import unpackb

from box.data.codec import (
    decode_ext,
    ext_hook_for,
    pack_usual,
    split_array,
    unpack,
    unpack_heads,
    unpack_many,
    unpack_without_texts,
)
from box.data.json_path import ANY_INDEX, Path, Step, path_text
from box.data.keydef import KeyDef, PartDef
from box.data.marks import FLOAT32
from box.data.types import TYPE_SETS, FieldType, check_expression, checker, compiled_source, type_name_of
from box.errors import BoxError, ErrorCode, client_error

_LARGE: Final = 4096
"""The size in bytes from which tuples are decoded field by field; that costs as much as decoding some kilobytes at
once."""
_DECIMAL_TYPES: Final = frozenset((FieldType.DECIMAL, FieldType.NUMBER, FieldType.SCALAR, FieldType.ANY))
"""The types of key parts that can be decimals."""


@dataclass(frozen=True, slots=True)
class FieldDef:
    """A field of a space's format. `nullable_action` is Tarantool's: 'none' exactly if nil is allowed."""

    name: str | None = None
    type: FieldType = FieldType.ANY
    is_nullable: bool = False
    collation_id: int | None = None
    nullable_action: str = ""
    default: str | None = None

    @property
    def action(self) -> str:
        return self.nullable_action or ("none" if self.is_nullable else "default")


@dataclass(eq=False, repr=False, slots=True)
class _Node:
    """A field of the tree: a top-level field, or a place inside one on the path of an index part."""

    path: Path
    type: FieldType = FieldType.ANY
    action: str = "none"
    is_key_part: bool = False
    children: dict[Step, _Node] = field(default_factory=dict)

    @property
    def is_nullable(self) -> bool:
        return self.action == "none"

    @property
    def is_multikey(self) -> bool:
        """True if the only child stands for every element of the array."""
        return ANY_INDEX in self.children


class _FieldTree:
    """The tree of fields, with the places inside them that index parts name, and the slow check of tuples."""

    def __init__(self, fields: tuple[FieldDef, ...], key_defs: Sequence[KeyDef], exact_field_count: int) -> None:
        self.fields = fields
        self.exact_field_count = exact_field_count
        self.index_field_count = max((part.fieldno + 1 for key in key_defs for part in key.parts), default=0)
        self.nodes = [_Node((number,), item.type, item.action) for number, item in enumerate(fields)]
        for number in range(len(fields), self.index_field_count):
            self.nodes.append(_Node((number,)))
        self.inner: list[_Node] = []
        for key in key_defs:
            for part in key.parts:
                self._use_part(part)
        self.doubles = frozenset(n for n, node in enumerate(self.nodes) if node.type is FieldType.DOUBLE)
        key_types = {node.type for node in self.all_nodes() if node.is_key_part}
        self.has_uuid_key = FieldType.UUID in key_types
        self.has_decimal_key = not key_types.isdisjoint(_DECIMAL_TYPES)

    # --- building ---

    def _use_part(self, part: PartDef) -> None:
        node = self.nodes[part.fieldno]
        for step in part.steps:
            node = self._child(node, step)
        if part.fieldno >= len(self.fields) and not node.is_key_part:
            node.action = part.nullable_action
        self._merge_action(node, part)
        if node.type.contains(part.type):
            node.type = part.type
        elif not part.type.contains(node.type):
            code = ErrorCode.INDEX_PART_TYPE_MISMATCH if node.is_key_part else ErrorCode.FORMAT_MISMATCH_INDEX_PART
            raise client_error(code, self._node_text(node), node.type, part.type)
        node.is_key_part = True

    def _child(self, parent: _Node, step: Step) -> _Node:
        container = FieldType.MAP if isinstance(step, str) else FieldType.ARRAY
        if not parent.type.contains(container):
            raise client_error(ErrorCode.INDEX_PART_TYPE_MISMATCH, self._node_text(parent), parent.type, container)
        parent.type = container
        if parent.children and (step is ANY_INDEX) is not parent.is_multikey:
            raise client_error(ErrorCode.MULTIKEY_INDEX_MISMATCH, self._node_text(parent))
        parent.is_key_part = True
        if step not in parent.children:
            parent.children[step] = _Node((*parent.path, step))
            self.inner.append(parent.children[step])
        return parent.children[step]

    def _merge_action(self, node: _Node, part: PartDef) -> None:
        """Set the stricter action of node and part: they may differ only if one is the default."""
        if node.action == "default":
            if not part.is_nullable or part.path:
                node.action = part.nullable_action
        elif part.nullable_action == "default":
            if node.action == "none":
                node.action = "default"
        elif node.action != part.nullable_action:
            raise client_error(ErrorCode.ACTION_MISMATCH, self._node_text(node), node.action, part.nullable_action)

    # --- places ---

    def field_text(self, fieldno: int) -> str:
        """Return the name of a top-level field for messages: `2`, or `2 (name)`."""
        name = self.fields[fieldno].name if fieldno < len(self.fields) else None
        return str(fieldno + 1) if name is None else f"{fieldno + 1} ({name})"

    def _node_text(self, node: _Node) -> str:
        first, *inner = node.path
        return self.field_text(first) if isinstance(first, int) and not inner else path_text(node.path)

    def lookup(self, path: Path) -> _Node | None:
        """Return the node at a place, or None if the format has no rule for it."""
        first = path[0]
        if type(first) is not int or not 0 <= first < len(self.nodes):
            return None
        node: _Node | None = self.nodes[first]
        for step in path[1:]:
            node = node.children.get(step) if node is not None else None
        return node

    def all_nodes(self) -> Iterator[_Node]:
        yield from self.nodes
        yield from self.inner

    # --- checking ---

    def check(self, raw: bytes, fields: list[Any], after: Callable[[int, Any], None] | None = None) -> list[Any]:
        """Check every rule one by one and raise the error of the first violation. Returns `fields`.

        `after` is called with the number and the value of each field whose type is right.
        """
        if type(fields) is not list:
            raise client_error(ErrorCode.TUPLE_NOT_ARRAY)
        count = len(fields)
        if self.exact_field_count and count != self.exact_field_count:
            raise client_error(ErrorCode.EXACT_FIELD_COUNT, count, self.exact_field_count)
        missing: list[_Node] = []
        for number, node in enumerate(self.nodes):
            if number < count:
                self._check_value(node, fields[number], missing)
                if after is not None:
                    after(number, fields[number])
            else:
                self._note_missing(node, missing)
        if self.doubles and FLOAT32 in raw:
            self._check_single_floats(raw, count)
        if missing:
            raise client_error(ErrorCode.FIELD_MISSING, self._node_text(self._first(missing)))
        return fields

    def _check_value(self, node: _Node, value: Any, missing: list[_Node]) -> None:
        if not checker(node.type, node.is_nullable)(value):
            raise client_error(ErrorCode.FIELD_TYPE, self._node_text(node), node.type, type_name_of(value))
        if node.is_multikey:
            self._check_elements(node.children[ANY_INDEX], value)
            return
        children = node.children
        present = _steps_within(value, children)
        for step in present:
            self._check_value(children[step], value[step], missing)
        if len(present) < len(children):
            for step in children.keys() - set(present):
                self._note_missing(children[step], missing)

    def _check_elements(self, node: _Node, elements: list[Any] | None) -> None:
        """Check the elements of an array, each against everything that the node below it requires."""
        for element in elements or ():
            missing: list[_Node] = []
            self._check_value(node, element, missing)
            if not missing:
                continue
            if element is None:  # Tarantool dereferences a null pointer here; the error is our own
                raise client_error(ErrorCode.FIELD_TYPE, self._node_text(node), node.type, type_name_of(element))
            raise client_error(ErrorCode.FIELD_MISSING, self._node_text(self._first(missing)))

    def _note_missing(self, node: _Node, missing: list[_Node]) -> None:
        if not node.children and not node.is_nullable:
            missing.append(node)
        if not node.is_multikey:
            for child in node.children.values():
                self._note_missing(child, missing)

    def _first(self, missing: list[_Node]) -> _Node:
        order = list(self.all_nodes())
        return min(missing, key=order.index)

    def _check_single_floats(self, raw: bytes, count: int) -> None:
        elements = split_array(raw)
        for number in self.doubles:
            if number < count and elements[number][0] == FLOAT32:
                raise client_error(ErrorCode.FIELD_TYPE, self._node_text(self.nodes[number]), "double", "float")

    def has_single_float(self, raw: bytes, fields: Any) -> bool:
        """Return whether a field of type `double` has a single-precision float, a difference that decoding loses."""
        with suppress(ValueError, TypeError, OverflowError):
            if pack_usual(fields) == raw:  # which takes a twentieth of the time, and writes no such float
                return False
        elements = split_array(raw)
        return any(number < len(elements) and elements[number][0] == FLOAT32 for number in self.doubles)


class TupleFormat:
    """Checks tuples and knows their field names.

    `validate` is compiled. It refers to the tree of fields and not to the format, so that the format dies with its last
    user and a changed schema leaves nothing to the garbage collector.

    Raises:
        ClientError: FORMAT_MISMATCH_INDEX_PART, INDEX_PART_TYPE_MISMATCH or ACTION_MISMATCH, in the constructor.
    """

    def __init__(
        self, fields: Sequence[FieldDef] = (), key_defs: Sequence[KeyDef] = (), exact_field_count: int = 0
    ) -> None:
        self.fields = tuple(fields)
        self.exact_field_count = exact_field_count
        self.names: dict[str, int] = {}
        for number, definition in enumerate(self.fields):
            if definition.name is not None:
                self.names.setdefault(definition.name, number)
        tree = self._tree = _FieldTree(self.fields, key_defs, exact_field_count)
        self.index_field_count = tree.index_field_count
        self.double_fields = tree.doubles
        """The numbers of the top-level fields of type double."""

    @cached_property
    def validate(self) -> Callable[[bytes], list[Any]]:
        """A function that decodes a tuple and checks it.

        Large texts and binaries in fields that are part of no index may come out empty: decoding a text that is not
        UTF-8 takes 9 ms for each megabyte.

        It is compiled on first use: a space that gets its indexes one by one has many formats that see no tuple.
        """
        return _compile_validate(self._tree)

    @cached_property
    def validate_fields(self) -> Callable[[bytes, list[Any]], list[Any]]:
        """A function that checks a tuple whose fields are decoded already, and returns the fields as `validate` does.

        Values computed by an update may have types that decoding never gives; then the tuple is decoded again.
        """
        return _compile_validate_fields(self._tree, self.validate)

    def indexed_fields(self, raws: Sequence[bytes]) -> list[list[Any]]:
        """Return the fields of tuples that are known to be valid, at least the first fields that keys need of each
        tuple.
        """
        found = unpack_heads(raws, self.index_field_count) if _are_large(raws) else unpack_many(raws)
        return found or list(map(unpack, raws))

    @cached_property
    def validate_many(self) -> Callable[[Sequence[bytes]], list[list[Any]]]:
        """A function that decodes and checks many tuples, faster than `validate` for each; raises the first tuple's
        error.

        Large tuples may come without the fields for which the format has no rule. Decimals that are part of no key may
        come as zero, and UUIDs as the nil UUID.
        """
        return _compile_validate_many(self._tree, self.validate)

    @cached_property
    def fits_all(self) -> Callable[[Sequence[bytes], Sequence[Any]], bool]:
        """A function that checks tuples with their decoded values. It may return False for valid tuples, which then
        have to be checked with `validate`.
        """
        return _compile_fits_all(self._tree)

    @cached_property
    def fits(self) -> Callable[[bytes, Any], bool]:
        """A function that checks a tuple with its decoded value as `fits_all` does."""
        return _compile_fits(self._tree)

    def field_checker(self, fieldno: int) -> Callable[[Any], bool] | None:
        """Return a predicate: may a decoded value stand in a top-level field? Returns None if that depends on what is
        inside the value.
        """
        if fieldno >= len(self._tree.nodes):
            return checker(FieldType.ANY)
        node = self._tree.nodes[fieldno]
        return None if node.children else checker(node.type, node.is_nullable)

    def validate_naming(self, other: TupleFormat) -> Callable[[bytes], list[Any]]:
        """Return a function that checks a tuple as `validate` does. Its errors show the field names of `other`."""
        tree = copy(self._tree)
        tree.fields = other.fields

        def validate(raw: bytes) -> list[Any]:
            try:
                return self.validate(raw)
            except BoxError:
                tree.check(raw, unpack(raw))
                raise

        return validate

    def __repr__(self) -> str:
        return f"TupleFormat({', '.join(f'{self.field_text(n)} {x.type}' for n, x in enumerate(self._tree.nodes))})"

    @property
    def field_count(self) -> int:
        """The number of fields for which the format has a rule."""
        return len(self._tree.nodes)

    def field_no(self, name: str) -> int | None:
        """Return the 0-based number of a named field, or None."""
        return self.names.get(name)

    def field_type(self, path: Path) -> FieldType:
        """Return the type at a place, a path that begins with a top-level field number; ANY without a rule."""
        node = self._tree.lookup(path)
        return FieldType.ANY if node is None else node.type

    def field_text(self, fieldno: int) -> str:
        """Return the name of a top-level field for messages: `2`, or `2 (name)`."""
        return self._tree.field_text(fieldno)

    def can_store(self, other: TupleFormat) -> bool:
        """Return whether all tuples of `other` fit this format, without looking at data."""
        if self.exact_field_count != other.exact_field_count:
            return False
        for node in self._tree.all_nodes():
            theirs = other._tree.lookup(node.path)
            if theirs is None:
                if node.type is not FieldType.ANY or not node.is_nullable:
                    return False
            elif not node.type.contains(theirs.type) or (theirs.is_nullable and not node.is_nullable):
                return False
        return True

    def check(self, raw: bytes, fields: list[Any], after: Callable[[int, Any], None] | None = None) -> list[Any]:
        """Check every rule one by one and raise the error of the first violation. Returns `fields`.

        `after` is called with the number and the value of each field whose type is right.
        """
        return self._tree.check(raw, fields, after)


def _are_large(raws: Sequence[bytes]) -> bool:
    """Return whether decoding only the first fields pays off for these tuples. The first one decides, because tuples
    that arrive together are usually similar.
    """
    return bool(raws) and len(raws[0]) > _LARGE


def _steps_within(container: Any, children: dict[Step, _Node]) -> list[Any]:
    """Return the steps to those children that a container has, in the order of its elements."""
    if type(container) is dict:
        return [step for step in container if step in children]
    if type(container) is list:
        return sorted(step for step in children if type(step) is int and step < len(container))
    return []


def _compile_validate(tree: _FieldTree) -> Callable[[bytes], list[Any]]:
    """Compile `validate(raw) -> fields`, which decodes once and has a few inline checks for the common case.

    The common case is a tuple with all fields that the checks name; the tree's check handles everything else.
    """
    source = f"""
def validate(raw):
    f = unpack_without_texts(raw, {tree.index_field_count}) if len(raw) > {_LARGE} else None
    if f is None:
        try:
            f = unpackb(raw, strict_map_key=False, ext_hook=ext_hook, unicode_errors="surrogateescape")
        except (ValueError, TypeError):
            f = unpack(raw)
    if {_common_case(tree)}:
        return f
    return check(raw, f)
"""
    names: dict[str, Any] = {
        **TYPE_SETS,
        "has_single_float": tree.has_single_float,
        "unpackb": unpackb,
        "unpack": unpack,
        "unpack_without_texts": unpack_without_texts,
        "ext_hook": decode_ext,
        "check": tree.check,
    }
    exec(compiled_source(source), names)
    # Remove the function from its own namespace `names`, which would otherwise form a reference cycle.
    compiled: Callable[[bytes], list[Any]] = names.pop("validate")
    return compiled


def _compile_validate_fields(
    tree: _FieldTree, validate: Callable[[bytes], list[Any]]
) -> Callable[[bytes, list[Any]], list[Any]]:
    """Compile `validate_fields(raw, fields) -> fields`, which only has the inline checks of the common case."""
    source = f"""
def validate_fields(raw, f):
    return f if {_common_case(tree)} else validate(raw)
"""
    names: dict[str, Any] = {**TYPE_SETS, "has_single_float": tree.has_single_float, "validate": validate}
    exec(compiled_source(source), names)
    compiled: Callable[[bytes, list[Any]], list[Any]] = names.pop("validate_fields")
    return compiled


def _compile_validate_many(
    tree: _FieldTree, validate: Callable[[bytes], list[Any]]
) -> Callable[[Sequence[bytes]], list[list[Any]]]:
    """Compile `validate_many(raws) -> list of fields`, which decodes all at once, or one by one if any tuple is
    unusual.
    """
    takes_heads = f"are_large(raws) and {not tree.exact_field_count}"
    source = f"""
def validate_many(raws):
    found = unpack_heads(raws, {len(tree.nodes)}) if {takes_heads} else unpack_many(raws, ext_hook)
    if found is None:
        return [validate(raw) for raw in raws]
    for raw, f in zip(raws, found):
        if not ({_common_case(tree)}):
            validate(raw)
    return found
"""
    names: dict[str, Any] = {
        **TYPE_SETS,
        "are_large": _are_large,
        "ext_hook": ext_hook_for(needs_decimals=tree.has_decimal_key, needs_uuids=tree.has_uuid_key),
        "has_single_float": tree.has_single_float,
        "unpack_heads": unpack_heads,
        "unpack_many": unpack_many,
        "validate": validate,
    }
    exec(compiled_source(source), names)
    compiled: Callable[[Sequence[bytes]], list[list[Any]]] = names.pop("validate_many")
    return compiled


def _compile_fits_all(tree: _FieldTree) -> Callable[[Sequence[bytes], Sequence[Any]], bool]:
    """Compile `fits_all(raws, found)`, which only has the inline checks of the common case."""
    source = f"""
def fits_all(raws, found):
    for raw, f in zip(raws, found):
        if not ({_common_case(tree)}):
            return False
    return True
"""
    names: dict[str, Any] = {**TYPE_SETS, "has_single_float": tree.has_single_float}
    exec(compiled_source(source), names)
    compiled: Callable[[Sequence[bytes], Sequence[Any]], bool] = names.pop("fits_all")
    return compiled


def _compile_fits(tree: _FieldTree) -> Callable[[bytes, Any], bool]:
    """Compile `fits(raw, f)`, which only has the inline checks of the common case."""
    source = f"""
def fits(raw, f):
    return {_common_case(tree)}
"""
    names: dict[str, Any] = {**TYPE_SETS, "has_single_float": tree.has_single_float}
    exec(compiled_source(source), names)
    compiled: Callable[[bytes, Any], bool] = names.pop("fits")
    return compiled


def _checks(node: _Node, value: str, depth: int = 0) -> list[str]:
    """Return the sources of "this value and all places inside it exist and are valid"; they may be False for a valid
    value.

    `value` is the source of the value, `depth` the number of arrays around it whose elements are all checked.
    """
    expression = check_expression(node.type, node.is_nullable and not node.children, value)
    checks = [] if expression is None else [expression]
    for step, child in node.children.items():
        if step is ANY_INDEX:
            element = f"e{depth}"
            if below := _checks(child, element, depth + 1):
                checks.append(f"all([{' and '.join(below)} for {element} in {value}])")
        else:
            checks.append(f"len({value}) > {step}" if isinstance(step, int) else f"{step!r} in {value}")
            checks += _checks(child, f"{value}[{step!r}]", depth)
    return checks


def _common_case(tree: _FieldTree) -> str:
    """Return the source of "the fields `f` of the tuple `raw` are valid"; it may be False for a valid tuple.

    Fields at the end that may be nil may be missing.
    """
    needed = max((n + 1 for n, node in enumerate(tree.nodes) if node.children or not node.is_nullable), default=0)
    checks = []
    for number, node in enumerate(tree.nodes):
        if own := " and ".join(_checks(node, f"f[{number}]")):
            checks.append(own if number < needed else f"(size <= {number} or {own})")
    if tree.exact_field_count:
        size = f"(size := len(f)) == {tree.exact_field_count}" if tree.exact_field_count >= needed else "False"
    else:
        size = f"(size := len(f)) >= {needed}"
    if tree.doubles:
        # Only a tuple with the mark of a single-precision float somewhere, perhaps within another value, is looked at.
        checks.append(f"({FLOAT32} not in raw or not has_single_float(raw, f))")
    return " and ".join(["type(f) is list", size, *checks])
