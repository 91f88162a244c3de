"""The log as a stream: every change once, in batches of any size, from growing files and from a running node."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from box import Node
from box.errors import BoxError
from box.spark.cat import rows_of
from box.spark.definitions import USER_SPACES
from box.spark.log_rows import Decisions, transactions
from box.spark.stream.change_rows import CHANGE_TYPES
from box.spark.stream.cut_points import CutFinder
from box.spark.stream.log_stream import DirectoryLog
from box.spark.stream.replica_stream import NodeLog
from box.spark.stream.replica_thread import ReplicaThread
from box.spark.stream.stream_offset import StreamOffset
from box.spark.stream.stream_options import StreamOptions
from box.wire.constants import RequestType
from box.wire.messages import SynchroRequest, synchro_row
from box.wire.row import Row
from box.wire.vclock import VClock
from test.soak.streams import expected, read_through_kills

from .test_as_of import GOODS, Program

Change = dict[str, Any]
EARLIEST = VClock()


def options(**values: str) -> StreamOptions:
    return StreamOptions.of({"path": "unused", **values})


def changes_between(
    log: DirectoryLog | NodeLog, since: StreamOffset, until: StreamOffset, **values: str
) -> list[Change]:
    return [
        row
        for part in log.parts(since, until)
        for batch in part.read(options(**values), list(CHANGE_TYPES))
        for row in batch.to_pylist()
    ]


def batches(log: DirectoryLog | NodeLog, since: StreamOffset, limit: int | None) -> Iterator[StreamOffset]:
    """Yield the ends of batches until there is nothing more."""
    while (until := log.next(since, limit)) != since:
        yield until
        since = until


def read_all(directory: Path, limit: int | None = None, **values: str) -> list[Change]:
    """Read all changes; each batch is planned and read by new objects, which know nothing of those before."""
    planner = DirectoryLog(str(directory))
    since = planner.begin("earliest")
    found: list[Change] = []
    for until in batches(planner, since, limit):
        found += changes_between(DirectoryLog(str(directory)), since, until, **values)
        since = until
    return found


def expected_rows(directory: Path) -> list[tuple[int, int]]:
    """Return replica id and LSN of all effective changes of user spaces, by one pass over the whole log."""
    items = [item for path in sorted(directory.glob("*.xlog")) for item in rows_of(str(path))]
    decisions = Decisions()
    for transaction in transactions([item.row for item in items]):
        decisions.take(transaction)
    without = decisions.without_effect()
    kept = [item for item in items if (item.row.replica_id, item.row.lsn) not in without]
    return [
        (item.row.replica_id, item.row.lsn)
        for item in kept
        if item.space_id >= USER_SPACES or (item.space_id == 330 and item.row.type != RequestType.DELETE)
    ]


def places(found: list[Change]) -> list[tuple[int, int]]:
    return [(change["replica_id"], change["lsn"]) for change in found]


# --- directories ---


@pytest.mark.parametrize("seed", range(3))
def test_every_change_comes_once_whatever_the_size_of_batches(tmp_path: Path, seed: int) -> None:
    program = Program(seed)

    async def main() -> None:
        async with Node(tmp_path, log_level=0, wal_max_size=1 << 12, checkpoint_count=100) as node:
            await node.eval(program.create())
            for _ in range(40):
                await node.eval(program.step())

    asyncio.run(main())
    assert len(list(tmp_path.glob("*.xlog"))) > 1
    expected = expected_rows(tmp_path)
    whole = read_all(tmp_path)
    assert places(whole) == expected
    for limit in (9, 100):
        assert read_all(tmp_path, limit) == whole


def test_a_change_tells_operation_space_key_and_tuples(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(tmp_path, log_level=0) as node:
            await node.eval(
                f"""{GOODS}
                s:insert{{1, 'one'}}
                box.begin() s:replace{{1, 'uno'}} s:update(1, {{{{'=', 2, 'eins'}}}}) box.commit()
                s:upsert({{2, 'two'}}, {{{{'=', 2, 'zwei'}}}})
                s:rename('stock')
                s:delete(1)
                s:truncate()
                """
            )

    asyncio.run(main())
    found = read_all(tmp_path)
    assert [(c["operation"], c["space"], c["key"], c["before"], c["after"], c["tuple"]) for c in found] == [
        ("insert", "goods", "[1]", None, '[1, "one"]', '[1, "one"]'),
        ("replace", "goods", "[1]", None, '[1, "uno"]', '[1, "uno"]'),
        ("update", "goods", "[1]", None, None, None),
        ("upsert", "goods", "[2]", None, None, '[2, "two"]'),
        ("delete", "stock", "[1]", None, None, None),
        ("truncate", "stock", None, None, None, None),
    ]
    assert [c["operations"] and json.loads(c["operations"])[0][2] for c in found] == [
        None, None, "eins", "zwei", None, None,
    ]  # fmt: skip
    assert found[1]["transaction_id"] == found[2]["transaction_id"] == found[1]["lsn"]
    assert all(change["timestamp"].year >= 2024 and change["replica_id"] == 1 for change in found)
    assert [c["operation"] for c in read_all(tmp_path, spaces="stock")] == ["delete", "truncate"]
    assert len(read_all(tmp_path, spaces="goods, stock")) == 6
    assert {c["space"] for c in read_all(tmp_path, system="true")} >= {"_space", "_index", "goods", "_truncate"}


def test_synchronous_transactions_come_once_they_are_confirmed(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(tmp_path, log_level=0, replication_synchro_timeout=0.05) as node:
            await node.eval(
                GOODS.replace("{format", "{is_sync = true, format")
                + " a = box.schema.space.create('other') a:create_index('pk')"
                " s:insert{1, 'one'} box.cfg{replication_synchro_quorum = 2}"
                " ok = pcall(s.insert, s, {2, 'two'}) assert(not ok)"
            )
            log = DirectoryLog(str(tmp_path))
            first = log.next(log.begin("earliest"), None)
            await node.eval(
                "box.cfg{replication_synchro_timeout = 1000}"
                " f = require('fiber').create(function() pcall(s.insert, s, {3, 'three'}) end)"
                " g = require('fiber').create(function() pcall(a.insert, a, {4}) end)"
            )
            assert log.next(first, None) == first, "what waits has come"
            await node.eval("box.cfg{replication_synchro_quorum = 1} require('fiber').sleep(0.05) s:insert{5, 'five'}")
            second = log.next(first, None)
            assert [c["key"] for c in changes_between(log, first, second)] == ["[3]", "[4]", "[5]"]

    asyncio.run(main())
    for limit in (None, 1, 2):
        assert [c["key"] for c in read_all(tmp_path, limit)] == ["[1]", "[3]", "[4]", "[5]"]


def _history(seed: int) -> list[list[Row]]:
    """Generate transactions of one instance, asynchronous or synchronous, confirmed or rolled back, in chunks."""
    rng = random.Random(seed)
    history: list[list[Row]] = []
    waiting: list[int] = []
    for lsn in range(1, 61):
        dice = rng.random()
        body = b"\x82\x10\xcd\x02\x00\x21\x91" + bytes([lsn])
        if dice < 0.4:
            history.append([Row(2, 1, lsn, 1.0, tsn=lsn, flags=6, body=body)])
            waiting.append(lsn)
        elif dice < 0.7:
            history.append([Row(2, 1, lsn, 1.0, tsn=lsn, flags=2 if waiting else 0, body=body)])
        elif waiting:
            upto = rng.randrange(len(waiting))
            is_confirm = rng.random() < 0.7
            kind = RequestType.CONFIRM if is_confirm else RequestType.ROLLBACK
            row = synchro_row(SynchroRequest(kind, 1, waiting[upto]))
            row.replica_id, row.lsn, row.tsn = 1, lsn, lsn
            history.append([row])
            waiting = waiting[upto + 1 :] if is_confirm else waiting[:upto]
    return history


@pytest.mark.parametrize("seed", range(15))
def test_decisions_are_the_same_from_any_end_of_a_batch(seed: int) -> None:
    """A stream that starts at the end of any batch decides as one pass over the log does."""
    history = _history(seed)
    whole = Decisions()
    for transaction in history:
        whole.take(transaction)
    without = whole.without_effect()
    expected = [row.lsn for (row,) in history if row.type == 2 and (1, row.lsn) not in without]
    for limit in (1, 3, None):
        found, since = [], VClock()
        while True:
            finder = CutFinder(since, frozenset(), limit)
            for transaction in history:
                if transaction[0].lsn > since[1] and not finder.is_over:
                    finder.take(transaction)
            until = finder.found.vclock
            if until == since:
                break
            left_out = finder.decisions.without_effect()
            found += [
                row.lsn
                for (row,) in history
                if since[1] < row.lsn <= until[1] and row.type == 2 and (1, row.lsn) not in left_out
            ]
            since = until
        assert found == [lsn for lsn in expected if lsn <= since[1]]
        assert all((1, row.lsn) in without or row.lsn <= since[1] for (row,) in history if row.type == 2)


ROWS_OF_TWO_SNAPSHOTS = 330


def test_a_directory_that_is_written_gives_every_change_once(tmp_path: Path) -> None:
    """The stream of a directory has every change once, through rotation, snapshots and removed files."""

    async def main() -> tuple[list[Change], int]:
        found: list[Change] = []
        async with Node(tmp_path, log_level=0, wal_max_size=1 << 13, checkpoint_count=2) as node:
            await node.eval(GOODS)
            log = DirectoryLog(str(tmp_path))
            since = await asyncio.to_thread(log.begin, "latest")
            await node.eval(
                """
                count, stop = 0, false
                writer = require('fiber').create(function()
                    while not stop do
                        require('fiber').sleep(0.0005)
                        count = count + 1
                        s:insert{count, string.rep('x', 100)}
                        if count % 150 == 0 then box.snapshot() end
                    end
                end)
                """
            )
            async with asyncio.timeout(120):
                for number in count():
                    if len(found) > ROWS_OF_TWO_SNAPSHOTS:
                        break
                    until = await asyncio.to_thread(log.next, since, 40 if number % 2 else None)
                    if until != since:
                        found += await asyncio.to_thread(changes_between, log, since, until)
                    since = until
            await node.eval("stop = true require('fiber').sleep(0.01)")
            for until in batches(log, since, None):
                found += changes_between(log, since, until)
                since = until
            return found, await node.eval("return count")

    found, written = asyncio.run(main())
    assert [change["key"] for change in found] == [f"[{number}]" for number in range(1, written + 1)]


def test_rows_that_were_collected_are_an_error_that_tells_what_to_do(tmp_path: Path) -> None:
    log = DirectoryLog(str(tmp_path))

    async def main() -> StreamOffset:
        async with Node(tmp_path, log_level=0, checkpoint_count=1) as node:
            await node.eval(GOODS)
            since = log.begin("earliest")
            for number in range(4):
                await node.eval(f"s:insert{{{number}, 'x'}} box.snapshot()")
            return since

    since = asyncio.run(main())
    with pytest.raises(
        BoxError, match=r"the rows after \{\} are gone: the instance has collected them.*start a new query"
    ):
        log.next(since, None)


def test_another_instances_directory_is_an_error(tmp_path: Path) -> None:
    offsets = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()

        async def main(directory: Path) -> None:
            async with Node(directory, log_level=0) as node:
                await node.eval(GOODS)

        asyncio.run(main(tmp_path / name))
        offsets.append(DirectoryLog(str(tmp_path / name)).begin("earliest"))
    with pytest.raises(BoxError, match=r"written by instance .*, the stream is of .*: each instance needs a directory"):
        DirectoryLog(str(tmp_path / "two")).next(offsets[0], None)


def test_a_stream_begins_where_it_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node(tmp_path, log_level=0) as node:
            await node.eval(
                f"{GOODS} l = box.schema.space.create('own', {{is_local = true}}) l:create_index('pk') l:insert{{1}}"
                " box.snapshot() s:insert{1, 'one'} l:insert{2}"
            )
            lsn = await node.eval("return box.info.lsn")
            log = DirectoryLog(str(tmp_path))
            latest = log.begin("latest")
            since = log.begin(VClock({1: lsn}))
            await node.eval("s:insert{2, 'two'}")
            assert [c["key"] for c in changes_between(log, since, log.next(since, None), spaces="goods")] == ["[2]"]
            assert [c["key"] for c in changes_between(log, latest, log.next(latest, None))] == ["[2]"]

    asyncio.run(main())


# --- a live node ---


def test_a_live_node_gives_the_same_changes_as_its_files(tmp_path: Path) -> None:
    program = Program(3)
    uri = f"admin:secret@unix/:{tmp_path}/socket"

    async def main() -> list[Change]:
        found: list[Change] = []
        async with Node(tmp_path, log_level=0, checkpoint_count=100, listen=uri.partition("@")[2]) as node:
            await node.eval("box.schema.user.passwd('admin', 'secret')")
            log = NodeLog(uri, 20.0)
            since = await asyncio.to_thread(log.begin, VClock())
            await node.eval(program.create())
            for _ in range(20):
                await node.eval(program.step())
            target = VClock({1: await node.eval("return box.info.lsn")})
            while not since.vclock.covers(target):
                until = await asyncio.to_thread(log.next, since, 50)
                found += await asyncio.to_thread(changes_between, NodeLog(uri, 20.0), since, until)
                assert until == since or await asyncio.to_thread(changes_between, log, since, until) is not None
                since = until
            await asyncio.to_thread(log.close)
        return found

    found = asyncio.run(main())
    ours = [{**change, "space": None, "key": None} for change in found]
    assert ours == [{**change, "space": None, "key": None} for change in read_all(tmp_path)]


def test_a_node_that_was_restarted_is_followed_on(tmp_path: Path) -> None:
    uri = f"unix/:{tmp_path}/socket"
    grant = "box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})"

    async def main() -> list[Change]:
        log, found, since = NodeLog(uri, 20.0), [], None
        for number in range(3):
            async with Node(tmp_path, log_level=0, listen=uri) as node:
                await node.eval(GOODS + " " + grant if not number else "s = box.space.goods")
                since = since or await asyncio.to_thread(log.begin, "latest")
                await node.eval(f"for i = 1, 10 do s:insert{{{number} * 10 + i, 'x'}} end")
                target = VClock({1: await node.eval("return box.info.lsn")})
                while not since.vclock.covers(target):
                    until = await asyncio.to_thread(log.next, since, 4)
                    if until != since:
                        found += await asyncio.to_thread(changes_between, log, since, until)
                    since = until
            assert await asyncio.to_thread(log.next, since, None) == since, "the node is away"
        await asyncio.to_thread(log.close)
        return found

    assert [change["key"] for change in asyncio.run(main())] == [f"[{number}]" for number in range(1, 31)]


def test_a_thread_that_ends_while_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread without a node ends by itself. It may do so at any moment of `close`, which is no error."""
    following = ReplicaThread(f"unix/:{tmp_path}/nobody", VClock(), 20.0)
    following._thread.join()
    monkeypatch.setattr(following._thread, "is_alive", lambda: True)
    following.close()
    assert following.error is not None


def test_a_node_that_has_collected_the_rows_is_an_error(tmp_path: Path) -> None:
    uri = f"unix/:{tmp_path}/socket"

    async def main() -> None:
        async with Node(tmp_path, log_level=0, listen=uri, checkpoint_count=1) as node:
            await node.eval(GOODS + " box.schema.user.grant('guest', 'super')")
            log = NodeLog(uri, 20.0)
            since = await asyncio.to_thread(log.begin, VClock())
            for number in range(4):
                await node.eval(f"s:insert{{{number}, 'x'}} box.snapshot()")

            def ask() -> None:
                while True:
                    assert log.next(since, None) == since

            with pytest.raises(BoxError, match=r"the rows after \{\} are gone: the instance has collected them"):
                await asyncio.to_thread(ask)
            await asyncio.to_thread(log.close)

    asyncio.run(main())


@pytest.mark.parametrize("source", ["path", "uri"])
def test_every_change_comes_once_although_the_node_is_killed(tmp_path: Path, source: str) -> None:
    """Every change comes once though the node is killed; `make soak SOAK=streams` kills Spark, too."""
    found = read_through_kills(tmp_path, source, 1, 3)
    last = max(lsn for _, lsn in found)
    wanted = {place: count for place, count in expected(tmp_path).items() if place[1] <= last}
    assert found == wanted


# --- options ---


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "one of the options 'path' .* and 'uri' .* is required"),
        ({"path": "a", "uri": "b"}, "one of the options"),
        ({"path": "a", "space": "goods"}, "a stream has the option 'spaces'"),
        ({"path": "a", "colour": "red"}, "unexpected option 'colour' of a stream"),
        ({"path": "a", "startingVclock": "yesterday"}, "neither 'earliest' nor 'latest' nor a vclock"),
        ({"path": "a", "maxRowsPerTrigger": "0"}, "must be a positive integer"),
        ({"path": "a", "timeout": "-1"}, "must be a number of seconds"),
        ({"path": "a", "spaces": ""}, "must be names or ids"),
    ],
)
def test_wrong_options_are_named(values: dict[str, str], text: str) -> None:
    with pytest.raises(BoxError, match=text):
        StreamOptions.of(values)
