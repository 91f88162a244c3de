"""Traces of Tarantool's feedback daemon, which Lunabox has not: nothing is ever sent.

`feedback_enabled` decides on them.
"""

from __future__ import annotations

from box.instance.option_registry import PAUSES, Values


def has_feedback_daemon(values: Values) -> bool:
    """Return whether Tarantool would run its feedback daemon.

    The order of lines and the numbers of fibers show it.
    """
    return bool(values["feedback_enabled"])


def first_pause(values: Values) -> str:
    """Return the option in `START_ORDER` before which Tarantool lets other fibers run for the first time."""
    with_daemon, without = PAUSES
    return with_daemon if has_feedback_daemon(values) else without
