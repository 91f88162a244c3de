"""Addresses, compared with Tarantool's `uri.parse`."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from box.errors import BoxError
from box.net import uri as module
from box.net.uri import check, parse

HOSTS = st.sampled_from(["1.2.3.4", "1.2.3", "1.2.3.4567", "256.1.1.1", "1..3.4", "h", "a-b.c_d", "..", "é", "h%20"])
TEXTS = st.one_of(
    st.text("a1.:@/-%é", max_size=12),
    st.text("a./:", max_size=8).map("unix/:".__add__),
    st.text("a./", max_size=8).map("/".__add__),
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["", "u@", "u:p@", "u:@", "@", ":p@", "a@b@"]),
        HOSTS,
        st.text("1:a", max_size=4),
    ),
)
"""Texts, many of which are addresses or nearly."""

CASES = {
    "x:y@host:1": {"login": "x", "password": "y", "host": "host", "service": "1"},
    "[::1]:3301": {"host": "::1", "service": "3301", "ipv6": "::1"},
    "localhost": {"host": "localhost"},
    "3301": {"service": "3301"},
    "/a/b": {"host": "unix/", "service": "/a/b"},
    "/a/b?c": {"path": "/a/b", "query": "c"},
    "/#": {"path": "/", "fragment": ""},
    "/a@b:1?c#d": {"path": "/a@b:1", "query": "c", "fragment": "d"},
    "@": {},
    "@/a?b": {"query": "b"},
    "unix/:a": {"host": "unix", "path": "/:a"},
    "unix/:./x": {"host": "unix/", "service": "./x"},
    "unix/:/a:": {"host": "unix/", "service": "/a"},
    "user:pw@unix/:/x/y": {"login": "user", "password": "pw", "host": "unix/", "service": "/x/y"},
    "user:p@/x/y": {"login": "user", "password": "p", "host": "unix/", "service": "/x/y"},
    "http://a.b:80/c?d=1#f": {
        "scheme": "http",
        "host": "a.b",
        "service": "80",
        "path": "/c",
        "query": "d=1",
        "fragment": "f",
    },
    "a:b": {"host": "a", "service": "b"},
    "127.0.0.1:3301/p": {"host": "127.0.0.1", "ipv4": "127.0.0.1", "service": "3301", "path": "/p"},
    "./x": {"host": ".", "path": "/x"},
    "a@b": {"login": "a", "host": "b"},
    "*:33": {"host": "*", "service": "33"},
    "us%40er:pw@h:1": {"login": "us%40er", "password": "pw", "host": "h", "service": "1"},
    "U:@h:1": {"login": "U", "password": "", "host": "h", "service": "1"},
    "1.2.3.4.com:1": {"host": "1.2.3.4.com", "service": "1"},
}


@pytest.mark.parametrize(("text", "parts"), CASES.items())
def test_parse(text: str, parts: dict[str, str]) -> None:
    uri = parse(text)
    assert uri is not None
    fields = ("scheme", "login", "password", "host", "service", "path", "query", "fragment", "ipv4", "ipv6")
    assert {name: getattr(uri, name) for name in fields if getattr(uri, name) is not None} == parts


@pytest.mark.parametrize("text", ["", "::1", "host:22a", "a:b:c:d", "x" * 1100])
def test_no_address(text: str) -> None:
    assert parse(text) is None


def test_format() -> None:
    """A formatted address has its password only on demand."""
    uri = parse("user:pw@host:1")
    assert uri is not None
    assert str(uri) == "user@host:1"
    assert uri.format(write_password=True) == "user:pw@host:1"
    whole = parse("http://a.b:80/c?d=1#f")
    assert str(whole) == "http://a.b:80/c?d=1#f"


def test_option() -> None:
    """An address in an option must have a service."""
    assert check("3301", "listen").service == "3301"
    assert check("/tmp/s", "listen").unix == "/tmp/s"
    for bad in ("localhost", "", "::1"):
        with pytest.raises(BoxError) as failure:
            check(bad, "replication")
        expected = "Incorrect value for option 'replication': expected host:service or /unix.socket"
        assert failure.value.message == expected


@pytest.mark.parametrize("text", ["host/" + "%AB" * 60 + "\x01", "a@" * 3000 + "\x01", "h?" + "/?:" * 3000 + "\x01"])
def test_what_is_no_address_is_refused_at_once(text: str) -> None:
    """A text that is no address is refused in linear time."""
    start = time.perf_counter()
    assert parse(text) is None
    assert time.perf_counter() - start < 1.0


@given(TEXTS)
def test_usual_addresses_are_taken_apart_as_by_the_grammar(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_plain_parts", lambda _: None)
        expected = parse(text)
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text", ["3301", "127.0.0.1:3301", "replicator:secret@db-1.local:3301", "/tmp/s", "unix/:/a/b.c"]
)
def test_usual_addresses_need_no_regular_expression(text: str) -> None:
    """Usual addresses are parsed without the regular expression, which takes 8 ms to compile."""
    re.purge()
    start = time.thread_time()
    assert parse(text) is not None
    assert time.thread_time() - start < 0.001
