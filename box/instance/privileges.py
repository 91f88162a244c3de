"""`box.cfg.username`: an instance started by root continues as another user.

The whole process changes, with all its threads and everything else in it. Facts of a running Tarantool: the change
happens before the log or any file is opened; no supplementary groups remain; a process that is not root's only logs a
message.
"""

from __future__ import annotations

import os
import pwd

from box.errors import system_error
from box.log import Log


def become(username: str, log: Log) -> None:
    """Change the user of the process.

    Raises:
        BoxSystemError: the user is unknown, or the system refuses.
    """
    if os.geteuid() != 0 and os.getuid() != 0:
        log.error(f"can't switch to {username}: i'm not root")
        return
    try:
        account = pwd.getpwnam(username)
    except (KeyError, ValueError):  # ValueError: NUL in the name
        raise system_error(f"User not found: {username}") from None
    _import_checksums()
    try:
        os.setgid(account.pw_gid)
        os.setgroups([])
        os.setuid(account.pw_uid)
    except OSError as error:
        raise system_error("setgid/setuid", error.errno or 0) from error


def _import_checksums() -> None:
    """Import what checksums of log files need, which the new user may not be allowed to read."""
    import box.journal.xlog  # noqa: F401
