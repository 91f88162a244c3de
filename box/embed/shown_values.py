"""Values of the program in texts of errors: short, and safe for any object."""

from __future__ import annotations

from reprlib import Repr
from typing import Any, Final

_REPR: Final = Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 120
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxset = 8


def shown(value: Any) -> str:
    """Return the `repr` of a value, shortened to about a line.

    Python's own `repr` has a megabyte for a text of a megabyte, fails for lists that are nested too deeply, and raises
    what the class of the object raises.
    """
    return _REPR.repr(value)


def shown_with_type(value: Any) -> str:
    """Return the type and the `repr` of a value: `int: 5`."""
    return f"{type(value).__name__}: {shown(value)}"
