"""The log of an embedded node goes to `logging`, unless the program sets the option `log`."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from box import Node
from box.log import Level


def test_messages_go_to_the_logger(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    async def run() -> None:
        async with Node() as node:
            await node.eval("local log = require('log') log.warn('careful %d', 1) log.error('wrong') log.verbose('no')")
            node._embedding.core.log.say(Level.FATAL, "100% lost")
        async with Node(logger=logging.getLogger("other"), log_level=7) as node:
            await node.eval("require('log').debug('small')")

    with caplog.at_level(logging.DEBUG):
        asyncio.run(run())
    said = {(record.name, record.levelname, record.getMessage()) for record in caplog.records}
    assert {
        ("box", "WARNING", "careful 1"),
        ("box", "ERROR", "wrong"),
        ("box", "INFO", "ready to accept requests"),
        ("box", "CRITICAL", "100% lost"),
        ("other", "DEBUG", "small"),
    } <= said
    assert not any(message == "no" for _, _, message in said)
    assert capfd.readouterr().err == ""


def test_the_option_log_is_obeyed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with Node(log=str(tmp_path / "log")) as node:
            await node.eval("require('log').info('into the file')")

    with caplog.at_level(logging.DEBUG):
        asyncio.run(run())
    assert "into the file" in (tmp_path / "log").read_text()
    assert "into the file" not in caplog.text


def test_a_logger_that_fails_loses_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Lines that a logger fails to take go to standard error."""

    class Broken(logging.Logger):
        def log(self, *args: object, **kwargs: object) -> None:
            raise RuntimeError("no")

    async def run() -> None:
        async with Node(logger=Broken("broken")) as node:
            await node.eval("require('log').info('kept')")

    asyncio.run(run())
    assert "kept" in capfd.readouterr().err


def test_a_line_is_no_switch_of_fibers(tmp_path: Path) -> None:
    """A line of the log does not count as a switch of fibers, though it asks for the fiber's name by a nested call.

    Programs count switches to show that they have not yielded.
    """

    async def run() -> tuple[int, int]:
        async with Node(log=str(tmp_path / "log")) as node:
            logged, yielded = await node.eval("""
                local fiber = require('fiber')
                local function switches()
                    return fiber.info()[fiber.id()].csw
                end
                local before = switches()
                require('log').info('one')
                require('log').info('two')
                local logged = switches() - before
                fiber.yield()
                return logged, switches() - before""")
            return logged, yielded

    assert asyncio.run(run()) == (0, 1)
