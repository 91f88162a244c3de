"""The text tree that shows which member fetches whose rows from whom."""

from __future__ import annotations

from typing import Any

from box.replication.picture import replication_tree

UUIDS = {number: f"{number}" * 8 + "-0000-0000-0000-000000000000" for number in range(1, 6)}


def replica(number: int, **streams: Any) -> dict[str, Any]:
    return {"id": number, "uuid": UUIDS[number], "lsn": 1, **streams}


def info(*replicas: dict[str, Any], anonymous: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "id": 1,
        "uuid": UUIDS[1],
        "status": "running",
        "vclock": {0: 7, 1: 10, 2: 5},
        "replication": {each["id"]: each for each in replicas},
        "replication_anon": {each["uuid"]: each for each in anonymous},
    }


def test_a_tree_of_sources_and_of_followers() -> None:
    refused = {"message": "connect", "system_message": "Connection refused"}
    drawn = replication_tree(
        info(
            replica(1),
            replica(
                2,
                upstream={"status": "follow", "lag": 0.0004, "idle": 0.1, "peer": "a:1", "fetches": [2, 4]},
                downstream={"status": "follow", "vclock": {1: 4, 2: 5}, "idle": 0.1},
            ),
            replica(3, upstream={"status": "disconnected", "lag": float("inf"), "idle": 3.0, "peer": "b:1", **refused}),
            replica(4, downstream={"status": "stopped", "message": "timed out"}),
            anonymous=({"id": 0, "uuid": UUIDS[5], "downstream": {"status": "follow", "vclock": {1: 10, 2: 5}}},),
        )
    )
    assert drawn.splitlines() == [
        "1  11111111  here, running",
        "├─ fetches",
        "│  ├─ 2  22222222  follow, lag 0.4 ms  rows of 2, 4",
        "│  └─ 3  33333333  disconnected  connect: Connection refused",
        "└─ is fetched by",
        "   ├─ 2  22222222  follow, 6 rows behind",
        "   ├─ 4  44444444  stopped  timed out",
        "   └─ -  55555555  follow, has everything",
    ]


def test_an_instance_alone_and_one_that_fetches_everything() -> None:
    assert replication_tree(info(replica(1))) == "1  11111111  here, running"
    upstream = {"status": "sync", "lag": float("inf"), "idle": 0.1, "peer": "a:1"}
    assert replication_tree(info(replica(2, upstream=upstream))).splitlines()[1:] == [
        "└─ fetches",
        "   └─ 2  22222222  sync  all rows",
    ]
