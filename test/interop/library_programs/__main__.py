"""`python -m test.interop.library_programs`: compares classes of programs, and prints differences and rates."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from test.interop.console_programs import console_node
from test.interop.library_programs.library_comparison import CLASSES, library_differences


def main() -> None:
    """Compare the classes that the arguments name, all if they name none."""
    parser = argparse.ArgumentParser(description="Compare generated programs that use libraries with a real Tarantool.")
    parser.add_argument("--kind", action="append", choices=[*CLASSES], help="a class (default: all)")
    parser.add_argument("--count", type=int, default=100, help="programs of each class")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    tarantool = os.environ.get("LUNABOX_TARANTOOL") or shutil.which("tarantool")
    if tarantool is None:
        sys.exit("no tarantool on PATH, nor in LUNABOX_TARANTOOL")
    with console_node(str(Path(sys.executable).with_name("lunabox"))) as ours, console_node(tarantool) as theirs:
        for kind in options.kind or [*CLASSES]:
            seeds = range(options.seed, options.seed + options.count)
            found, statements = library_differences(kind, seeds, ours, theirs)
            print("\n".join(found))
            share = 100 - 100 * len(found) / statements
            print(f"{kind}: {statements} statements, {len(found)} differ, {share:.2f} % equal", flush=True)


if __name__ == "__main__":
    main()
