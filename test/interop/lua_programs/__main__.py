"""Runs generated programs on Lunabox and on Tarantool, and prints different replies and the rate of equal ones."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from test.interop.console_programs import console_node
from test.interop.lua_programs.comparison import compare
from test.interop.lua_programs.kinds import KINDS


def main() -> None:
    """Compare the classes that the arguments name, and print differences and rates."""
    parser = argparse.ArgumentParser(description="Compare generated console programs with a real Tarantool.")
    parser.add_argument("--kind", action="append", choices=[*KINDS, "mixed"], help="a class (default: all)")
    parser.add_argument("--count", type=int, default=100, help="programs of each class")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--mvcc", action="store_true", help="switch memtx_use_mvcc_engine on")
    options = parser.parse_args()
    tarantool = os.environ.get("LUNABOX_TARANTOOL") or shutil.which("tarantool")
    if tarantool is None:
        sys.exit("no tarantool on PATH, nor in LUNABOX_TARANTOOL")
    lunabox = str(Path(sys.executable).with_name("lunabox"))
    with console_node(lunabox, options.mvcc) as ours, console_node(tarantool, options.mvcc) as theirs:
        for kind in options.kind or [*KINDS, "mixed"]:
            result = compare(kind, range(options.seed, options.seed + options.count), ours, theirs)
            print("\n".join(result.differences))
            print(f"{kind}: {result.count} statements, {result.unequal} differ, {result.equal:.2f} % equal", flush=True)


if __name__ == "__main__":
    main()
