"""Completion of statements: names of Lua, names in strings, backslash commands.

Questions to a node go through `Ask`: to the node of this process, or the one that the console is connected to. Answers
are limited (`LIMIT`), so that ten thousand spaces are as quick as ten.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from console.interactive import settings
from console.interactive.cursor import KEYWORDS, Call, Place, look
from console.interactive.signatures import known, methods_of
from console.interactive.sql_completion import sql_completions
from lua.text_console.languages import LANGUAGES

LIMIT: Final = 100
"""The names that a menu offers at most; the user types on if there are more."""

_FILES: Final = 1000
"""The files of a directory that are looked at."""

Ask = Callable[..., Awaitable[Any]]
"""`await ask(function, *arguments)` calls a function of `internal/console_names.lua` on the node; None without an
answer."""

COMMANDS: Final[Mapping[str, str]] = {
    "d": "describe a space",
    "dt": "list the spaces",
    "help": "list all commands",
    "o": "send answers to a file; no name: to the terminal",
    "|": "pipe the next answer to a shell command",
    "quit": "leave",
    "set": "change a setting; no name: show them all",
    "stack": "show the stack of the last error",
    "timing": "show the time of each statement, on or off",
}
_SESSION_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "language": LANGUAGES,
    "output": ("yaml", "lua", "lua,block", "table"),
    "delimiter": (),
}

_PRIVILEGES: Final = "read write execute session usage create drop alter insert update delete".split()
_OBJECTS: Final = "space function sequence user role universe".split()
_FIELD_TYPES: Final = (
    "unsigned string number integer boolean varbinary double decimal uuid scalar any array map datetime interval"
).split()
_ITERATORS: Final = "EQ REQ GT GE LT LE ALL BITS_ALL_SET BITS_ANY_SET BITS_ALL_NOT_SET OVERLAPS NEIGHBOR".split()
_KEYS: Final[Mapping[str, Iterable[str]]] = {
    "iterator": _ITERATORS,
    "engine": ("memtx", "blackhole"),
    "type": (*_FIELD_TYPES, "TREE", "HASH"),
    "wal_mode": ("none", "write", "fsync"),
    "election_mode": ("off", "voter", "candidate", "manual"),
    "log_format": ("plain", "json"),
    "language": ("LUA",),
}
_NAMES: Final[Mapping[tuple[str, int], str]] = {
    ("require", 0): "module",
    ("box.session.su", 0): "user",
    ("box.error.injection.set", 0): "injection",
    ("box.error.injection.get", 0): "injection",
    ("box.schema.func.drop", 0): "function",
    ("box.schema.func.exists", 0): "function",
    ("box.schema.user.grant", 0): "user role",
    ("box.schema.user.grant", 1): "role",
    ("box.schema.user.revoke", 0): "user role",
    ("box.schema.user.revoke", 1): "role",
    **{(f"box.schema.user.{name}", 0): "user" for name in ("drop", "exists", "info", "passwd", "enable", "disable")},
    **{(f"box.schema.role.{name}", 0): "role" for name in ("drop", "exists", "info", "grant", "revoke")},
    ("box.schema.role.grant", 1): "role",
    ("box.schema.role.revoke", 1): "role",
}
_INDEXED: Final = {"space": "space", "sequence": "sequence", "func": "function", "cfg": "option"}


class StatementCompleter(Completer):
    """Completes the statement at the cursor. The menu opens by itself once a name has begun."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.language = "lua"

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing, because nodes can only be asked asynchronously."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        text = document.text_before_cursor
        if text.startswith("\\d "):
            async for space in self._spaces(text[3:].lstrip()):
                yield space
            return
        if text.startswith("\\"):
            for command in _commands(text):
                yield command
            return
        if self.language == "sql":
            async for name in sql_completions(self._ask, text, document.text_after_cursor, complete_event):
                yield name
            return
        place = look(text)
        found = self._in_string(place) if place.text is not None else self._members(place, complete_event)
        async for each in found:
            yield each

    # -- members ---------------------------------------------------------------------------------------------------

    async def _members(self, place: Place, event: CompleteEvent) -> AsyncGenerator[Completion, None]:
        if not place.is_known or (not place.partial and not place.path and not event.completion_requested):
            return
        found = await self._ask("members", list(place.path), place.is_method, place.partial, LIMIT)
        owner, total, members = _answer(found)
        entries = dict(members)
        for name in methods_of(owner) if owner == "tuple" else ():
            if name.startswith(place.partial):
                entries.setdefault(name, "function")
        if not place.path and place.partial:
            entries.update({word: "" for word in KEYWORDS if word.startswith(place.partial)})
        for name in sorted(entries):
            yield self._member(place, owner, name, entries[name])
        if total > len(members):
            yield _more(total - len(members))

    def _member(self, place: Place, owner: str, name: str, kind: str) -> Completion:
        text = f"{name}(" if kind == "function" else name
        full = f"{owner}:{name}" if owner else ".".join((*place.path, name))
        signature = known().get(full)
        meta = signature.help if signature is not None else {"function": "", "value": ""}.get(kind, kind)
        return Completion(text, start_position=-len(place.partial), display=name, display_meta=meta)

    async def _spaces(self, partial: str) -> AsyncGenerator[Completion, None]:
        r"""Yield the completions of the argument of `\d`: names of spaces."""
        _, total, found = _answer(await self._ask("names", "space", partial, LIMIT, []))
        for name in sorted(dict(found)):
            yield Completion(name, start_position=-len(partial))
        if total > len(found):
            yield _more(total - len(found))

    # -- strings ---------------------------------------------------------------------------------------------------

    async def _in_string(self, place: Place) -> AsyncGenerator[Completion, None]:
        if not place.calls or place.text is None:
            return
        what, path, fixed = _wanted(place.calls)
        names = {name: "" for name in fixed if name.startswith(place.text)}
        total = 0
        if what:
            _, total, found = _answer(await self._ask("names", what, place.text, LIMIT, list(path)))
            names.update(dict(found))
            total -= len(found)
        for name in sorted(names):
            yield Completion(name, start_position=-len(place.text), display_meta=names[name])
        if total > 0:
            yield _more(total)


def _more(count: int) -> Completion:
    return Completion("", display="…", display_meta=f"{count} more")


def _answer(found: Any) -> tuple[str, int, list[tuple[str, str]]]:
    """Unpack an answer: owner, total number, and names with their kinds; empty without an answer."""
    if not isinstance(found, (list, tuple)) or len(found) != 3:
        return "", 0, []
    owner, total, members = found
    pairs = [(str(name), str(kind)) for name, kind in members or ()]
    return str(owner), int(total), pairs


def _wanted(calls: tuple[Call, ...]) -> tuple[str, tuple[str, ...], Iterable[str]]:
    """Return the names that a string may hold: their kinds on the node, the path to ask for, and fixed words."""
    call = calls[-1]
    if call.bracket == "[":
        if call.function[-1:] == ("index",):
            return "index", call.function[:-1], ()
        is_box = call.function[:1] == ("box",) and len(call.function) == 2
        return (_INDEXED.get(call.function[1], "") if is_box else "", (), ())
    around = next((outer for outer in reversed(calls) if outer.function), None)
    if call.bracket == "{":
        if (
            around is not None
            and around.function[-1] in ("create_index", "alter")
            and "parts" in {c.key for c in calls}
        ):
            return "field", around.function[:-1], _FIELD_TYPES
        return "", (), _KEYS.get(call.key, ())
    name = ".".join(call.function)
    what = _NAMES.get((name, call.argument), "")
    if name.endswith((".grant", ".revoke")) and name.startswith("box.schema."):
        if call.argument == 1:
            return what, (), _PRIVILEGES
        if call.argument == 2:
            return "", (), _OBJECTS
        if call.argument == 3:
            return call.texts.get(2, ""), (), ()
    if call.is_method and call.argument == 0 and call.function[-1:] == ("create_index",):
        return "", (), ("primary", "secondary")
    return what, (), ()


def _commands(text: str) -> Iterator[Completion]:
    """Yield the completions of a backslash command: its name, names and values of settings, files."""
    words = text[1:].split(" ")
    start = -len(words[-1])
    if len(words) == 1:
        found = {name: note for name, note in COMMANDS.items() if name.startswith(words[0])}
    elif words[0] in ("set", "s") and len(words) == 2:
        found = {name: "" for name in sorted({*settings.names(), *_SESSION_SETTINGS}) if name.startswith(words[1])}
    elif words[0] in ("set", "s") and len(words) == 3:
        values = _SESSION_SETTINGS.get(words[1]) or settings.choices(words[1])
        found = {value: "" for value in values if value.startswith(words[2])}
    elif words[0] == "timing":
        found = {value: "" for value in ("on", "off") if value.startswith(words[1])}
    elif words[0] == "o" and len(words) == 2:
        found = dict.fromkeys(_files(words[1]), "")
    else:
        found = {}
    for name in sorted(found):
        yield Completion(name, start_position=start, display_meta=found[name])


def _files(beginning: str) -> Iterator[str]:
    directory, _, name = beginning.rpartition("/")
    try:
        entries = sorted(os.scandir(os.path.expanduser(f"{directory}/") if directory else "."), key=lambda e: e.name)
    except OSError:
        return
    for entry in entries[:_FILES]:
        if entry.name.startswith(name) and (name or not entry.name.startswith(".")):
            yield (f"{directory}/" if directory else "") + entry.name + ("/" if entry.is_dir() else "")
