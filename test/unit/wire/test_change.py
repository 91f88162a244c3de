"""Bodies of changes: one decoder for clients, the log and other instances, for keys in any order."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from box.data.codec import pack
from box.errors import BoxError, ErrorCode
from box.wire import change
from box.wire.change import DELETE, INSERT, REPLACE, UPDATE, UPSERT, Request, decode_change

KINDS = (INSERT, REPLACE, UPDATE, DELETE, UPSERT)

numbers = st.sampled_from([0, 1, 127, 128, 512, 70000, 2**40]).map(pack)
signed = st.sampled_from([b"\xd0\x05", b"\xd1\x02\x00", b"\xff", b"\xc0", b"\xc3", b"\xa1x"])
arrays = st.lists(st.one_of(st.integers(-5, 300), st.text(max_size=3), st.none()), max_size=3).map(pack)
operations = st.lists(st.tuples(st.just("="), st.integers(1, 3), st.integers(-9, 9)), max_size=2).map(
    lambda ops: pack([list(op) for op in ops])
)
odd = st.sampled_from([b"\x80", b"\x01", b"\xa0", b"\xc1", b"\xdc\x00\x01", b"\xdc\x00\x01\x05", b""])
good = {
    0x10: numbers,
    0x11: numbers,
    0x15: numbers,
    0x20: arrays,
    0x21: st.one_of(arrays, operations),
    0x28: operations,
}
values = {key: st.one_of(strategy, strategy, strategy, signed, odd) for key, strategy in good.items()}
others = st.sampled_from([(0x12, b"\x01"), (0x2A, b"\x80"), (0x2A, b"\x90"), (0x7F, b"\x01"), (0x99, b"\xa1y")])
LAYOUTS = {
    INSERT: (0x10, 0x21),
    REPLACE: (0x10, 0x11, 0x21),
    UPDATE: (0x10, 0x11, 0x15, 0x20, 0x21),
    DELETE: (0x10, 0x11, 0x20),
    UPSERT: (0x10, 0x15, 0x28, 0x21),
}


@st.composite
def bodies(draw: st.DrawFn) -> tuple[int, bytes]:
    """Generate a type and a body that is mostly of that type, with missing, repeated, wrong or cut parts."""
    kind = draw(st.sampled_from(KINDS))
    keys = list(LAYOUTS[kind])
    if draw(st.booleans()):
        keys = draw(st.permutations(keys))
    if draw(st.booleans()):
        keys = keys[: draw(st.integers(0, len(keys)))]
    from_good = draw(st.booleans())
    pairs = [(key, draw((good if from_good else values)[key])) for key in keys]
    if draw(st.integers(0, 3)) == 0:
        pairs.insert(
            draw(st.integers(0, len(pairs))), draw(st.one_of(others, st.sampled_from(pairs or [(0x10, b"\x01")])))
        )
    count = len(pairs) + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
    body = bytes((0x80 | max(count, 0),)) + b"".join(pack(key) + raw for key, raw in pairs)
    if draw(st.integers(0, 5)) == 0:
        body = body[: draw(st.integers(0, len(body)))] + draw(st.sampled_from([b"", b"\x00"]))
    return kind, body


def outcome(decode: Any, kind: int, body: bytes) -> Any:
    try:
        found = decode(kind, body, None)
    except BoxError as error:
        return error.code, error.message
    if found is None:
        return None
    space_id, request = found
    return space_id, *(getattr(request, name) for name in Request.__slots__)


@settings(max_examples=160, deadline=None)
@given(bodies())
@example((UPDATE, b"\x83\x10\x00\x20\x90\x15\x00"))
@example((UPSERT, b"\x83\x10\x01\x28\x90\x21\x90\x00"))
@example((UPSERT, b"\x83\x10\x01\x28\xcc\x90\x21\x90"))
@example((UPSERT, b"\x83\x10\x01\x28\x90\xd0\x21\x90"))
@example((DELETE, b"\x91" + b"\x10\x01" * 16 + b"\x20\x90"))  # an array with more bytes after it
def test_the_quick_reader_agrees_with_the_careful_one(case: tuple[int, bytes]) -> None:
    """The quick decoder gives the result of the careful one for bodies it accepts; it does not check stored tuples."""
    kind, body = case
    quick, careful = outcome(change._decode_usual, kind, body), outcome(change._decode_any, kind, body)
    if quick is not None and quick != careful:
        assert kind in (INSERT, REPLACE)
        assert careful == (ErrorCode.INVALID_MSGPACK, "Invalid MsgPack - packet body")
        with pytest.raises((ValueError, msgpack.exceptions.UnpackException)):
            msgpack.unpackb(quick[1 + Request.__slots__.index("tuple")], strict_map_key=False)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (INSERT, {0x10: 512, 0x21: [1]}),
        (REPLACE, {0x10: 2**33, 0x21: [1, "x"]}),
        (UPDATE, {0x10: 512, 0x20: [1], 0x21: [["=", 1, "x"]]}),
        (UPDATE, {0x10: 512, 0x11: 2, 0x15: 1, 0x20: ["key", None], 0x21: []}),
        (DELETE, {0x10: 1, 0x11: 200, 0x20: [1]}),
        (UPSERT, {0x10: 512, 0x15: 1, 0x28: [["+", 2, 1]], 0x21: [1, 2]}),
        (UPSERT, {0x10: 512, 0x21: [1, 2], 0x28: []}),
    ],
)
def test_the_quick_reader_takes_what_clients_send(kind: int, body: dict[int, Any]) -> None:
    """The quick decoder accepts the bodies that usual clients send."""
    assert outcome(change._decode_usual, kind, msgpack.packb(body)) is not None


@pytest.mark.parametrize(
    ("kind", "body", "missing"),
    [(UPDATE, {0x21: []}, "space id"), (UPDATE, {0x10: 1}, "key"), (UPSERT, {0x10: 1, 0x21: []}, "operations")],
)
def test_the_first_missing_key_is_named(kind: int, body: dict[int, Any], missing: str) -> None:
    """The error names the first missing key by number."""
    with pytest.raises(BoxError) as raised:
        decode_change(kind, msgpack.packb(body))
    assert raised.value.message == f"Missing mandatory field '{missing}' in request"
