"""Blocking calls run in their own threads while they hold the node's turn, and no thread waits for ever.

Tests that might hang run in a child process, which a watchdog kills.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

WATCHDOG = 100
"""Seconds until the watchdog kills a program, which takes one or two on an idle machine."""
HEAD = """
import asyncio, ctypes, faulthandler, os, signal, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
faulthandler.dump_traceback_later(90, exit=True)
from box import BoxError, FiberIsCancelled, NotReadyError
from box.sync import Node

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts the tests with & ignores the signal

def kill(thread_id, kind):
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(kind))

def space_of(node):
    space = node.schema.create_space("s", if_not_exists=True)
    space.create_index("pk", if_not_exists=True)
    return space
"""


def run(directory: Path, program: str, code: int = 0) -> list[str]:
    source = HEAD + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", source, str(directory)], capture_output=True, text=True, timeout=WATCHDOG, check=False
    )
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.splitlines()


def test_a_request_runs_in_the_thread_that_makes_it(tmp_path: Path) -> None:
    """Requests run in the calling thread, also with a log and in transactions; those with triggers run in the node's
    thread.
    """
    assert run(
        tmp_path,
        """
        from box.txn.dml import Dml
        seen = []
        store = Dml.store
        Dml.store = lambda self, *args: (seen.append(threading.current_thread().name), store(self, *args))[1]
        with Node(sys.argv[1]) as node:
            space = space_of(node)
            seen.clear()
            space.insert([1])
            with node.transaction():
                space.insert([2])
            space.on_replace(lambda old, new: None)
            space.insert([3])
        print(*seen)
        """,
    ) == ["MainThread MainThread box"]


def test_a_call_in_the_thread_of_the_node_is_an_error(tmp_path: Path) -> None:
    """A blocking call in the node's own thread (a function, a trigger, a callback) raises, and the node goes on."""
    assert run(
        tmp_path,
        """
        with Node() as node:
            space = space_of(node)
            told = []
            def call():
                for blocking in (lambda: space.get(1), lambda: space.insert([1]), lambda: node.eval(""), node.stop):
                    try:
                        blocking()
                    except RuntimeError as error:
                        told.append(str(error))
            node.function(call)
            node.call("call")
            space.on_replace(lambda old, new: call())
            space.insert([5])
            print(len(told), len(set(told)), told[0])
            print(space.len())
        """,
    ) == [
        "8 1 a blocking call in the thread of its node would wait for itself: use Node.asynchronous",
        "1",
    ]


def test_a_call_in_a_signal_handler_is_an_error_inside_another_one(tmp_path: Path) -> None:
    """A call in a signal handler works between two calls, and raises inside one; no row is lost and nothing hangs."""
    lines = run(
        tmp_path,
        """
        with Node(sys.argv[1]) as node:
            space = space_of(node)
            told, handled = {"done": 0, "refused": 0}, []
            def handle(number, frame):
                if handled:
                    return  # a signal in the middle of this would count the same change twice
                handled.append(number)
                try:
                    space.replace([0, told["done"]])
                    told["done"] += 1
                except RuntimeError as error:
                    assert "inside another one of this thread, as in a signal handler" in str(error), error
                    told["refused"] += 1
                handled.clear()
            signal.signal(signal.SIGALRM, handle)
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            number = 0
            while told["refused"] < 5 or told["done"] < 5:
                number += 1
                space.replace([number])
            signal.setitimer(signal.ITIMER_REAL, 0, 0)
            assert space.len() == number + 1
        with Node(sys.argv[1]) as node:
            print(node.space.s.len() == number + 1, node.space.s.get(0)[1] == told["done"] - 1)
        """,
    )
    assert lines == ["True True"]


def test_a_signal_at_any_step_of_a_call_is_refused(tmp_path: Path) -> None:
    """A call in a signal handler raises from the first to the last step of the call that it interrupts."""
    lines = run(
        tmp_path,
        """
        class Lock:
            "A lock that lets a signal come just before and just after each of its steps."
            def __init__(self, lock):
                self.acquire, self.release, self.locked = lock.acquire, lock.release, lock.locked
            def __enter__(self):
                interrupt()
                self.acquire()
                interrupt()
            def __exit__(self, *error):
                interrupt()
                self.release()
                interrupt()

        def interrupt():
            if threading.current_thread() is threading.main_thread():
                signal.raise_signal(signal.SIGUSR1)

        with Node(sys.argv[1]) as node:
            space = space_of(node)
            told = []
            def handle(number, frame):
                for call in (lambda: space.replace([0]), lambda: node.eval("")):
                    try:
                        call()
                    except RuntimeError as error:
                        told.append(str(error))
            signal.signal(signal.SIGUSR1, handle)
            turn = node._contexts.thread.turn
            turn.lock, turn.gate = Lock(turn.lock), Lock(turn.gate)
            space.replace([1])
            print(len(told))
            told.clear()
            started = threading.Event()
            def busy():
                started.set()
                time.sleep(0.2)
            node.function(busy)
            other = threading.Thread(target=node.call, args=("busy",))
            other.start()
            started.wait()
            space.replace([2])
            other.join()
            print(len(told), set(told))
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            print(space.select())
        """,
    )
    refusal = "a blocking call inside another one of this thread, as in a signal handler, would wait for itself"
    # A call has eight steps if the loop sleeps, and sixteen if it has to ask the loop for its turn.
    assert lines[0] in ("8", "16")
    assert lines[1:] == [f"16 {{{refusal!r}}}", "[(1,), (2,)]"]


@pytest.mark.parametrize("where", ["", "sys.argv[1]"])
def test_ctrl_c_waits_for_the_end_of_a_change(tmp_path: Path, where: str) -> None:
    """Ctrl-C during a change is raised after it, and the node goes on."""
    lines = run(
        tmp_path,
        f"""
        with Node({where}) as node:
            space = space_of(node)
            count = told = 0
            def interrupt():
                while told < 20:
                    working.wait()
                    working.clear()
                    time.sleep(0.002)
                    os.kill(os.getpid(), signal.SIGINT)
            working = threading.Event()  # one signal for each round, which cannot come outside of it
            threading.Thread(target=interrupt, daemon=True).start()
            while told < 20:
                try:
                    working.set()
                    while True:
                        space.replace([count % 1000, count])
                        count += 1
                except KeyboardInterrupt:
                    told += 1
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            rows = space.select()
            assert [row[0] for row in rows] == list(range(len(rows)))
            assert space.insert([5000]) == [5000]
            print(told)
        """,
    )
    assert lines == ["20"]


def test_ctrl_c_ends_a_wait(tmp_path: Path) -> None:
    assert run(
        tmp_path,
        """
        with Node(sys.argv[1], replication_synchro_quorum=2, replication_synchro_timeout=1000) as node:
            space = node.schema.create_space("s", is_sync=True)
            space.create_index("pk")
            for wait in (lambda: node.eval("require('fiber').sleep(100)"), lambda: space.insert([1])):
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    wait()
                except KeyboardInterrupt:
                    print("interrupted")
            print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        """,
    ) == ["interrupted", "interrupted", "False", "True"]


@pytest.mark.parametrize("kind", ["SystemExit", "Killed"])
def test_a_thread_that_is_killed_leaves_the_data_whole(tmp_path: Path, kind: str) -> None:
    """A thread that is killed inside a change stops the node with an error; otherwise the change is complete or did not
    happen.
    """
    lines = run(
        tmp_path,
        f"""
        class Killed(Exception):
            pass
        told = []
        def write(node, first, told):
            space = node.space.s
            try:
                for number in range(first, first + 1_000_000):
                    if number % 3:
                        space.replace([number, number])
                    else:
                        with node.transaction():
                            space.replace([number, number])
                    told.append(number)
            except (SystemExit, Killed, NotReadyError, FiberIsCancelled):
                pass
        first = 0
        for _ in range(8):
            with Node(sys.argv[1], log_level=0) as node:
                space = space_of(node)
                there = [row[0] for row in space.select()]
                assert set(told) <= set(there), (len(told), len(there))
                assert len(there) - len(told) <= 2 * 8
                threads = [threading.Thread(target=write, args=(node, first + part, told)) for part in (0, 1_000_000)]
                first += 2_000_000
                for thread in threads:
                    thread.start()
                time.sleep(0.02)
                for thread in threads[:1]:
                    kill(thread.ident, {kind})
                threads[0].join()
                try:
                    space.len()
                except NotReadyError as error:
                    assert "has interrupted a change; what is in its log counts" in str(error), error
                else:
                    for thread in threads[1:]:
                        kill(thread.ident, {kind})
                for thread in threads:
                    thread.join()
        print(bool(told))
        """,
    )
    assert lines == ["True"]


def test_an_exception_in_the_end_of_a_write_stops_the_node(tmp_path: Path) -> None:
    """An exception that another thread sends can arrive while the journal tells that a change is written."""
    lines = run(
        tmp_path,
        """
        from box.txn import fast_path
        class Killed(Exception):
            pass
        written = fast_path._written
        def killed(entry):
            fast_path._written = written
            raise Killed
        with Node(sys.argv[1], log_level=0) as node:
            space = space_of(node)
            space.replace([1])
            fast_path._written = killed
            try:
                space.replace([2])
            except Killed:
                print("killed")
            try:
                space.len()
            except NotReadyError as error:
                print("Killed has interrupted a change" in str(error))
        with Node(sys.argv[1], log_level=0) as node:
            print(node.space.s.len())
        """,
    )
    assert lines == ["killed", "True", "2"]


def test_a_fork_is_told_that_the_node_is_not_its_own(tmp_path: Path) -> None:
    """After a fork the child's calls raise, also if another thread had the turn at the fork."""
    lines = run(
        tmp_path,
        """
        with Node() as node:
            space = space_of(node)
            stop = threading.Event()
            def write():
                number = 0
                while number < 100 or not stop.is_set():
                    number += 1
                    space.replace([number % 100])
            thread = threading.Thread(target=write)
            thread.start()
            for _ in range(10):
                child = os.fork()
                if not child:
                    told = set()
                    for call in (lambda: space.get(1), lambda: space.insert([1]), lambda: node.eval(""), node.stop):
                        try:
                            call()
                        except RuntimeError as error:
                            told.add(str(error))
                    os._exit(0 if len(told) == 1 and "start a node after the fork instead" in told.pop() else 1)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            stop.set()
            thread.join()
            print(space.len())
        """,
    )
    assert lines == ["0"] * 10 + ["100"]


def test_calls_while_the_node_stops(tmp_path: Path) -> None:
    """When the node stops, every thread's call ends with an error that says why; acknowledged rows are in the log."""
    lines = run(
        tmp_path,
        """
        told = []
        def work(node, part):
            space = None
            number = 0
            while True:
                number += 1
                try:
                    space = space or node.space.s
                    if part % 2:
                        with node.transaction():
                            space.insert([part, number])
                            space.get([part, number])
                    else:
                        space.insert([part, number])
                    told.append((part, number))
                    space.select([part], iterator="GE", limit=3)
                    list(zip(space.pairs(), range(300)))
                except (NotReadyError, FiberIsCancelled) as error:
                    return type(error).__name__
        for round in range(5):
            node = Node(sys.argv[1], log_level=0)
            node.start()
            space = node.schema.create_space("s", if_not_exists=True)
            space.create_index("pk", parts=[[1, "unsigned"], [2, "unsigned"]], if_not_exists=True)
            assert {tuple(row) for row in space.select()} >= set(told)
            space.truncate()
            told.clear()
            with ThreadPoolExecutor(6) as pool:
                ends = [pool.submit(work, node, part) for part in range(6)]
                time.sleep(0.05)
                node.stop()
                assert {end.result(10) for end in ends} <= {"NotReadyError", "FiberIsCancelled"}
        print(threading.active_count(), len(told) > 5)
        """,
    )
    assert lines == ["1 True"]


def test_a_busy_loop_gives_the_turn_away(tmp_path: Path) -> None:
    """A loop that is always busy gives turns to threads."""
    lines = run(
        tmp_path,
        """
        with Node() as node:
            space = space_of(node)
            node.eval("require('fiber').create(function() while true do require('fiber').yield() end end)")
            start = time.monotonic()
            for number in range(200):
                space.insert([number])
            print(space.len(), time.monotonic() - start < 10)
        """,
    )
    assert lines == ["200 True"]


def test_a_loop_in_debug_mode_does_everything_itself(tmp_path: Path) -> None:
    lines = run(
        tmp_path,
        """
        import os
        os.environ["PYTHONASYNCIODEBUG"] = "1"
        asyncio.coroutines._DEBUG = True
        with Node(sys.argv[1], log_level=0) as node:
            space = space_of(node)
            space.insert([1])
            with node.transaction():
                space.insert([2])
            assert space.insert_many([[3], [4]]) == 2
            print(space.len(), node._contexts.thread.is_direct)
        """,
    )
    assert lines == ["4 True"] or lines == ["4 False"]


def test_timers_of_a_request_are_heard(tmp_path: Path) -> None:
    """A synchronous write from a thread arms the timer of its quorum while the loop sleeps."""
    lines = run(
        tmp_path,
        """
        with Node(sys.argv[1], replication_synchro_quorum=2, replication_synchro_timeout=0.2) as node:
            space = node.schema.create_space("s", is_sync=True)
            space.create_index("pk")
            start = time.monotonic()
            try:
                space.insert([1])
            except BoxError as error:
                print(type(error).__name__, time.monotonic() - start < 5)
            print(space.len())
        """,
    )
    assert lines == ["QuorumTimeoutError True", "0"]


def test_a_trigger_that_ends_the_program_ends_no_other_call(tmp_path: Path) -> None:
    """SystemExit in a trigger ends no other call; before, it ended the node's loop, and waiting calls
    never returned.
    """
    lines = run(
        tmp_path,
        """
        def leave(old, new):
            raise SystemExit(3)
        def work(node, part):
            space, exits, number = node.space.s, 0, 0
            while True:
                number += 1
                try:
                    space.insert([part, number])
                except SystemExit as error:
                    exits += error.code == 3
                except (NotReadyError, FiberIsCancelled):
                    return exits > 0
        for register in ("on_replace", "before_replace"):
            node = Node()
            node.start()
            space = node.schema.create_space("s")
            space.create_index("pk", parts=[[1, "unsigned"], [2, "unsigned"]])
            getattr(space, register)(leave)
            with ThreadPoolExecutor(3) as pool:
                ends = [pool.submit(work, node, part) for part in range(3)]
                time.sleep(0.2)
                node.stop()
                print(all(end.result(10) for end in ends))
        """,
    )
    assert lines == ["True", "True"]


def test_functions_of_indexes_run_in_the_thread_of_the_node(tmp_path: Path) -> None:
    """Functions of functional indexes run in the node's thread, because they are Lua."""
    lines = run(
        tmp_path,
        """
        with Node() as node:
            space = space_of(node)
            node.eval('''
                local options = {is_deterministic = true, is_sandboxed = true}
                options.body = 'function(t) return {t[2]} end'
                box.schema.func.create('key', options)
                box.space.s:create_index('by_note', {func = 'key', parts = {{1, 'string'}}})
            ''')
            schema = node.asynchronous._embedding.core.schema
            seen, call = [], schema.call_function
            def note(*args):
                seen.append(threading.get_ident())
                return call(*args)
            schema.call_function = note
            space.insert([1, "a"])
            space.replace([2, "b"])
            space.delete(1)
            print(len(seen) >= 2, threading.get_ident() in seen, tuple(space.get("b", index="by_note")))
        """,
    )
    assert lines == ["True False (2, 'b')"]
