"""`python -m job_queue`: a node, three workers and the page on one loop."""

from __future__ import annotations

import argparse
import asyncio
import signal
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import uvloop
from aiohttp import web

from box import Node
from job_queue.jobs import Jobs, create_space
from job_queue.web import make_application
from job_queue.worker import run_worker

WORKERS = 3


async def serve(directory: Path, host: str, port: int) -> None:
    """Run until SIGINT or SIGTERM, also where a shell has SIGINT ignored, as it does for what it starts with `&`."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(Node(directory, memtx_use_mvcc_engine=True))
        await create_space(node)
        jobs = Jobs(node)
        workers = [asyncio.create_task(run_worker(f"worker {number}", jobs)) for number in range(1, WORKERS + 1)]
        stack.push_async_callback(_cancel, workers)
        runner = web.AppRunner(make_application(jobs))
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, host, port).start()
        print(f"http://{host}:{port}", flush=True)
        await stop.wait()


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="job_queue", description="A job queue with a web page.")
    parser.add_argument("--directory", type=Path, default=Path("data"))
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    uvloop.run(serve(options.directory, options.host, options.port))


if __name__ == "__main__":
    main()
