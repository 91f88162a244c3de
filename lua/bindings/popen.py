"""`popen`: other programs, whose standard streams may be pipes to fibers.

A child is reaped through its descriptor (`pidfd_open`), which the loop watches. So no thread waits, and children of
others (the log's command, a script's forks) are left to their owners.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

from box.data import codec
from box.errors import fiber_is_cancelled
from lua.bindings.binding import Binding, Outcome, exported, guarded
from lua.bindings.poll import Poll
from lua.machine.sockets import READ, WRITE

if TYPE_CHECKING:
    from box.instance.node import Instance
    from lua.runtime import Runtime

_READ_SIZE: Final = 4096
"""The bytes of one read, as in Tarantool."""
_SHELL: Final = "/bin/sh"
_STREAMS: Final = ("stdin", "stdout", "stderr")
_DEVNULL, _PIPE, _CLOSE = "devnull", "pipe", "close"


@dataclass(eq=False, repr=False, slots=True)
class _Child:
    """A child process. `pipes` are the parent's ends by stream, -1 for a closed one."""

    process: subprocess.Popen[bytes]
    descriptor: int
    is_group: bool
    is_kept: bool
    pipes: dict[int, int]
    waiters: list[int] = field(default_factory=list)
    is_closed: bool = False


def _failing(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method return `(None, errno)` for a failure of the system."""

    @wraps(method)
    def call(self: PopenBinding, *args: Any) -> Any:
        try:
            return method(self, *args)
        except BlockingIOError:
            return None, errno.EAGAIN
        except (OSError, ValueError, OverflowError) as error:
            return None, getattr(error, "errno", None) or errno.EINVAL

    return call


class PopenBinding(Binding):
    """Python half of lua/modules/popen.lua; handles are numbers there."""

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._poll = Poll(runtime)
        self._children: dict[int, _Child] = {}
        self._last_id = 0
        node.on_close.append(self.close_all)

    def close_all(self) -> None:
        """Close all handles, because the node stops; children that are not to be kept are killed."""
        self._poll.close()
        for number, child in list(self._children.items()):
            if not child.is_closed:
                self.close(number)
            if child.is_kept:
                # The child outlives this process; a return code stops Python from waiting for it.
                child.process.returncode = 0
                self._forget(number, child)
            else:
                child.process.wait()
                self._reap(number, child)

    @guarded("popen_new")
    @_failing
    def new(self, packed: bytes) -> Outcome:
        """Start a program. Returns the number of the handle and the process id.

        `packed` is {argv, options, env} with all options set; without `env` the child inherits the environment.

        Raises:
            UnsupportedError: the machine has no other programs.
        """
        self.runtime.machine.require_outside("popen")
        request = codec.unpack(packed)
        argv, options, environment = list(request["argv"]), request["options"], request.get("env")
        process = _spawn(argv, options, environment)
        self._last_id += 1
        pipes = {
            number: os.dup(pipe.fileno())
            for number, pipe in enumerate((process.stdin, process.stdout, process.stderr))
            if pipe is not None
        }
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        for descriptor in pipes.values():
            os.set_blocking(descriptor, False)
        child = _Child(
            process, os.pidfd_open(process.pid), bool(options["group_signal"]), bool(options["keep_child"]), pipes
        )
        self._children[self._last_id] = child
        self.runtime.processes.add(process.pid)
        self.runtime.loop.add_reader(child.descriptor, self._reap, self._last_id, child)
        return self._last_id, process.pid

    # Streams

    @exported("popen_descriptor")
    def descriptor(self, number: float, stream: float) -> int | None:
        """Return the parent's end of a stream: 0 for a closed one, None if the stream is not a pipe."""
        found = self._children[int(number)].pipes.get(int(stream))
        return None if found is None else max(found, 0)

    @exported("popen_ready")
    def ready(self, number: float, stream: float, timeout: float | None) -> Outcome:
        """Wait until an open stream can be read or written. Returns 0 after `timeout` seconds."""
        descriptor = self._children[int(number)].pipes[int(stream)]
        return self._poll.wait(descriptor, READ if stream else WRITE, timeout)

    @exported("popen_read")
    @_failing
    def read(self, number: float, stream: float) -> Outcome:
        """Read some bytes; none at the end, EAGAIN if there are none yet."""
        return os.read(self._children[int(number)].pipes[int(stream)], _READ_SIZE)

    @exported("popen_write")
    @_failing
    def write(self, number: float, data: bytes, start: float) -> Outcome:
        """Write bytes from `start` on. Returns the number written, or EAGAIN if the pipe is full."""
        return os.write(self._children[int(number)].pipes[0], memoryview(data)[int(start) :])

    @exported("popen_shutdown")
    def shutdown(self, number: float, stream: float) -> None:
        """Close the parent's end of a stream; safe to call again."""
        self._close_pipe(self._children[int(number)], int(stream))

    # The process

    @exported("popen_status")
    def status(self, number: float) -> int | None:
        """Return the exit code, 256 + the signal that ended it, or None while it runs."""
        return _status(self._children[int(number)].process)

    @exported("popen_wait")
    def wait(self, number: float) -> Outcome:
        """Return a token that wakes when the process has ended, or None if it has."""
        child = self._children[int(number)]
        if child.process.returncode is not None:
            return None
        token = self.runtime.new_token(lambda: self._cancel(child, token))
        child.waiters.append(token)
        return token

    @exported("popen_signal")
    @_failing
    def signal(self, number: float, signal_number: float) -> Outcome:
        """Send a signal to the process or its group; ESRCH if it has ended."""
        child = self._children[int(number)]
        if child.process.returncode is not None:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        send = os.killpg if child.is_group else os.kill
        send(child.process.pid, int(signal_number))
        return True

    @exported("popen_close")
    def close(self, number: float) -> None:
        """Forget a handle: close its pipes, and kill its process unless it is to be kept."""
        child = self._children.get(int(number))
        if child is None or child.is_closed:
            return
        child.is_closed = True
        for stream in list(child.pipes):
            self._close_pipe(child, stream)
        if child.process.returncode is not None:
            self._forget(int(number), child)
        elif not child.is_kept:
            with suppress(OSError):
                (os.killpg if child.is_group else os.kill)(child.process.pid, signal.SIGKILL)

    # The end

    def _reap(self, number: int, child: _Child) -> None:
        if child.descriptor < 0 or child.process.poll() is None:
            return
        self._unwatch(child)
        waiters, child.waiters = child.waiters, []
        for token in waiters:
            self.runtime.wake(token)
        if child.is_closed:
            self._children.pop(number, None)

    def _forget(self, number: int, child: _Child) -> None:
        if child.descriptor >= 0:
            self._unwatch(child)
        self._children.pop(number, None)

    def _unwatch(self, child: _Child) -> None:
        self.runtime.loop.remove_reader(child.descriptor)
        os.close(child.descriptor)
        child.descriptor = -1
        self.runtime.processes.discard(child.process.pid)

    def _cancel(self, child: _Child, token: int) -> None:
        if token in child.waiters:
            child.waiters.remove(token)
            self.runtime.fail(token, fiber_is_cancelled())

    def _close_pipe(self, child: _Child, stream: int) -> None:
        descriptor = child.pipes.get(stream, -1)
        if descriptor >= 0:
            child.pipes[stream] = -1
            self._poll.forget(descriptor)
            os.close(descriptor)


def _spawn(argv: list[str], options: dict[str, Any], environment: dict[str, str] | None) -> subprocess.Popen[bytes]:
    """Start a program or a shell with a command. A program that cannot be executed, or is not named, counts as ended
    with the errno, as in Tarantool. Raises OSError.
    """
    streams = [_stream(str(options[name])) for name in _STREAMS]
    closed = [number for number, name in enumerate(_STREAMS) if options[name] == _CLOSE]
    start: Callable[..., subprocess.Popen[bytes]] = partial(  # type: ignore[assignment]
        subprocess.Popen,
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        bufsize=0,
        env=None if environment is None else dict(environment),
        close_fds=bool(options["close_fds"]),
        restore_signals=bool(options["restore_signals"]),
        start_new_session=bool(options["setsid"]),
        preexec_fn=_closer(closed) if closed else None,
    )
    if options["shell"]:
        return start(["sh", "-c", *argv], executable=_SHELL)
    if not argv:
        return start([_SHELL, "-c", f"exit {errno.EFAULT}"])
    try:
        return start(argv, executable=_path_of(argv[0]))
    except OSError as error:
        if error.filename is None or error.errno is None:
            raise
        return start([_SHELL, "-c", f"exit {error.errno}"])


def _path_of(program: str) -> str:
    """Return the path of a program. A name is one in the working directory: PATH is not searched, as in Tarantool."""
    if not program:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return program if "/" in program else f"./{program}"


def _stream(action: str) -> int | None:
    return {_DEVNULL: subprocess.DEVNULL, _PIPE: subprocess.PIPE}.get(action)


def _closer(streams: list[int]) -> Callable[[], None]:
    """Return a function that closes standard streams in the child."""

    def close() -> None:
        for number in streams:
            with suppress(OSError):
                os.close(number)

    return close


def _status(process: subprocess.Popen[bytes]) -> int | None:
    code = process.returncode
    # A signal, which Python gives as a negative number, comes after all exit codes, which have eight bits.
    return code if code is None or code >= 0 else 256 - code
