"""Collations of the system's ICU library, called through ctypes: `ucol_open`, `ucol_setAttribute`, `ucol_getSortKey`,
`ucol_strcoll`.

ICU's C functions carry the version in their names (`ucol_open_72`), which the file name tells. The keys live only in
memory, so that keys of machines with different versions are never compared.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

_ATTRIBUTES: Final = {
    "french_collation": 0,
    "alternate_handling": 1,
    "case_first": 2,
    "case_level": 3,
    "normalization_mode": 4,
    "strength": 5,
    "numeric_collation": 7,
}
"""The numbers of `UColAttribute`."""

_VALUES: Final = {
    "primary": 0,
    "secondary": 1,
    "tertiary": 2,
    "quaternary": 3,
    "identical": 15,
    "off": 16,
    "on": 17,
    "shifted": 20,
    "non_ignorable": 21,
    "lower_first": 24,
    "upper_first": 25,
}
"""The numbers of `UColAttributeValue`."""


class Icu:
    """The ICU library and the collators opened so far, which live as long as the process."""

    def __init__(self, library: ctypes.CDLL, version: str) -> None:
        self.version = version
        self._library = library
        self._open = self._function(library, "ucol_open", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self._set = self._function(
            library, "ucol_setAttribute", None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p
        )
        self._key = self._function(
            library,
            "ucol_getSortKey",
            ctypes.c_int32,
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_int32,
            ctypes.c_char_p,
            ctypes.c_int32,
        )
        text, size = ctypes.c_char_p, ctypes.c_int32
        self._compare = self._function(library, "ucol_strcoll", ctypes.c_int, ctypes.c_void_p, text, size, text, size)

    def _function(self, library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        function = library[f"{name}_{self.version}"]
        function.restype = result
        function.argtypes = arguments
        return function

    def case(self, locale: str, is_upper: bool) -> Callable[[str], str]:
        """Return a function that changes the case of texts by the rules of a locale."""
        number, size = ctypes.c_int32, ctypes.c_char_p
        name = "u_strToUpper" if is_upper else "u_strToLower"
        change = self._function(self._library, name, number, size, number, size, number, size, ctypes.c_void_p)
        encoded = locale.encode()

        def changed(text: str) -> str:
            units = text.encode(_UTF16, "surrogatepass")
            room = 4 + 3 * len(units) // 2  # no letter becomes more than three
            buffer = ctypes.create_string_buffer(2 * room)
            status = number(0)
            count: int = change(buffer, room, units, len(units) // 2, encoded, ctypes.byref(status))
            return buffer.raw[: 2 * count].decode(_UTF16, "surrogatepass")

        return changed

    def collator(
        self, locale: str, strength: str, attributes: Iterable[tuple[str, str]] = ()
    ) -> Callable[[str], bytes]:
        """Return a function from text to sort key for a locale; '' is the root locale. `attributes` are names and
        values in lower case.
        """
        handle, get_key = self._opened(locale, strength, attributes), self._key

        def key(text: str) -> bytes:
            units = text.encode(_UTF16, "surrogatepass")
            # A guess that usually saves the second call; if it is too small, ICU tells the size that it needs.
            room = 32 + 4 * len(units)
            while True:
                buffer = ctypes.create_string_buffer(room)
                size: int = get_key(handle, units, len(units) // 2, buffer, room)
                if size <= room:
                    return buffer.raw[: size - 1]
                room = size

        return key

    def comparer(
        self, locale: str, strength: str, attributes: Iterable[tuple[str, str]] = ()
    ) -> Callable[[str, str], int]:
        """Return a function that compares two texts: the result is -1, 0 or 1. It takes a third of the time of two sort
        keys. Arguments as in `collator`.
        """
        handle, compare = self._opened(locale, strength, attributes), self._compare

        def compared(left: str, right: str) -> int:
            first, second = left.encode(_UTF16, "surrogatepass"), right.encode(_UTF16, "surrogatepass")
            result: int = compare(handle, first, len(first) // 2, second, len(second) // 2)
            return result

        return compared

    def _opened(self, locale: str, strength: str, attributes: Iterable[tuple[str, str]]) -> Any:
        status = ctypes.c_int(0)
        handle = self._open(locale.encode(), ctypes.byref(status))
        for name, value in (*attributes, ("strength", strength)):
            self._set(handle, _ATTRIBUTES[name], _VALUES[value], ctypes.byref(status))
        if status.value > 0:
            raise RuntimeError(f"ICU cannot open the collation of '{locale}': error {status.value}")
        return handle


_UTF16: Final = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


@lru_cache(maxsize=1)
def library() -> Icu | None:
    """Return the system's ICU, or the one inside the `icu4py` wheel, or None."""
    for path, load_first in _candidates():
        version = re.search(r"\.(?:so\.)?(\d+)", path.rpartition("icui18n")[2])
        try:
            for other in load_first:
                ctypes.CDLL(other, mode=ctypes.RTLD_GLOBAL)
            loaded = ctypes.CDLL(path)
            return Icu(loaded, version.group(1) if version else "")
        except (OSError, AttributeError):
            continue
    return None


def library_files() -> list[str]:
    """Return the files of the ICU that `library` finds: the one for languages and the one for characters."""
    for path, load_first in _candidates():
        return [path, load_first[-1] if load_first else path.replace("icui18n", "icuuc")]
    return []


def _candidates() -> list[tuple[str, list[str]]]:
    """Return the library files to try, each with the libraries that have to be loaded before it."""
    found: list[tuple[str, list[str]]] = []
    import ctypes.util  # imported here because it takes 3 ms, which few starts need

    name = ctypes.util.find_library("icui18n")
    if name:
        found.append((name, []))
    return found + _in_wheel()


def _in_wheel() -> list[tuple[str, list[str]]]:
    from pathlib import Path

    package = importlib.util.find_spec("icu4py")
    if package is None or package.origin is None:
        return []
    libraries = Path(package.origin).parent.parent / "icu4py.libs"
    versions = {kind: str(next(libraries.glob(f"libicu{kind}-*"), "")) for kind in ("data", "uc", "i18n")}
    if not all(versions.values()):
        return []
    return [(versions["i18n"], [versions["data"], versions["uc"]])]
