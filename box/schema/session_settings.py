"""`_session_settings`: the only space of the `service` engine, with a row for each setting of the session.

No index stores anything: rows are made from `session.storage` when they are read. Settings can be read and updated; all
but `error_marshaling_enabled` concern SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from box.data import codec
from box.errors import BoxError, ErrorCode, client_error, unsupported

if TYPE_CHECKING:
    from box.session import Session

ERROR_MARSHALING = "error_marshaling_enabled"
"""The setting that sends errors among values as MessagePack extensions; if it is off, the error's text is sent.

A client that announces the feature `error_extension` switches the setting on.
"""

DEFAULTS: dict[str, bool | str] = {
    ERROR_MARSHALING: False,
    "sql_default_engine": "memtx",
    "sql_defer_foreign_keys": False,
    "sql_full_column_names": False,
    "sql_full_metadata": False,
    "sql_parser_debug": False,
    "sql_recursive_triggers": True,
    "sql_reverse_unordered_selects": False,
    "sql_select_debug": False,
    "sql_vdbe_debug": False,
}
"""The value of each setting in a new session, by name in ascending order."""

LATER: dict[str, bool] = {"sql_seq_scan": True}
"""Settings of 2.11 that have one value here. They can be read and set by name, and no list shows them."""

_ALL: dict[str, bool | str] = {**DEFAULTS, **LATER}
_STORAGE_KEY = "settings"
_ENGINES = ("memtx", "vinyl")


class SessionSettings:
    """Reads and updates the settings of a session."""

    __slots__ = ()

    def value(self, session: Session, name: str) -> bool | str:
        """Return a setting's value in a session. Raises KeyError for an unknown name."""
        value: bool | str = session.storage.get(_STORAGE_KEY, {}).get(name, _ALL[name])
        return value

    def concern_sql(self, session: Session) -> bool:
        """Return whether a session has set anything that affects statements of SQL."""
        own = session.storage.get(_STORAGE_KEY)
        return own is not None and any(name != ERROR_MARSHALING for name in own)

    def values(self, session: Session) -> dict[str, bool | str]:
        """Return the settings of a session: those of 2.8.1 in the order of their names, then those of 2.11."""
        return {name: self.value(session, name) for name in _ALL}

    def set(self, session: Session, name: str, value: Any) -> None:
        """Change a setting.

        Raises:
            ClientError: NO_SUCH_SESSION_SETTING, SESSION_SETTING_INVALID_VALUE or NO_SUCH_ENGINE.
            UnsupportedError: UNSUPPORTED, the setting has one value here.
        """
        if name not in _ALL:
            raise client_error(ErrorCode.NO_SUCH_SESSION_SETTING, name)
        expected = type(_ALL[name])
        if type(value) is not expected:
            type_name = "boolean" if expected is bool else "string"
            raise client_error(ErrorCode.SESSION_SETTING_INVALID_VALUE, name, type_name)
        if isinstance(value, str) and value.lower() not in _ENGINES:
            raise client_error(ErrorCode.NO_SUCH_ENGINE, value)
        if name in LATER:
            if value is not LATER[name]:
                raise unsupported("Lunabox", f"{name} = {str(value).lower()}")
            return
        session.storage.setdefault(_STORAGE_KEY, {})[name] = value

    def get(self, session: Session, key: list[Any]) -> bytes | None:
        """Return the row with a key, or None if there is no such setting."""
        name = self._name_of(key)
        return self._row(session, name) if name in _ALL else None

    def select(self, session: Session, iterator: int, key: list[Any]) -> list[bytes]:
        """Return rows in the order of names, backwards for REQ, LT and LE."""
        from box.index.iterator_type import REVERSE

        names = sorted(DEFAULTS, reverse=iterator in REVERSE)
        if len(key) > 1:
            raise client_error(ErrorCode.KEY_PART_COUNT, 1, len(key))
        if key:
            pivot = self._name_of(key)
            names = [name for name in names if _matches(iterator, name, pivot)]
        return [self._row(session, name) for name in names]

    def update(self, session: Session, key: list[Any], new: bytes) -> bytes:
        """Store the settings in an updated row, which update operations made of the result of `get`, and return the
        row.

        Raises:
            ClientError: CANT_UPDATE_PRIMARY_KEY, EXACT_FIELD_COUNT, SESSION_SETTING_INVALID_VALUE or NO_SUCH_ENGINE.
        """
        name = self._name_of(key)
        fields = codec.unpack(new)
        if fields[0] != name:
            raise client_error(ErrorCode.CANT_UPDATE_PRIMARY_KEY, "primary", "_session_settings")
        if len(fields) > 2:
            raise client_error(ErrorCode.EXACT_FIELD_COUNT, len(fields), 2)
        self.set(session, name, fields[1] if len(fields) > 1 else None)
        return new

    def refuse(self, operation: str) -> BoxError:
        """Return the error of insert, replace, upsert and delete."""
        return unsupported("_session_settings space", f"{'replace' if operation == 'insert' else operation}()")

    def _name_of(self, key: list[Any]) -> str:
        if not key:
            raise client_error(ErrorCode.EXACT_MATCH, 1, 0)
        if len(key) > 1 or not isinstance(key[0], str):
            raise client_error(ErrorCode.KEY_PART_TYPE, 0, "string")
        return key[0]

    def _row(self, session: Session, name: str) -> bytes:
        return codec.pack([name, self.value(session, name)])


def _matches(iterator: int, name: str, pivot: str) -> bool:
    from box.index.iterator_type import REVERSE, IteratorType

    if iterator in (IteratorType.EQ, IteratorType.REQ):
        return name == pivot
    if name == pivot:
        return iterator in (IteratorType.GE, IteratorType.LE, IteratorType.ALL)
    return name < pivot if iterator in REVERSE else name > pivot
