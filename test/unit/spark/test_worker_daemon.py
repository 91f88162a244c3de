"""The daemon of Spark's Python workers: a connection that Spark closes is no failure."""

from __future__ import annotations

import pytest

from box.spark import worker_daemon


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError(), EOFError()])
def test_a_closed_connection_ends_a_worker(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(sock: object, authenticated: bool) -> int:
        raise error

    monkeypatch.setattr(worker_daemon, "_worker", fail)
    assert worker_daemon.worker(None, authenticated=True) == 1


def test_other_errors_and_codes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_daemon, "_worker", lambda sock, authenticated: 7)
    assert worker_daemon.worker(None, authenticated=True) == 7
    monkeypatch.setattr(worker_daemon, "_worker", lambda sock, authenticated: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        worker_daemon.worker(None, authenticated=True)


def test_the_daemon_serves_with_this_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    monkeypatch.setattr(worker_daemon.daemon, "worker", worker_daemon.daemon.worker)
    monkeypatch.setattr(worker_daemon.daemon, "manager", lambda: used.append(worker_daemon.daemon.worker))
    worker_daemon.main()
    assert used == [worker_daemon.worker]
