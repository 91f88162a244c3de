"""One request of `http.client` for libcurl, and what Tarantool says about its end."""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pycurl

from box.errors import BoxError, system_error

if TYPE_CHECKING:
    from collections.abc import Mapping

Answer = tuple[dict[str, Any], bytes]
"""The status, reason, header fields and protocol of an answer, as a dict, and its body."""

TIMED_OUT: Final = pycurl.E_OPERATION_TIMEDOUT
"""libcurl's code for a request that took too long."""

_NO_CONNECTION: Final = 595
_STATUS_OF_FAILURE: Final = {
    pycurl.E_PEER_FAILED_VERIFICATION: 495,
    pycurl.E_OPERATION_TIMEDOUT: 408,
    pycurl.E_GOT_NOTHING: 444,
    pycurl.E_COULDNT_RESOLVE_PROXY: _NO_CONNECTION,
    pycurl.E_COULDNT_RESOLVE_HOST: _NO_CONNECTION,
    pycurl.E_COULDNT_CONNECT: _NO_CONNECTION,
    pycurl.E_WRITE_ERROR: _NO_CONNECTION,
    pycurl.E_BAD_CONTENT_ENCODING: _NO_CONNECTION,
}
"""Failures that are an answer with a status, as in Tarantool. All others are errors."""

_E_PROXY: Final = 97
"""CURLE_PROXY, which pycurl has no name for."""

_TEXTS: Final = {
    pycurl.E_UNSUPPORTED_PROTOCOL: "Unsupported protocol",
    pycurl.E_FAILED_INIT: "Failed initialization",
    pycurl.E_URL_MALFORMAT: "URL using bad/illegal format or missing URL",
    pycurl.E_COULDNT_RESOLVE_PROXY: "Couldn't resolve proxy name",
    pycurl.E_COULDNT_RESOLVE_HOST: "Couldn't resolve host name",
    pycurl.E_COULDNT_CONNECT: "Couldn't connect to server",
    pycurl.E_FTP_WEIRD_SERVER_REPLY: "Weird server reply",
    pycurl.E_PARTIAL_FILE: "Transferred a partial file",
    pycurl.E_WRITE_ERROR: "Failed writing received data to disk/application",
    pycurl.E_OUT_OF_MEMORY: "Out of memory",
    pycurl.E_OPERATION_TIMEDOUT: "Timeout was reached",
    pycurl.E_SSL_CONNECT_ERROR: "SSL connect error",
    pycurl.E_BAD_FUNCTION_ARGUMENT: "A libcurl function was given a bad argument",
    pycurl.E_INTERFACE_FAILED: "Failed binding local connection end",
    pycurl.E_TOO_MANY_REDIRECTS: "Number of redirects hit maximum amount",
    pycurl.E_GOT_NOTHING: "Server returned nothing (no headers, no data)",
    pycurl.E_SEND_ERROR: "Failed sending data to the peer",
    pycurl.E_RECV_ERROR: "Failure when receiving data from the peer",
    pycurl.E_SSL_CERTPROBLEM: "Problem with the local SSL certificate",
    pycurl.E_SSL_CIPHER: "Couldn't use specified SSL cipher",
    pycurl.E_PEER_FAILED_VERIFICATION: "SSL peer certificate or SSH remote key was not OK",
    pycurl.E_SSL_CACERT_BADFILE: "Problem with the SSL CA cert (path? access rights?)",
    pycurl.E_BAD_CONTENT_ENCODING: "Unrecognized or bad HTTP Content or Transfer-Encoding",
    pycurl.E_NO_CONNECTION_AVAILABLE: "The max connection limit is reached",
    _E_PROXY: "proxy handshake error",
}
"""The texts of libcurl 7.76, which Tarantool 2.8 contains; later versions say some in other words."""

_TEXT_OPTIONS: Final = {
    "ca_path": pycurl.CAPATH,
    "ca_file": pycurl.CAINFO,
    "unix_socket": pycurl.UNIX_SOCKET_PATH,
    "ssl_key": pycurl.SSLKEY,
    "ssl_cert": pycurl.SSLCERT,
    "proxy": pycurl.PROXY,
    "proxy_user_pwd": pycurl.PROXYUSERPWD,
    "no_proxy": pycurl.NOPROXY,
    "interface": pycurl.INTERFACE,
    "accept_encoding": pycurl.ACCEPT_ENCODING,
}
_NUMBER_OPTIONS: Final = {
    "proxy_port": pycurl.PROXYPORT,
    "low_speed_limit": pycurl.LOW_SPEED_LIMIT,
    "low_speed_time": pycurl.LOW_SPEED_TIME,
}
_FLAG_OPTIONS: Final = {
    "verify_peer": pycurl.SSL_VERIFYPEER,
    "follow_location": pycurl.FOLLOWLOCATION,
    "verbose": pycurl.VERBOSE,
}
_STRICT_HOST: Final = 2
"""libcurl's level at which the certificate has to name the host."""


class WebRequest:
    """A request: the handle for libcurl and what has arrived.

    `options` are those of `http.client`. Bytes that are not UTF-8 stand as surrogates in texts.

    Raises:
        BoxSystemError: libcurl does not accept an option.
    """

    def __init__(self, method: str, url: str, body: bytes, options: Mapping[str, Any]) -> None:
        self.handle = pycurl.Curl()
        self._lines: list[bytes] = []
        self._body: list[bytes] = []
        self._has_key = "ssl_key" in options
        try:
            self._set_method(method, body)
            self._set_options(_encoded(url), options)
            self.handle.setopt(pycurl.HTTPHEADER, _header_lines(method, body, options))
        except pycurl.error as error:
            failure = self.failure(int(error.args[0]))
            self.handle.close()
            raise failure from error

    def _set_method(self, method: str, body: bytes) -> None:
        handle = self.handle
        match method:
            case "GET":
                handle.setopt(pycurl.HTTPGET, 1)
            case "HEAD":
                handle.setopt(pycurl.NOBODY, 1)
            case "PATCH":
                handle.setopt(pycurl.CUSTOMREQUEST, _encoded(method))
            case _:
                handle.setopt(pycurl.POSTFIELDS, b"")
                handle.setopt(pycurl.CUSTOMREQUEST, _encoded(method))
        if body:  # as in Tarantool, a GET with a body is sent as a POST
            handle.setopt(pycurl.POSTFIELDS, body)

    def _set_options(self, url: bytes, options: Mapping[str, Any]) -> None:
        handle = self.handle
        # Later versions of libcurl refuse blanks, which that of Tarantool sends.
        handle.setopt(pycurl.URL, url.replace(b" ", b"%20"))
        handle.setopt(pycurl.USERAGENT, b"")  # none, instead of pycurl's own
        handle.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        handle.setopt(pycurl.REDIR_PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        handle.setopt(pycurl.FOLLOWLOCATION, 1)
        handle.setopt(pycurl.HEADERFUNCTION, self._lines.append)
        handle.setopt(pycurl.WRITEFUNCTION, self._body.append)
        if url[:6].lower() == b"https:":
            self._trust_system()
        for name, option in _TEXT_OPTIONS.items():
            if name in options:
                handle.setopt(option, _encoded(options[name]))
        for name, option in _FLAG_OPTIONS.items():
            if name in options:
                handle.setopt(option, int(options[name]))
        for name, option in _NUMBER_OPTIONS.items():
            if name in options:
                with suppress(pycurl.error):  # in Tarantool, numbers out of range have no effect
                    handle.setopt(option, int(options[name]))
        if "verify_host" in options:
            handle.setopt(pycurl.SSL_VERIFYHOST, _STRICT_HOST if options["verify_host"] else 0)
        if _is_kept_alive(options):
            handle.setopt(pycurl.TCP_KEEPALIVE, 1)
            handle.setopt(pycurl.TCP_KEEPIDLE, int(options["keepalive_idle"]))
            handle.setopt(pycurl.TCP_KEEPINTVL, int(options["keepalive_interval"]))

    def _trust_system(self) -> None:
        """Name the system's certificates, which libcurl looks for where they are on the machine that built it."""
        import ssl

        paths = ssl.get_default_verify_paths()
        if paths.cafile is not None:
            self.handle.setopt(pycurl.CAINFO, paths.cafile.encode())
        if paths.capath is not None:
            self.handle.setopt(pycurl.CAPATH, paths.capath.encode())

    def answer(self, code: int) -> Answer:
        """Return the answer after libcurl has ended the request with `code`.

        Raises:
            BoxSystemError: there is none.
        """
        if code == pycurl.E_OK:
            status = int(self.handle.getinfo(pycurl.RESPONSE_CODE))
            reason = "Ok" if 100 <= status < 400 else "Unknown"
        elif code in _STATUS_OF_FAILURE:
            status, reason = _STATUS_OF_FAILURE[code], _TEXTS[code]
        else:
            raise self.failure(code)
        head = {"status": status, "reason": reason}
        return head | (_head(self._lines) if self._lines else {}), b"".join(self._body)

    def failure(self, code: int) -> BoxError:
        """Return the error for a code of libcurl."""
        if code == pycurl.E_BAD_FUNCTION_ARGUMENT and self._has_key:
            code = pycurl.E_SSL_CERTPROBLEM  # later versions of libcurl say so if they cannot read the key
        number = int(self.handle.getinfo(pycurl.OS_ERRNO)) or errno.EINVAL
        return system_error(f"curl: {_TEXTS.get(code, 'Unknown error')}", number)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _is_kept_alive(options: Mapping[str, Any]) -> bool:
    """Return whether the connection stays open after the request: if both `keepalive_idle` and `keepalive_interval`
    are a second or more.
    """
    return int(options.get("keepalive_idle", 0)) > 0 and int(options.get("keepalive_interval", 0)) > 0


def _header_lines(method: str, body: bytes, options: Mapping[str, Any]) -> list[bytes]:
    """Return the header fields of the request: the caller's first, then those that Tarantool adds."""
    given: Mapping[str, str] = options.get("headers") or {}
    lines = [b"Content-Length: %d" % len(body)] if body else []
    lines += [_encoded(f"{name}: {value}".partition("\0")[0]) for name, value in given.items()]
    names = {name.lower() for name in given}
    is_kept = _is_kept_alive(options)
    if method not in ("GET", "HEAD", "PATCH") and "accept" not in names:
        lines.append(b"Accept: */*")
    if "connection" not in names:
        lines.append(b"Connection: Keep-Alive" if is_kept else b"Connection: close")
    if is_kept and "keep-alive" not in names:
        lines.append(b"Keep-Alive: timeout=%d" % int(options["keepalive_idle"]))
    return lines


def _head(lines: list[bytes]) -> dict[str, Any]:
    """Return `headers` (name: all values) and `proto` (two numbers) of an answer.

    As in Tarantool, those of the first answer count: of a redirection, or of `100 Continue`.
    """
    headers: dict[str, list[str]] = {}
    proto = [0, 0]
    for line in lines:
        if not line.strip():
            break
        if line[:5] == b"HTTP/":
            proto = [int(number) for number in line[5:].split(b" ")[0].split(b".") if number.isdigit()]
            continue
        name, _, value = line.partition(b":")
        headers.setdefault(_decoded(name.strip().lower()), []).append(_decoded(value.strip()))
    return {"headers": headers, "proto": [*proto, 0, 0][:2]}
