"""`python -m test.bench.write_layers`: prints where the time of a write from Lua goes, layer by layer.

All figures are microseconds of processor time, the least of many short rounds, without a log. Each layer is timed by
itself with the same arguments, and the line of a layer is its time minus that of the layers below:

```
a statement in Lua            test/bench/write_layers.lua
  the bound function          DataBinding (lua/bindings/data.py), TxnBinding
    Dml.store                 box/txn/dml.py
      the change              box/txn/fast_path.py
        check, operations, tree
```

With `tarantool` on the PATH its times of the whole statements are in the last line.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from test.bench.__main__ import compiled_modules

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_KINDS = ("insert", "replace", "update", "upsert", "delete", "transaction", "transaction_get")
_LINES = (
    ("Lua, the border and back", "whole", ("bound",)),
    ("begin and commit, a tenth", "ends", ()),
    ("context, request, result", "bound", ("store",)),
    ("rights, mode, counters, journal or transaction", "store", ("change",)),
    ("decode and check the fields", "check", ()),
    ("operations", "operations", ()),
    ("the tree", "tree", ()),
    ("size, memory, calls between these", "change", ("check", "operations", "tree")),
)
"""Title, layer, and the layers below that are taken off."""


class _Timer:
    """Measures calls `work(number)` with numbers from 1 to `count`."""

    def __init__(self, count: int, rounds: int) -> None:
        self._count = count
        self._rounds = rounds
        self._loop = 0.0
        self._loop = self.measure(lambda number: None)

    def measure(self, work: Callable[[int], object], before: Callable[[int], object] | None = None) -> float:
        """Return the microseconds of a call, without those of the loop. `before` is called for all numbers first."""
        best = float("inf")
        for _ in range(self._rounds):
            if before is not None:
                for number in range(1, self._count + 1):
                    before(number)
            start = time.process_time()
            for number in range(1, self._count + 1):
                work(number)
            best = min(best, time.process_time() - start)
        return best / self._count * 1e6 - self._loop


def _one_of(kind: type) -> Any:
    return next(found for found in gc.get_objects() if type(found) is kind)


def time_layers(space_id: float, count: float, rounds: float) -> None:
    """Print the times of the layers, as `statement.layer microseconds`. Called by Lua, in a fiber."""
    from box.data.codec import pack
    from box.data.update import updated
    from box.txn.fast_path import CHANGES
    from box.wire.change import DELETE, INSERT, REPLACE, UPDATE, UPSERT, Request
    from lua.bindings.data import DataBinding
    from lua.bindings.txn import TxnBinding
    from lua.salt import salter

    data, txn, salt = _one_of(DataBinding), _one_of(TxnBinding), salter()
    dml, ctx, space = data.node.dml, data.ctx, data.node.schema.space(int(space_id))
    plan, size = space.write_plan, int(count) + 1
    raws = [pack([number, "name", 1.5]) for number in range(size)]
    salted = [raw + salt() for raw in raws]
    fields = plan.validate(raws[1])
    set_name, add = [["=", 2, "new name"]], [["+", 3, 1]]
    updates = [Request(UPDATE, b"", [number], set_name, 0, 1) for number in range(size)]
    upserts = [Request(UPSERT, raw, [], add, 0, 1) for raw in raws]
    deletes = [Request(DELETE, b"", [number]) for number in range(size)]
    timer = _Timer(int(count), int(rounds))

    def show(name: str, work: Callable[[int], object], before: Callable[[int], object] | None = None) -> None:
        print(f"{name} {timer.measure(work, before):.3f}")

    def remove(number: int) -> None:
        plan.remove(number)

    def fill(number: int) -> None:
        plan.replace(number, raws[number])

    def store(kind: int, number: int, request: Request | None = None) -> object:
        return dml.store(ctx, space, kind, raws[number], request)

    show("insert.bound", lambda n: data.insert(space.id, salted[n]), remove)
    show("insert.store", lambda n: store(INSERT, n), remove)
    show("insert.change", lambda n: CHANGES[INSERT](plan, space, raws[n]), remove)
    show("insert.check", lambda n: plan.validate(raws[n]))
    show("insert.tree", lambda n: plan.add(n, raws[n]), remove)
    show("replace.bound", lambda n: data.replace(space.id, salted[n]))
    show("replace.store", lambda n: store(REPLACE, n))
    show("replace.change", lambda n: CHANGES[REPLACE](plan, space, raws[n]))
    show("replace.check", lambda n: plan.validate(raws[n]))
    show("replace.tree", lambda n: plan.replace(n, raws[n]))
    show("update.bound", lambda n: data.update_one(space.id, 0, n, b"=", 2, b"new name"), fill)
    show("update.store", lambda n: store(UPDATE, n, updates[n]), fill)
    show("update.change", lambda n: CHANGES[UPDATE](plan, space, updates[n]), fill)
    show("update.check", lambda n: (plan.parse(updates[n].key, True), plan.validate_fields(raws[n], fields)))
    show("update.operations", lambda n: updated(raws[n], set_name, plan.format, 1))
    show("update.tree", lambda n: (plan.find(n), plan.replace(n, raws[n])))
    show("upsert.bound", lambda n: data.upsert_one(space.id, salted[n], b"+", 3, 1), fill)
    show("upsert.store", lambda n: store(UPSERT, n, upserts[n]), fill)
    show("upsert.change", lambda n: CHANGES[UPSERT](plan, space, upserts[n]), fill)
    show("upsert.check", lambda n: (plan.validate(raws[n]), plan.validate_fields(raws[n], fields)))
    show("upsert.operations", lambda n: updated(raws[n], add, plan.format, 1))
    show("upsert.tree", lambda n: (plan.find(n), plan.replace(n, raws[n])))
    show("delete.bound", lambda n: data.delete(space.id, 0, n), fill)
    show("delete.store", lambda n: store(DELETE, n, deletes[n]), fill)
    show("delete.change", lambda n: CHANGES[DELETE](plan, space, deletes[n]), fill)
    show("delete.check", lambda n: plan.parse(deletes[n].key, True))
    show("delete.tree", lambda n: (plan.find(n), plan.remove(n)), fill)

    def bound(number: int) -> None:
        if number % 10 == 1:
            txn.begin()
        data.replace(space.id, salted[number])
        if number % 10 == 0:
            txn.commit()

    def stored(number: int) -> None:
        if number % 10 == 1:
            txn.begin()
        store(REPLACE, number)
        if number % 10 == 0:
            txn.commit()

    def begun(number: int) -> None:
        if number % 10 == 1:
            txn.begin()
            txn.commit()

    for kind in ("transaction", "transaction_get"):
        show(f"{kind}.bound", bound)
        show(f"{kind}.store", stored)
        show(f"{kind}.ends", begun)
        show(f"{kind}.change", lambda n: CHANGES[REPLACE](plan, space, raws[n]))
        show(f"{kind}.check", lambda n: plan.validate(raws[n]))
        show(f"{kind}.tree", lambda n: plan.replace(n, raws[n]))


def _program(arguments: list[str]) -> None:
    """Run the console in the child process, with a function for Lua that times the layers."""
    import box.embed.lua_instance
    from console.cli import main
    from lua.runtime import Runtime

    class Timed(Runtime):
        def _boot(self) -> None:
            self.bind("time_layers", time_layers)
            super()._boot()

    box.embed.lua_instance.Runtime = Timed  # type: ignore[misc]
    main(arguments)


def _measured(command: list[str], count: int, rounds: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="bench") as directory:
        script = [str(_HERE / "write_layers.lua"), directory, str(count), str(rounds)]
        done = subprocess.run([*command, *script], cwd=_ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
    return {name: float(value) for name, value in map(str.split, done.stdout.splitlines())}


def _cell(times: dict[str, float], kind: str, layer: str, below: tuple[str, ...]) -> str:
    whole = times.get(kind if layer == "whole" else f"{kind}.{layer}")
    if whole is None:
        return ""
    parts = [times.get(f"{kind}.{name}", 0.0) for name in below]
    if layer == "store":
        parts.append(times.get(f"{kind}.ends", 0.0))
    return f"{max(whole - sum(parts), 0.0):.1f}"


def main() -> None:
    if sys.argv[1:2] == ["--run"]:
        _program(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m test.bench.write_layers", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="statements of one round")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--tarantool", default="tarantool", help="the executable, or an empty text for none")
    args = parser.parse_args()
    with compiled_modules():
        times = _measured([sys.executable, "-m", "test.bench.write_layers", "--run"], args.count, args.rounds)
    print(f"| step | {' | '.join(_KINDS)} |\n|---|{'---:|' * len(_KINDS)}")
    for title, layer, below in _LINES:
        print(f"| {title} | {' | '.join(_cell(times, kind, layer, below) for kind in _KINDS)} |")
    print(f"| **whole** | {' | '.join(f'**{times[kind]:.1f}**' for kind in _KINDS)} |")
    if args.tarantool:
        others = _measured([args.tarantool], args.count, args.rounds)
        print(f"| Tarantool | {' | '.join(f'{others[kind]:.1f}' for kind in _KINDS)} |")


if __name__ == "__main__":
    main()
