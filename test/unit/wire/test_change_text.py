"""Rows as the log shows them."""

from __future__ import annotations

from typing import Any

import pytest

from box.data.codec import pack
from box.wire.change import request_text
from box.wire.constants import RequestType
from box.wire.row import Row

HEADER = "replica_id: 1, lsn: 7, space_id: 512, index_id: "


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        (RequestType.INSERT, {0x10: 512, 0x21: [1, "a"]}, "{type: 'INSERT', " + HEADER + '0, tuple: [1, "a"]}'),
        (RequestType.DELETE, {0x10: 512, 0x11: 2, 0x20: [1]}, "{type: 'DELETE', " + HEADER + "2, key: [1]}"),
        (
            RequestType.UPDATE,
            {0x10: 512, 0x20: [1], 0x21: [["=", 2, None]]},
            "{type: 'UPDATE', " + HEADER + '0, key: [1], tuple: [["=", 2, null]]}',
        ),
        (
            RequestType.UPSERT,
            {0x10: 512, 0x28: [["+", 1, 1]], 0x21: [1]},
            "{type: 'UPSERT', " + HEADER + '0, tuple: [1], ops: [["+", 1, 1]]}',
        ),
        (RequestType.INSERT, {0x10: 512}, "n/a"),
    ],
)
def test_text(kind: RequestType, body: dict[int, Any], text: str) -> None:
    assert request_text(Row(kind, 1, 7, body=pack(body))) == text
