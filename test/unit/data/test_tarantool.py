"""Generated updates give the same tuples and texts on Tarantool's executable.

Operations stay where all versions agree: 2.6 neither fills gaps with nils nor allows the deletion of an absent field,
and no version defines an operation inside a field that another one has set.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from box.data.codec import pack, unpack
from box.data.format import TupleFormat
from box.data.show import tuple_str
from box.data.update import apply_update
from box.errors import BoxError

pytestmark = [
    pytest.mark.tarantool,
    pytest.mark.skipif(shutil.which("tarantool") is None, reason="the tarantool executable is not on PATH"),
]

# Reads lines of hex MessagePack [tuple, operations]; answers with the tuple's bytes and text, and the outcome.
FILTER = r"""
local msgpack, ffi = require('msgpack'), require('ffi')
ffi.cdef('int mp_snprint(char *buf, int size, const char *data);')
local buffer = ffi.new('char[?]', 4096)
local function hex(text) return (text:gsub('.', function(c) return ('%02x'):format(c:byte()) end)) end
for line in io.lines() do
    local case = msgpack.decode((line:gsub('%x%x', function(h) return string.char(tonumber(h, 16)) end)))
    local tuple = box.tuple.new(case[1])
    local raw = msgpack.encode(tuple)
    ffi.C.mp_snprint(buffer, 4096, ffi.cast('const char *', raw))
    local ok, result = pcall(tuple.update, tuple, case[2])
    local outcome = ok and hex(msgpack.encode(result)) or hex(tostring(result))
    io.write(hex(raw), ' ', hex(ffi.string(buffer)), ' ', ok and 'ok ' or 'error ', outcome, '\n')
end
os.exit(0)
"""


class Generator:
    """Generates tuples and operations."""

    def __init__(self, seed: int) -> None:
        self.rnd = random.Random(seed)

    def value(self, depth: int = 0) -> Any:
        rnd = self.rnd
        kind = rnd.randrange(9 if depth < 3 else 5)
        if kind < 5:
            scalars: list[list[Any]] = [[0, 1, 300, 2**63, 2**64 - 1], [-1, -300, -(2**63)], [1.5, 0.1, -2.25]]
            texts: list[list[Any]] = [["", "abc", "hello /\n world"], [True, None, Decimal("1.50"), Decimal("-3")]]
            return rnd.choice((scalars + texts)[kind])
        if kind < 8:
            return [self.value(depth + 1) for _ in range(rnd.randint(1, 3))]
        return {rnd.choice("abc"): self.value(depth + 1)}

    def path(self) -> str:
        steps = [
            self.rnd.choice(["[1]", "[2]", "[3]", ".a", '["b"]', ".c", ".1"]) for _ in range(self.rnd.randint(1, 3))
        ]
        return "".join(steps)

    def operation(self, place: str | int) -> list[Any]:
        rnd = self.rnd
        opcode = rnd.choice("=+-&|:!" if isinstance(place, str) else "=+-^:")
        if opcode in "=!":
            return [opcode, place, self.value(2)]
        if opcode in "+-":
            return [opcode, place, rnd.choice([1, -3, 2**63, 0.1, 1.5, Decimal("0.25")])]
        if opcode == ":":
            return [opcode, place, rnd.choice([1, 3, -1, -3]), rnd.choice([0, 2, -1]), "zz"]
        return [opcode, place, rnd.choice([1, 255])]

    def case(self) -> list[Any]:
        rnd = self.rnd
        fields = [self.value() for _ in range(rnd.randint(1, 5))]
        operations = []
        for number in rnd.sample(range(1, len(fields) + 1), min(2, len(fields))):
            if rnd.random() < 0.3:
                operations.append(self.operation(number))
            else:
                paths = [f"[{number}]{self.path()}" for _ in range(rnd.randint(1, 2))]
                operations += [
                    self.operation(path) for path in paths if path == paths[0] or not path.startswith(paths[0])
                ]
        return [fields, operations]


def outcome(raw: bytes, operations: list[Any]) -> tuple[str, str]:
    try:
        return "ok", repr(unpack(apply_update(raw, operations, fmt=TupleFormat())))
    except BoxError as error:
        return "error", error.message


def test_updates_and_texts(tmp_path: Path) -> None:
    script = tmp_path / "filter.lua"
    script.write_text(FILTER)
    generator = Generator(20)
    cases = [generator.case() for _ in range(1500)]
    lines = "".join(pack(case).hex() + "\n" for case in cases)
    answer = subprocess.run(
        ["tarantool", str(script)], input=lines, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True
    )
    answers = answer.stdout.splitlines()
    assert len(answers) == len(cases)
    for (_, operations), line in zip(cases, answers, strict=True):
        raw, text, state, result = line.split(" ")
        before = bytes.fromhex(raw)
        after = bytes.fromhex(result)
        assert tuple_str(before) == bytes.fromhex(text).decode()
        expected = repr(unpack(after)) if state == "ok" else after.decode()
        assert outcome(before, operations) == (state, expected), (unpack(before), operations)
