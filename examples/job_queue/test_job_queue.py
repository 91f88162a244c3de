"""The queue on a cluster whose nodes fail, and its page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
import uvloop
from aiohttp.test_utils import TestClient, TestServer
from job_queue.jobs import DONE, READY, TAKEN, Job, Jobs, create_space
from job_queue.web import make_application
from job_queue.worker import run_worker

from box import BoxError, Node
from box.testing import Cluster

Clusters = Callable[..., Cluster]


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90):
            await test()

    uvloop.run(bounded())


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition; the test's time limit bounds it."""
    while not await condition():  # noqa: ASYNC110 - workers change it
        await asyncio.sleep(0.02)


async def are_done(jobs: Jobs, count: int) -> bool:
    return [job.state for job in await jobs.list()] == [DONE] * count


class Workers:
    """Three workers for a block."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        self._tasks = [asyncio.create_task(run_worker(f"worker {number}", self._jobs)) for number in range(3)]

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task


def test_workers_share_the_jobs() -> None:
    """Every job is done once, in the order of numbers."""

    async def test() -> None:
        async with Node(memtx_use_mvcc_engine=True) as node:
            await create_space(node)
            jobs = Jobs(node)
            for number in range(12):
                await jobs.put("word " * number)
            async with Workers(jobs):
                await until(lambda: are_done(jobs, 12))
            done = await jobs.list()
            assert [job.result for job in done] == [f"{number} words" for number in range(12)]
            assert len({job.worker for job in done}) == 3

    run(test)


def test_a_job_of_a_worker_that_has_died_is_taken_by_another() -> None:
    """Once its lease is over; what the first says then does not count."""

    async def test() -> None:
        now = 1000.0
        async with Node(memtx_use_mvcc_engine=True) as node:
            await create_space(node)
            jobs = Jobs(node, clock=lambda: now)
            await jobs.put("work")
            first = await jobs.take("one", lease=5)
            assert first is not None
            assert await jobs.take("two") is None
            now += 6
            second = await jobs.take("two")
            assert second is not None
            assert second.id == first.id
            assert not await jobs.finish(first, "late")
            assert await jobs.finish(second, "good")
            assert [(job.state, job.result) for job in await jobs.list()] == [(DONE, "good")]

    run(test)


def test_confirmed_jobs_survive_a_leader(box_cluster: Clusters) -> None:
    """The leader is killed while workers are at it; all that was confirmed is done on the next one."""

    async def test() -> None:
        async with box_cluster(3, synchronous=True, memtx_use_mvcc_engine=True) as cluster:
            first = cluster.leader
            await create_space(first)
            jobs = Jobs(first)
            confirmed: list[Job] = []
            async with Workers(jobs):
                for number in range(10):
                    confirmed.append(await jobs.put(f"job {number}"))
                await cluster.kill(first)
            second = await cluster.wait_leader()
            jobs = Jobs(second, clock=lambda: 2**40)  # every lease of the first leader's workers is over
            assert {job.id for job in await jobs.list()} >= {job.id for job in confirmed}
            async with Workers(Jobs(second)):
                await until(lambda: _is_idle(jobs))
            await cluster.heal()
            assert await Jobs(cluster.leader).list() == await Jobs(first).list()

    async def _is_idle(jobs: Jobs) -> bool:
        return all(job.state != READY for job in await jobs.list())

    run(test)


def test_a_leader_on_the_wrong_side_confirms_nothing(box_cluster: Clusters) -> None:
    """Its page says so instead of losing the job; the other side goes on."""

    async def test() -> None:
        async with box_cluster(3, synchronous=True, memtx_use_mvcc_engine=True) as cluster:
            old = cluster.leader
            others = cluster.followers
            await create_space(old)
            await cluster.wait_synced()
            await cluster.partition(old)
            await old.configure(replication_synchro_timeout=0.3)
            async with TestClient(TestServer(make_application(Jobs(old)))) as page:
                answer = await page.post("/jobs", data={"text": "lost?"})
                assert answer.status == 503
            new = await cluster.wait_leader(among=others)
            await Jobs(new).put("kept")
            await cluster.heal()
            assert [[job.text for job in await Jobs(node).list()] for node in cluster] == [["kept"]] * 3

    run(test)


def test_the_page_shows_and_takes_jobs() -> None:
    async def test() -> None:
        async with Node(memtx_use_mvcc_engine=True) as node:
            await create_space(node)
            async with TestClient(TestServer(make_application(Jobs(node)))) as page:
                answer = await page.post("/jobs", data={"text": "<b>& two"})
                assert (answer.status, (await answer.json())["id"]) == (201, 1)
                assert (await page.post("/jobs", data={"text": " "})).status == 400
                assert "&lt;b&gt;&amp; two" in await (await page.get("/")).text()
                assert [job["state"] for job in await (await page.get("/jobs")).json()] == [READY]

    run(test)


def test_a_job_that_is_taken_is_not_taken_again() -> None:
    async def test() -> None:
        async with Node(memtx_use_mvcc_engine=True) as node:
            await create_space(node)
            jobs = Jobs(node)
            await jobs.put("one")
            await asyncio.gather(jobs.take("a"), jobs.take("b"), jobs.take("c"))
            (job,) = await jobs.list()
            assert job.state == TAKEN
            with pytest.raises(BoxError):
                await node.space["jobs"].insert([1, READY, "again", "", 0, ""])

    run(test)
