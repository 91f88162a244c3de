"""http.client against a server of Python's standard library."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from box.errors import BoxError
from test.support import refusing_address

from .conftest import Lua

HTTP = "local http = require('http.client') local url = ... "


class Answers(BaseHTTPRequestHandler):
    """A server: /echo returns what was sent, /moved redirects to /pong, /slow does not answer, /gone closes the
    connection.
    """

    protocol_version = "HTTP/1.1"
    hold = threading.Event()

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        match self.path:
            case "/pong":
                self._answer(200, b"pong", ("Set-Cookie", "a=b; Path=/"), ("X-Two", "1"), ("X-Two", "2"))
            case "/moved":
                self._answer(302, b"", ("Location", "/pong"))
            case "/slow":
                self.hold.wait(20)
            case "/port":  # of the client: one for each connection
                self._answer(200, b"%d" % self.client_address[1])
            case "/raw":
                self._answer(200, b"", ("X-Raw", b"G\xc3\xbcn\xff".decode("latin-1")))
            case "/gone":
                self.close_connection = True
            case _:
                self._answer(404, b"nothing")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kind = self.headers["Content-Type"].encode()
        self._answer(201, b"%s %s %s" % (self.command.encode(), kind, body))

    do_PUT = do_POST

    def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    Answers.hold.set()
    server.shutdown()
    thread.join()
    server.server_close()
    Answers.hold.clear()


def test_an_answer_has_status_headers_cookies_and_body(lua: Lua, url: str) -> None:
    assert lua(
        HTTP
        + """local r = http.get(url .. '/pong')
        return r.status, r.reason, r.body, r.headers['x-two'], r.cookies.a[1], r.cookies.a[2][1], r.proto[1]""",
        url,
    ) == [200, "Ok", "pong", "1,2", "b", "Path=/", 1]


def test_a_body_is_sent_with_its_headers(lua: Lua, url: str) -> None:
    assert lua(
        HTTP
        + """local client = http.new()
        local a = client:post(url .. '/echo', 'x\\0y', {headers = {['Content-Type'] = 'text/plain'}})
        local b = client:put(url .. '/echo', 'z')
        local stat = client:stat()
        return a.status, a.body, b.body, stat.total_requests, stat.http_other_responses""",
        url,
    ) == [201, "POST text/plain x\0y", "PUT application/x-www-form-urlencoded z", 2, 2]


def test_a_redirection_is_followed_unless_told_otherwise(lua: Lua, url: str) -> None:
    assert lua(
        HTTP + "return http.get(url .. '/moved').body, http.get(url .. '/moved', {follow_location = false}).status",
        url,
    ) == ["pong", 302]


def test_numbers_that_libcurl_refuses_have_no_effect(lua: Lua, url: str) -> None:
    assert lua(
        HTTP
        + """local options = {low_speed_time = -1/0, low_speed_limit = -1, proxy_port = 2^31}
        return http.get(url .. '/pong', options).status""",
        url,
    ) == [200]


def test_header_fields_are_bytes(lua: Lua, url: str) -> None:
    """Bytes of fields go and come as they are, also those that are not UTF-8."""
    assert lua(
        HTTP
        + r"""return http.get(url .. '/raw').headers['x-raw'] == 'G\195\188n\255',
            http.get(url .. '/pong', {headers = {['X-Any'] = '\195\188\255'}}).status""",
        url,
    ) == [True, 200]


def test_a_connection_is_kept_alive_if_both_times_say_so(lua: Lua, url: str) -> None:
    assert lua(
        HTTP
        + """local function ports(options)
            local client, ports = http.new(), {}
            for i = 1, 3 do ports[i] = client:get(url .. '/port', options).body end
            local stat = client:stat()
            return ports[1] == ports[2] and ports[2] == ports[3], stat.sockets_added == stat.sockets_deleted
        end
        local kept, all = ports({keepalive_idle = 9, keepalive_interval = 9})
        return kept, all, (ports({keepalive_idle = 9})), (ports())""",
        url,
    ) == [True, True, False, False]


def test_requests_wait_for_one_of_the_connections(lua: Lua, url: str) -> None:
    """With one connection in all a second request waits, and its timeout includes that time."""
    assert lua(
        HTTP
        + """local fiber, client = require('fiber'), http.new({max_total_connections = 1})
        local slow = fiber.new(client.get, client, url .. '/slow', {timeout = 0.3})
        slow:set_joinable(true)
        fiber.yield()
        local second = client:get(url .. '/pong', {timeout = 0.05}).status
        slow:join()
        return second, client:get(url .. '/pong', {timeout = 5}).status""",
        url,
    ) == [408, 200]


def test_a_proxy_gets_the_whole_address(lua: Lua, url: str) -> None:
    """The server of this test stands for a proxy: it does not know the whole address as a path."""
    assert lua(
        HTTP
        + """return http.get('http://nowhere.invalid/pong', {proxy = url}).status,
            http.get(url .. '/pong', {proxy = 'http://127.0.0.1:1', no_proxy = '*'}).status""",
        url,
    ) == [404, 200]


def test_headers_of_the_first_answer_count(lua: Lua, url: str) -> None:
    """As in Tarantool, a request that was redirected has the fields of the redirection and the body of its target."""
    assert lua(HTTP + "local r = http.get(url .. '/moved') return r.status, r.headers.location, r.body", url) == [
        200,
        "/pong",
        "pong",
    ]


def test_a_client_that_is_no_longer_used_closes_its_connections(lua: Lua, url: str) -> None:
    """The finalizer of a client frees the Python half."""
    assert (
        lua(
            HTTP
            + """local python, number = require('internal.python')
        do
            local client = http.new()
            client:get(url .. '/port', {keepalive_idle = 9, keepalive_interval = 9})
            number = client._handle.number
        end
        for _ = 1, 3 do collectgarbage() require('fiber').sleep(0.01) end
        return pcall(python.http_sockets, number)""",
            url,
        )[0]
        is False
    )


def test_failures_have_a_status(lua: Lua, url: str) -> None:
    """A timeout, a closed connection, an error page and a refused connection each have their status."""
    with refusing_address() as address:
        answers = lua(
            HTTP
            + f"""local slow = http.get(url .. '/slow', {{timeout = 0.05}})
            local gone, wrong = http.get(url .. '/gone'), http.get(url .. '/nowhere')
            local nobody = http.get('http://{address}/')
            return slow.status, slow.reason, gone.status, wrong.status, wrong.reason, wrong.body, nobody.status""",
            url,
        )
    assert answers == [408, "Timeout was reached", 444, 404, "Unknown", "nothing", 595]


def test_other_fibers_run_meanwhile(lua: Lua, url: str) -> None:
    assert lua(
        HTTP
        + """local fiber, turns = require('fiber'), 0
        fiber.create(function() while true do turns = turns + 1 fiber.sleep(0.001) end end)
        http.get(url .. '/slow', {timeout = 0.1})
        return turns > 5""",
        url,
    ) == [True]


def test_a_node_stops_although_a_request_has_no_answer(lua: Lua, url: str) -> None:
    assert lua(HTTP + "require('fiber').create(http.get, url .. '/slow') return 1", url) == [1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("http.request('GET')", r"request\(method, url"),
        ("http.post(url, {})", "fourth argument must be a string"),
        ("http.get(url, {headers = {a = 1}})", "opts.headers values should be strings"),
        ("http.get(url, {headers = {a = ('x'):rep(8190)}})", "header is too large"),
        ("http.get('ftp://x/')", "curl: Unsupported protocol"),
    ],
)
def test_wrong_arguments_are_refused(lua: Lua, call: str, message: str) -> None:
    with pytest.raises(BoxError, match=message):
        lua(f"{HTTP} {call}", "http://127.0.0.1:1/")


def test_requests_have_the_form_of_libcurl(lua: Lua) -> None:
    """Methods are sent as they are, paths in their encoded form. After a redirection the method stays and the body does
    not.
    """
    sent, no_host, far, odd = lua(
        r"""
        local http, socket = require('http.client'), require('socket')
        local sent = {}
        local server = socket.tcp_server('127.0.0.1', 0, function(c)
            local text = c:read({delimiter = '\r\n\r\n'}, 5)
            sent[#sent + 1] = text:gsub('\r\n', '|'):gsub('Host: [%d.:]+|', '')
            local status = text:find('/moved') and '302 Found\r\nLocation: /b' or '200 OK'
            c:write('HTTP/1.1 ' .. status .. '\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
        end)
        local url = '127.0.0.1:' .. server:name().port
        http.get(url .. '/a b', {headers = {X = 'é\0y', Z = ''}, timeout = 1e15, keepalive_idle = 2.5,
            keepalive_interval = 1})
        http.request('G É', url, 'body', {keepalive_idle = 0/0})
        http.put(url .. '/moved', 'body')
        http.delete(url)
        local function reason(...) return http.get(...).reason end
        server:close()
        return sent, reason(('x'):rep(70)), reason('http://127.0.0.1:1/', {timeout = 1e300}),
            tostring(select(2, pcall(http.get, ' http://x')))
        """
    )
    form = "Content-Type: application/x-www-form-urlencoded|Connection: close||"
    assert sent == [
        "GET /a%20b HTTP/1.1|Accept: */*|X: é|Keep-Alive: timeout=2|Connection: Keep-Alive||",
        f"G É / HTTP/1.1|Content-Length: 4|Accept: */*|{form}",
        f"PUT /moved HTTP/1.1|Content-Length: 4|Accept: */*|{form}",
        "PUT /b HTTP/1.1|Content-Length: 4|Accept: */*|Connection: close||",
        f"DELETE / HTTP/1.1|Accept: */*|Content-Length: 0|{form}",
    ]
    assert (no_host, far) == ("Couldn't resolve host name", "Couldn't connect to server")
    assert odd == "curl: URL using bad/illegal format or missing URL"
