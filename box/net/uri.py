"""Parses addresses, for `box.cfg.listen`, `box.cfg.replication`, `net.box` and the `uri` module.

```
[scheme://][login[:password]@]host[:service][/path][?query][#fragment]
[login[:password]@]unix/:path          a unix socket, absolute or beginning with `./`
[login[:password]@]/path               the same
/path[?query][#fragment]               with a query or a fragment: a path without a host
@[/path][?query][#fragment]            only the query and the fragment count
service                                digits alone: a port of any local address
```

The grammar is RFC 3986 with Tarantool's changes: a service in place of a port, unix sockets, no scheme needed.
"""

from __future__ import annotations

import re
import string
from typing import Final, NamedTuple

from box.errors import BoxError, ErrorCode, client_error

UNIX_HOST: Final = "unix/"
"""The `host` of a unix socket, whose path is in `service`."""

# Atomic groups and possessive quantifiers never backtrack. Nothing is lost by that, because what may follow a group
# never begins like its continuation, and a malformed address is refused at once. When `{1,2}` could match in two ways,
# thirty "%AB" before a bad character took hours.
_CHAR: Final = r"(?>[A-Za-z0-9\-_~.!$&'()*+,;=]+|%%|%u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{1,2})"
_PATH_CHAR: Final = rf"(?>{_CHAR}|[@:|]+)"
_USER: Final = rf"(?:(?P<login>{_CHAR}++)(?::(?P<password>{_CHAR}*+))?@)?"
_HOST: Final = (
    r"(?:(?P<ipv4>\d{1,3}(?:\.\d{1,3}){3})(?![A-Za-z0-9\-_~.!$&'()*+,;=%])"
    r"|\[(?P<ipv6>[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){1,8}|::[fF]{4}:\d{1,3}(?:\.\d{1,3}){3})\]"
    rf"|(?P<name>{_CHAR}++))"
)
_SOCKET_PATH: Final = rf"\.?(?:/(?>{_CHAR}|@+)++)++"
_TAIL: Final = rf"(?:\?(?P<query>(?>{_PATH_CHAR}|[/?]+)*+))?(?:#(?P<fragment>(?>{_PATH_CHAR}|[/?]+)*+))?"
_SCHEME: Final = r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+\-.]*)://)?"
_FORMS: Final = (
    r"(?P<service>\d+)",
    rf"{_USER}(?P<unix>/(?:{_PATH_CHAR}++(?:/{_PATH_CHAR}*+)*)?)",
    rf"{_SCHEME}{_USER}unix/:(?P<unix>{_SOCKET_PATH})(?::(?P<path>(?:/{_PATH_CHAR}*+)*))?{_TAIL}",
    rf"{_SCHEME}{_USER}{_HOST}(?::(?P<service>\d+|[A-Za-z]*))?(?P<path>(?:/{_PATH_CHAR}*+)*){_TAIL}",
    rf"(?P<path>/(?:{_PATH_CHAR}++(?:/{_PATH_CHAR}*+)*)?)(?=[?#]){_TAIL}",
    rf"@(?:/{_PATH_CHAR}*+)*{_TAIL}",
    rf"(?=.){_TAIL}",
)
"""The forms of an address. The first address that needs them compiles them, which takes 8 ms; usual addresses are taken
apart without them."""
_SCHEME_AND_PATH: Final = r"[A-Za-z][A-Za-z0-9+\-.]*:/.*"
"""What Tarantool takes for a host and a path, and for a scheme as well."""
_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "-_.")
"""The characters that have no special meaning in an address, except for the dots of an IPv4 address."""
_MAX_HOST: Final = 1025
"""The system's NI_MAXHOST, as in Tarantool."""
_MAX_SERVICE: Final = 256
"""An address whose host or service has at least this many characters is refused."""


class Uri(NamedTuple):
    """The parts of an address as written, without percent-decoding. None stands for an absent part."""

    scheme: str | None = None
    login: str | None = None
    password: str | None = None
    host: str | None = None
    service: str | None = None
    path: str | None = None
    query: str | None = None
    fragment: str | None = None
    ipv4: str | None = None
    ipv6: str | None = None

    @property
    def unix(self) -> str | None:
        """The path of a unix socket, or None."""
        return self.service if self.host == UNIX_HOST else None

    def format(self, *, write_password: bool = False) -> str:
        """Return the address as text, without the password unless requested."""
        text = f"{self.scheme}://" if self.scheme else ""
        if self.host:
            if self.login:
                text += self.login + (f":{self.password}" if self.password and write_password else "") + "@"
            text += self.host + (f":{self.service}" if self.service else "")
        text += self.path or ""
        text += f"?{self.query}" if self.query else ""
        return text + (f"#{self.fragment}" if self.fragment else "")

    def __str__(self) -> str:
        return self.format()


def parse(text: str) -> Uri | None:
    """Parse an address; None for a text that is not an address."""
    plain = _plain_parts(text)
    if plain is not None:
        return _of_groups(plain)
    for form in _FORMS:
        match = re.fullmatch(form, text)
        if match is not None:
            parts = {name: part for name, part in match.groupdict().items() if part is not None}
            if "name" in parts and "login" not in parts and re.fullmatch(_SCHEME_AND_PATH, text):
                parts.setdefault("scheme", parts["name"])
            return _of_groups(parts)
    return None


def _plain_parts(text: str) -> dict[str, str] | None:
    """Parse a port, `host:port`, `login:password@host:port`, or a unix socket without a login, as `_FORMS` would.

    Returns None for other texts and for unusual characters.
    """
    if text.isascii() and text.isdigit():
        return {"service": text}
    socket_path = text.removeprefix("unix/:") if text.startswith("unix/:") else text
    if socket_path.startswith("/"):
        names = socket_path[1:].split("/")
        return {"unix": socket_path} if "" not in names and _PLAIN.issuperset("".join(names)) else None
    user, at, place = text.rpartition("@")
    login, colon, password = user.partition(":")
    host, _, port = place.partition(":")
    written = [host, port, *([login] if at else []), *([password] if colon else [])]
    if "" in written or not _PLAIN.issuperset("".join(written)) or not port.isdigit():
        return None
    quad = host.split(".")
    # Four numbers of up to three digits, as Tarantool's grammar has them; whether they exceed 255 the system finds out.
    is_ipv4 = len(quad) == 4 and all(part.isdigit() and len(part) <= 3 for part in quad)
    parts = {"ipv4" if is_ipv4 else "name": host, "service": port}
    return parts | ({"login": login} if at else {}) | ({"password": password} if colon else {})


def _of_groups(parts: dict[str, str]) -> Uri | None:
    if "unix" in parts:
        parts["host"], parts["service"] = UNIX_HOST, parts.pop("unix")
    elif parts.keys() - {"service", "path", "query", "fragment"}:
        parts["host"] = parts.get("ipv4") or parts.get("ipv6") or parts.pop("name")
    for name in ("service", "path"):
        if not parts.get(name):
            parts.pop(name, None)
    if len(parts.get("host", "")) >= _MAX_HOST or len(parts.get("service", "")) >= _MAX_SERVICE:
        return None
    return Uri(**parts)


def address_of(source: str) -> str:
    """Return an address without user and password: `localhost:3301`, `unix/:/path`."""
    uri = parse(source)
    if uri is None:
        return source.rpartition("@")[2]
    return f"unix/:{uri.unix}" if uri.unix is not None else f"{uri.host or 'localhost'}:{uri.service}"


def check(text: str, option: str) -> Uri:
    """Parse the address in a configuration option, which has to name a service.

    Raises:
        ConfigError: CFG.
    """
    uri = parse(text)
    if uri is None or uri.service is None:
        raise client_error(ErrorCode.CFG, option, "expected host:service or /unix.socket")
    return uri


def socket_error(message: str, socket_name: str, errno: int = 0) -> BoxError:
    """Make a SocketError with Tarantool's text: `<message>, called on fd -1`."""
    return BoxError(ErrorCode.SYSTEM, f"{message}, called on {socket_name}", type="SocketError", errno=errno)
