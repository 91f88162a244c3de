"""Upserts that take effect once, although Spark may run a task or a batch of a stream again.

An upsert that is sent twice would add twice. So the node applies the rows of a task in transactions that also insert a
mark for each row into the space `lunabox_writes`, and skips a row whose mark is there. A mark consists of the job (for
a stream: query and batch), the number of the task, the hash of the row, and a counter of equal rows of the task,
because Spark may give the rows in a different order at each attempt. The marks of a job are removed when it is done.
Those of a batch of a stream are removed when the next batch is done, because Spark may repeat the last batch.

The node runs this as Lua code by EVAL, so the user needs the right to execute on the universe and to write both spaces.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from box.data.codec import pack
from box.errors import illegal_params
from box.spark.definitions import SpaceInfo
from box.wire.constants import RequestType
from box.wire.row import Row

MARKS: Final = "lunabox_writes"
"""The name of the space of marks."""

_PREPARE: Final = f"""
local s = box.schema.space.create('{MARKS}', {{if_not_exists = true,
    format = {{{{name = 'job', type = 'string'}}, {{name = 'row', type = 'string'}}}}}})
s:create_index('pk', {{if_not_exists = true, parts = {{{{1, 'string'}}, {{2, 'string'}}}}}})
"""
"""Creates the space of marks."""

_APPLY: Final = f"""
local id, job, rows, doubles = ...
local space, marks = box.space[id], box.space.{MARKS}
local cast = require('ffi').cast
box.begin()
local ok, problem = pcall(function()
    for _, row in ipairs(rows) do
        local mark, tuple, ops = row[1], row[2], row[3]
        if marks:get{{job, mark}} == nil then
            marks:insert{{job, mark}}
            -- A number without a fraction would be stored as an integer.
            for _, n in ipairs(doubles) do
                if type(tuple[n]) == 'number' then tuple[n] = cast('double', tuple[n]) end
            end
            for _, op in ipairs(ops) do
                for _, n in ipairs(doubles) do
                    if op[2] == n and type(op[3]) == 'number' then op[3] = cast('double', op[3]) end
                end
            end
            space:upsert(tuple, ops)
        end
    end
end)
if not ok then box.rollback() error(problem) end
box.commit()
"""
"""Applies rows that have no mark, and marks them, in one transaction."""

_FORGET: Final = f"""
local done, prefix, last = ...
local marks = box.space.{MARKS}
if marks == nil then return end
local jobs = {{}}
for _, t in marks:pairs({{prefix}}, {{iterator = 'GE'}}) do
    if t[1]:sub(1, #prefix) ~= prefix then break end
    local number = tonumber(t[1]:sub(#prefix + 1)) or 0
    if done or number < last then table.insert(jobs, t) end
end
for n, t in ipairs(jobs) do
    if n % 1000 == 1 then box.begin() end
    marks:delete{{t[1], t[2]}}
    if n % 1000 == 0 or n == #jobs then box.commit() end
end
"""
"""Removes marks whose job begins with a prefix: all of them, or those of batches before a number."""


def _eval(text: str, *arguments: Any) -> Row:
    # A body of two pairs (0x82): the expression (0x27) and the arguments (0x21).
    return Row(RequestType.EVAL, body=b"\x82\x27" + pack(text) + b"\x21" + pack(list(arguments)))


def prepare_row() -> Row:
    """Return the request that creates the space of marks, if it does not exist."""
    return _eval(_PREPARE)


def forget_job_row(job: str) -> Row:
    """Return the request that removes the marks of a job that is done."""
    return _eval(_FORGET, True, job, 0)


def forget_batches_row(query: str, last: int) -> Row:
    """Return the request that removes the marks of a stream's batches before `last`; `query` is the prefix of its
    jobs."""
    return _eval(_FORGET, False, query, last)


class Upserts:
    """Makes the requests of one task.

    `operators` has the operators by column. Other columns that are not in the primary key are assigned.

    Raises:
        BoxError: ILLEGAL_PARAMS, a column does not exist, or the space has varbinary fields.
    """

    def __init__(self, space: SpaceInfo, columns: Sequence[tuple[int, str]], operators: dict[str, str]) -> None:
        assert space.primary is not None
        self._space_id = space.id
        keys = {part.field for part in space.primary.parts}
        names = {name for _, name in columns}
        for name in operators:
            if name not in names:
                raise illegal_params(f"option 'operations': the frame has no column '{name}'")
        types = [str(field.get("type", "any")).lower() for field in space.format]
        if "varbinary" in types:
            raise illegal_params("upserts of a space with varbinary fields are not supported: use replace")
        self._ops = [(operators.get(name, "="), number) for number, name in columns if number not in keys]
        self._doubles = [number + 1 for number, kind in enumerate(types) if kind == "double"]

    def rows(self, job: str, task: int, tuples: Iterator[list[Any]], batch: int) -> Iterator[tuple[int, Row]]:
        """Return requests, each with the number of its rows."""
        seen: Counter[bytes] = Counter()
        some: list[Any] = []
        for fields in tuples:
            # 128 bits, so that two different rows never get the same mark by chance.
            content = hashlib.blake2b(pack(fields), digest_size=16).digest()
            seen[content] += 1
            mark = f"{task}.{content.hex()}.{seen[content]}"
            some.append([mark, fields, [[operator, number + 1, fields[number]] for operator, number in self._ops]])
            if len(some) == batch:
                yield batch, self._request(job, some)
                some = []
        if some:
            yield len(some), self._request(job, some)

    def _request(self, job: str, rows: list[Any]) -> Row:
        return _eval(_APPLY, self._space_id, job, rows, self._doubles)
