"""`python -m test.bench.keys`: measures a keystroke at the console, and statements with and without LuaJIT's compiler.

All figures are processor time, so that other work on the machine does not count. A keystroke makes the menu of
completions and the help bar at the bottom, with ten and with ten thousand spaces. Statements are interpreted by default
so that Ctrl-C can end them; `\\set compile on` compiles them.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from box.embed import LuaInstance
from console.bindings import TerminalConsole
from console.interactive.completer import StatementCompleter
from console.interactive.helpbar import HelpBar

SPACES = (10, 10_000)
TEXTS = (
    "bo",
    "box.space.",
    "box.space.m",
    "box.space.many0",
    "require('",
    "box.schema.user.grant('guest', 'read', 'space', 'm",
)
ROUNDS = 15
"""The number of measurements of each keystroke."""
LOOPS = {
    "arithmetic, 10,000,000 rounds": "local x = 0 for i = 1, 1e7 do x = x + i % 7 end",
    "replace, 20,000 rows": "for i = 1, 2e4 do s:replace{i, 'x'} end",
    "get, 100,000 times": "for i = 1, 1e5 do s:get(i % 1000) end",
    "pairs, 100,000 tuples": "for _, t in s:pairs() do local x = t[1] end",
}
_SETUP = b"""
    box.cfg{log_level = 1}
    s = box.schema.space.create('goods') s:create_index('pk')
    for i = 1, 1e5 do s:replace{i} end
"""
_RUN = b"""
    local text, compiles = ...
    local chunk = loadstring(text)
    if not compiles then jit.off(chunk, true) end
    chunk()
"""


async def processor_time(work: Callable[[], Awaitable[object]], rounds: int) -> float:
    """Return the median processor time of `rounds` calls of `work`, in seconds."""
    spent = []
    for _ in range(rounds):
        begin = time.process_time()
        await work()
        spent.append(time.process_time() - begin)
    return statistics.median(spent)


async def measure_keys(consoles: TerminalConsole, count: int) -> None:
    completer = StatementCompleter(consoles.ask)
    for text in TEXTS:

        async def complete(text: str = text) -> int:
            found = completer.get_completions_async(Document(text), CompleteEvent(completion_requested=True))
            return len([each async for each in found])

        async def explain(text: str = text) -> None:
            bar = HelpBar(consoles.ask, lambda: None)
            bar.update(text)
            while bar._task is not None and not bar._task.done():
                await asyncio.sleep(0)

        menu, bar = await processor_time(complete, ROUNDS), await processor_time(explain, ROUNDS)
        print(f"{count:>6} spaces  {text:<52} menu {menu * 1e3:7.2f} ms   bar {bar * 1e3:6.2f} ms")


async def measure_loops(instance: LuaInstance) -> None:
    from box.data.codec import pack

    for title, text in LOOPS.items():
        figures: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(3):
            for compiles, spent in figures.items():
                run = partial(instance.runtime.eval, _RUN, pack([text, compiles]))
                spent.append(await processor_time(run, 1))
        compiled, interpreted = (statistics.median(figures[compiles]) for compiles in (True, False))
        ratio = interpreted / compiled
        print(f"{title:<32} compiled {compiled:6.3f} s   interpreted {interpreted:6.3f} s   {ratio:5.2f}")


async def main() -> int:
    instance = LuaInstance(None)
    consoles = TerminalConsole(instance)
    await instance.runtime.eval(_SETUP)
    for count in SPACES:
        await instance.runtime.eval(b"for i = 1, %d do rawset(box.space, ('many%%05d'):format(i), s) end" % count)
        await measure_keys(consoles, count)
    await measure_loops(instance)
    await instance.stop()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
