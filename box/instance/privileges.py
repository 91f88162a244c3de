"""`box.cfg.username`: an instance that root has started goes on as somebody else.

It is the process that changes, with all its threads: whatever else lives in it is that user's from then on. Facts of a
running Tarantool: before the log and any file is opened; no supplementary groups are left; who is not root only gets a
message.
"""

from __future__ import annotations

import os
import pwd

from box.errors import system_error
from box.journal.xlog import checksum
from box.log import Log


def become(username: str, log: Log) -> None:
    """SystemError for an unknown user, and for a system that refuses."""
    if os.geteuid() != 0 and os.getuid() != 0:
        log.error(f"can't switch to {username}: i'm not root")
        return
    try:
        account = pwd.getpwnam(username)
    except KeyError:
        raise system_error(f"User not found: {username}") from None
    checksum(b"")  # imports a package, which the new user may not be allowed to read
    try:
        os.setgid(account.pw_gid)
        os.setgroups([])
        os.setuid(account.pw_uid)
    except OSError as error:
        raise system_error("setgid/setuid", error.errno or 0) from error
