"""One request to a web server, by Python's own client; runs in a thread.

A failed request has a status too, as in Tarantool: 595 without a connection, 408 after a timeout, 444 without an
answer, 495 for an untrusted certificate.
"""

from __future__ import annotations

import errno
import gzip
import re
import socket
import zlib
from contextlib import suppress
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urljoin, urlsplit

from box.errors import system_error

if TYPE_CHECKING:
    from ssl import SSLContext

_CONTROL: Final = re.compile(r"[\0-\x1f\x7f]")
_NUMBERS: Final = re.compile(r"[0-9.]+")
"""Hosts that are numbers. Unlike the system, libcurl takes only those of four parts for addresses."""
_IPV4_DOTS: Final = 3
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REDIRECTS_MAX: Final = 30
"""The most redirections that are followed."""
_SEE_OTHER: Final = frozenset({301, 302, 303})
"""The statuses after which a request is repeated without its body."""

# The status and the reason that Tarantool's http.client reports if there is no usable response.
_NO_CONNECTION: Final = (595, "Couldn't connect to server")
_NO_HOST: Final = (595, "Couldn't resolve host name")
TIMEOUT: Final = (408, "Timeout was reached")
_NO_ANSWER: Final = (444, "Server returned nothing (no headers, no data)")
_NOT_TRUSTED: Final = (495, "SSL peer certificate or SSH remote key was not OK")
_BAD_ENCODING: Final = (595, "Unrecognized or bad HTTP Content or Transfer-Encoding")


class _AnyText:
    """Sends methods and paths as they are, because libcurl lets blanks and all letters pass.

    Control characters are refused before.
    """

    def _encode_request(self, request: str) -> bytes:
        return request.encode(errors="surrogateescape")

    def _validate_path(self, url: str) -> None:
        pass


class _Connection(_AnyText, HTTPConnection):
    pass


class _SecureConnection(_AnyText, HTTPSConnection):
    pass


class WebRequest:
    """A request with its redirections; `options` are those of `http.client`."""

    def __init__(self, method: str, url: str, body: bytes | None, options: dict[str, Any]) -> None:
        # As in Tarantool, a GET with a body is sent as a POST.
        self._method = "POST" if method == "GET" and body is not None else method
        self._url = url
        self._body = body
        self._has_form = self._method not in ("GET", "HEAD")
        """Whether the request is one like POST, which sends its body, however short, and the type of it."""
        self._options = options
        self._connection: HTTPConnection | None = None

    def abort(self) -> None:
        """Make whatever the request waits for fail; called from another thread."""
        sock = None if self._connection is None else self._connection.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def run(self) -> tuple[dict[str, Any], bytes]:
        """Run the request. Returns (status, reason, headers, proto) as a dict, and the body.

        Raises:
            BoxSystemError: the arguments are not a valid request.
        """
        fields: dict[str, list[str]] = {}
        for _ in range(_REDIRECTS_MAX):
            head, body = self._run_once()
            location = head["headers"].get("location", [""])[0] if "headers" in head else ""
            # As in Tarantool, an answer has the header fields of the redirections before it, too.
            for name, values in head.get("headers", {}).items():
                fields.setdefault(name, []).extend(values)
            if head["status"] not in _REDIRECTS or not location or not self._options.get("follow_location", True):
                return (head | {"headers": fields} if fields else head), body
            self._url = urljoin(_parts_of(self._url).geturl(), location)
            if head["status"] in _SEE_OTHER:
                # As in Tarantool, the method stays, without a body.
                self._has_form = False
        raise system_error("curl: Number of redirects hit maximum amount", errno.EINVAL)

    def _run_once(self) -> tuple[dict[str, Any], bytes]:
        from ssl import SSLCertVerificationError, SSLError

        try:
            self._connection = self._connect()
            return self._exchange(self._connection)
        except TimeoutError:
            return failed(*TIMEOUT)
        except SSLCertVerificationError:
            return failed(*_NOT_TRUSTED)
        except SSLError as error:
            raise system_error("curl: SSL connect error", errno.EINVAL) from error
        except socket.gaierror:
            return failed(*_NO_HOST)
        except ConnectionResetError:
            return failed(*_NO_ANSWER)
        except (zlib.error, EOFError):
            return failed(*_BAD_ENCODING)
        except IncompleteRead as error:
            raise system_error("curl: Transferred a partial file", errno.EINVAL) from error
        except BadStatusLine as error:
            raise system_error("curl: Unsupported protocol", errno.EINVAL) from error
        except HTTPException as error:
            raise system_error("curl: Weird server reply", errno.EINVAL) from error
        except OSError:
            return failed(*_NO_CONNECTION)
        finally:
            if self._connection is not None:
                self._connection.close()

    def _connect(self) -> HTTPConnection:
        parts = _parts_of(self._url)
        if parts.scheme not in ("http", "https"):
            raise system_error("curl: Unsupported protocol", errno.EINVAL)
        try:
            host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise system_error("curl: URL using bad/illegal format or missing URL", errno.EINVAL) from error
        if not host or any(char.isspace() for char in host):
            raise system_error("curl: URL using bad/illegal format or missing URL", errno.EINVAL)
        if (_NUMBERS.fullmatch(host) and host.count(".") != _IPV4_DOTS) or not _is_name(host):
            raise socket.gaierror(f"no host has the name {host}")
        options = self._options
        if "interface" in options:
            _check_interface(str(options["interface"]))
        timeout = options.get("timeout")
        source = (str(options["interface"]), 0) if "interface" in options else None
        connection: HTTPConnection
        if parts.scheme == "https":
            context = _ssl_context(options)
            connection = _SecureConnection(host, port, timeout=timeout, context=context, source_address=source)
        else:
            connection = _Connection(host, port, timeout=timeout, source_address=source)
        if "unix_socket" in options:
            connection.sock = _unix_socket(str(options["unix_socket"]), timeout)
        return connection

    def _exchange(self, connection: HTTPConnection) -> tuple[dict[str, Any], bytes]:
        parts = _parts_of(self._url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.putrequest(self._method, target, skip_accept_encoding=True)
        for name, value in _headers(self._options, self._body, self._has_form):
            connection.putheader(name, value.encode(errors="surrogateescape"))
        connection.endheaders((self._body if self._has_form else None) or None)
        response = connection.getresponse()
        return _head(response), _decoded(response, response.read(), self._options)


def _parts_of(url: str) -> SplitResult:
    """Return the parts of a URL, which may lack its protocol.

    Raises:
        BoxSystemError: it is none.
    """
    try:
        if _CONTROL.search(url) or url.startswith(" "):
            raise ValueError("control characters")
        return urlsplit(url if "://" in url else f"http://{url}")
    except ValueError as error:
        raise system_error("curl: URL using bad/illegal format or missing URL", errno.EINVAL) from error


def _is_name(host: str) -> bool:
    """Return whether the domain name system can have a host of this name."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def _check_interface(interface: str) -> None:
    """Check that requests can be sent from an address.

    Raises:
        BoxSystemError: no socket can be bound to it.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(interface, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as sock:
            sock.bind(address)
    except (OSError, UnicodeError) as error:
        raise system_error("curl: Failed binding local connection end", errno.EINVAL) from error


def _unix_socket(path: str, timeout: float | None) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(timeout)
    try:
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock


def _ssl_context(options: dict[str, Any]) -> SSLContext:
    import ssl

    context = ssl.create_default_context(cafile=options.get("ca_file"), capath=options.get("ca_path"))
    context.check_hostname = bool(options.get("verify_host", True)) and bool(options.get("verify_peer", True))
    if not options.get("verify_peer", True):
        context.verify_mode = ssl.CERT_NONE
    if "ssl_cert" in options:
        context.load_cert_chain(options["ssl_cert"], options.get("ssl_key"))
    return context


def _headers(options: dict[str, Any], body: bytes | None, has_form: bool) -> list[tuple[str, str]]:
    """Return the header fields of the request, in Tarantool's order. A field of the caller replaces a usual one."""
    given: dict[str, str] = dict(options.get("headers") or {})
    names = {name.lower() for name in given}
    idle = int(options.get("keepalive_idle") or 0)
    usual = [("Connection", "Keep-Alive" if idle > 0 else "close")]
    if idle > 0:
        usual.append(("Keep-Alive", f"timeout={idle}"))
    if "accept_encoding" in options:
        usual.append(("Accept-Encoding", str(options["accept_encoding"])))
    if has_form and body is None:
        usual.append(("Content-Length", "0"))
    if has_form:
        usual.append(("Content-Type", "application/x-www-form-urlencoded"))
    first = [("Accept", "*/*")] if body is None else [("Content-Length", str(len(body))), ("Accept", "*/*")]
    fields = [field for field in first if field[0].lower() not in names]
    # libcurl sends no field without a value.
    fields += [(name, value) for name, value in given.items() if value]
    return fields + [field for field in usual if field[0].lower() not in names]


def _head(response: HTTPResponse) -> dict[str, Any]:
    headers: dict[str, list[str]] = {}
    for name, value in response.getheaders():
        headers.setdefault(name.lower(), []).append(value)
    status = response.status
    proto = [1, 1] if response.version >= 11 else [1, 0]
    return {"status": status, "reason": "Ok" if 100 <= status < 400 else "Unknown", "headers": headers, "proto": proto}


def _decoded(response: HTTPResponse, body: bytes, options: dict[str, Any]) -> bytes:
    """Decompress the body if the caller asked for an encoding."""
    if "accept_encoding" not in options:
        return body
    match response.getheader("content-encoding", "").lower():
        case "gzip" | "x-gzip":
            return gzip.decompress(body)
        case "deflate":
            return zlib.decompress(body)
    return body


def failed(status: int, reason: str) -> tuple[dict[str, Any], bytes]:
    return {"status": status, "reason": reason}, b""
