"""`lunabox-sim`: run a simulated replica set from the command line.

    lunabox-sim --seed 7 --nodes 5 --workload bank --faults all --time 600
    lunabox-sim --seed 1-1000 --jobs 2 --save failures
    lunabox-sim --replay failures/bank-17.json --diagram bank-17.svg

A failed run is shortened by leaving faults out; the file and the diagram show the short run. The exit status is 0 for
success, 1 if a run failed, 2 for wrong usage, 130 after an interrupt and 141 if the output's reader is gone.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from box.exit_status import after_closed_pipe
from box.replication.elections import ElectionMode
from box.testing.simulation.diagram import as_svg, as_text
from box.testing.simulation.faults import kinds_of
from box.testing.simulation.run import Outcome, Scenario, play
from box.testing.simulation.shrinking import shorten
from box.testing.simulation.workloads import WORKLOADS
from box.version import VERSION

_NODES: Final = range(1, 32)
"""The possible numbers of nodes. A replica set of Tarantool has at most 31 members."""
_SHOWN: Final = 10
"""The number of violations of one run that are printed."""
_LAST: Final = 2.0
"""The simulated seconds at the end of a run that the text diagram shows."""


def _seeds(text: str) -> range:
    first, dash, last = text.partition("-")
    try:
        found = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        found = range(0)
    if not found:
        raise argparse.ArgumentTypeError(f"a number or a range such as 1-100 is expected, not {text!r}")
    return found


def _kinds(text: str) -> tuple[str, ...]:
    try:
        return kinds_of(text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _node_count(text: str) -> int:
    if not text.isdigit() or int(text) not in _NODES:
        raise argparse.ArgumentTypeError(f"1 to {_NODES[-1]} nodes are possible, not {text!r}")
    return int(text)


def _positive(text: str, what: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e9:
        raise argparse.ArgumentTypeError(f"a number of {what} is expected, not {text!r}")
    return found


_seconds: Final = partial(_positive, what="seconds")
_rate: Final = partial(_positive, what="calls a second")


def _replay(text: str) -> Scenario:
    try:
        return Scenario.from_json(Path(text).read_text())
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lunabox-sim", description="Run a simulated replica set.")
    parser.add_argument("--seed", type=_seeds, default=range(1, 2), metavar="N[-M]", help="a seed or a range of seeds")
    parser.add_argument("--nodes", type=_node_count, default=3, metavar="N", help="nodes of the replica set")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="bank", help="what clients do")
    parser.add_argument("--faults", type=_kinds, default="all", metavar="LIST", help="kinds or groups: all, none, ...")
    modes = [mode.value for mode in ElectionMode]
    parser.add_argument("--elections", choices=modes, default="off", help="election_mode of all nodes")
    parser.add_argument(
        "--hazards", action="store_true", help="synchronous timeouts shorter than elections, equal vclocks in the end"
    )
    parser.add_argument("--fetch-once", action="store_true", help="replication_fetch_once of all nodes")
    parser.add_argument("--rate", type=_rate, metavar="CALLS", help="calls a second of all clients, at most")
    parser.add_argument("--time", type=_seconds, default=60.0, metavar="SECONDS", help="simulated seconds")
    parser.add_argument(
        "--deadline", type=_seconds, default=600.0, metavar="SECONDS", help="processor seconds of one run"
    )
    parser.add_argument("--jobs", type=_node_count, default=1, metavar="N", help="runs at the same time")
    parser.add_argument("--replay", type=_replay, metavar="FILE", help="run exactly what the file says")
    parser.add_argument("--save", type=Path, metavar="DIRECTORY", help="where files of failed runs go")
    parser.add_argument("--diagram", type=Path, metavar="FILE.svg", help="a space-time diagram of the last run")
    parser.add_argument("--fail-fast", action="store_true", help="end at the first run that fails")
    parser.add_argument("--no-shrink", action="store_true", help="leave all faults in a run that fails")
    parser.add_argument(
        "--version", action="version", version=f"{parser.prog} {VERSION}", help="print the version and exit"
    )
    return parser


def _outcomes(scenarios: Sequence[Scenario], jobs: int, deadline: float, keeps_messages: bool) -> Iterator[Outcome]:
    run = partial(play, deadline=deadline, keeps_messages=keeps_messages)
    if jobs == 1 or len(scenarios) == 1:
        yield from map(run, scenarios)
        return
    pool = ProcessPoolExecutor(jobs)
    try:
        yield from pool.map(run, scenarios)
    finally:
        pool.shutdown(cancel_futures=True)


def _print_failure(outcome: Outcome) -> None:
    for violation in outcome.violations[:_SHOWN]:
        print(f"  {violation}")
    if len(outcome.violations) > _SHOWN:
        print(f"  and {len(outcome.violations) - _SHOWN} more")
    print("  faults:")
    for fault in outcome.scenario.faults or ():
        print(f"    {fault}")
    events = outcome.trace.events
    if events:
        print(as_text(outcome.trace, events[-1].time - _LAST))


def _save(directory: Path, outcome: Outcome) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{outcome.scenario.workload}-{outcome.scenario.seed}.json"
    path.write_text(outcome.scenario.to_json())
    print(f"  saved: {path}")


def _report(outcomes: Iterable[Outcome], options: argparse.Namespace) -> tuple[int, int]:
    """Print the outcomes, and return the number of runs and of failures."""
    runs = failures = 0
    last: Outcome | None = None
    for outcome in outcomes:
        last = outcome
        runs += 1
        print(outcome.summary, flush=True)
        if not outcome.violations:
            continue
        failures += 1
        if not options.no_shrink:
            last = shorten(outcome, deadline=options.deadline, tell=lambda text: print(f"  {text}", flush=True))
        _print_failure(last)
        if options.save is not None:
            _save(options.save, last)
        if options.fail_fast:
            break
    if options.diagram is not None and last is not None:
        options.diagram.write_text(as_svg(play(last.scenario, keeps_messages=True).trace))
    return runs, failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `lunabox-sim` and return its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.replay is not None:
        scenarios = [options.replay]
    else:
        settings = {"replication_fetch_once": True} if options.fetch_once else {}
        scenarios = [
            Scenario(
                seed,
                options.nodes,
                options.workload,
                options.time,
                options.faults,
                elections=options.elections,
                options=settings,
                hazards=options.hazards,
                rate=options.rate,
            )
            for seed in options.seed
        ]
        try:
            scenarios[0].check()
        except ValueError as error:
            parser.error(str(error))
    # Ctrl-C ends all processes at once. A KeyboardInterrupt could come anywhere in a run, and be taken for its result.
    answer = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        runs, failures = _report(_outcomes(scenarios, options.jobs, options.deadline, False), options)
        if len(scenarios) > 1:
            print(f"{runs} runs, {failures} failed", flush=True)
    except BrokenPipeError:
        return after_closed_pipe()
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    finally:
        signal.signal(signal.SIGINT, answer)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
