"""What Tarantool's feedback daemon changes in the log and in the ids of fibers. Lunabox has no such daemon and sends
nothing.

The option `feedback_enabled` says whether Tarantool would run it.
"""

from __future__ import annotations

from box.instance.option_registry import PAUSES, Values


def has_feedback_daemon(values: Values) -> bool:
    """Return whether Tarantool would run its feedback daemon: then the log of a start has other ids of fibers, and
    lines in another order.
    """
    return bool(values["feedback_enabled"])


def first_pause(values: Values) -> str:
    """Return the option in `START_ORDER` before which Tarantool lets other fibers run for the first time."""
    with_daemon, without = PAUSES
    return with_daemon if has_feedback_daemon(values) else without
