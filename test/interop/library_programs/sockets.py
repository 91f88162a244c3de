"""Programs with sockets of all kinds, name look-ups, and requests of HTTP to a server of the program or to none."""

from __future__ import annotations

from test.interop.random_lua import RandomLua

MODULES = [
    "socket = require('socket')",
    "http = require('http.client')",
    "fiber = require('fiber') require('fio').unlink('x.sock')",
    "function closed(s) if type(s) == 'table' and s.close then s:close() end end",
]

METHODS = (
    "sysread syswrite read write send recv sendto recvfrom bind listen accept sysconnect close shutdown "
    "linger nonblock "
    "setsockopt getsockopt readable writable wait name peer errno error nope settimeout receive getsockname "
    "getpeername setoption getfamily iowait"
).split()


def _timeout(source: RandomLua) -> str:
    return source.one("0", "0.01", "-1", "'x'", "{}", "1e-9", "box.NULL")


def _address(source: RandomLua) -> str:
    return source.one(
        "'unix/', './x.sock'",
        "'unix/', 'x.sock'",
        "'unix/', ''",
        "'127.0.0.1', 0",
        "'localhost', 0",
        "'0', 0",
        "'::1', 0",
        "'127.0.0.1', 'nope'",
        "'127.0.0.1', 'http'",
        "'', 0",
        "'256.1.1.1', 1",
        "'127.0.0.1', 70000",
        "'127.0.0.1', -1",
        "'unix/', ('x'):rep(200)",
        "nil, 0",
        "'127.0.0.1'",
        "'127.0.0.1', '0'",
    )


def _on(source: RandomLua, name: str) -> str:
    """Return the call of a method on the socket of this name."""
    size, text = source.one("1", "5", "100", "0", "-1"), source.text()
    level = source.one("'SOL_SOCKET'", "'SOL_TCP'", "'TCP'", "'socket'", "6", "1", "'nope'")
    option = source.one(
        "'SO_REUSEADDR'",
        "'SO_TYPE'",
        "'SO_ERROR'",
        "'SO_KEEPALIVE'",
        "'nope'",
        "'SO_BROADCAST'",
        "'SO_LINGER'",
        "'TCP_NODELAY'",
        "'SO_RCVBUF'",
        "'SO_ACCEPTCONN'",
    )
    call = source.one(
        f"sysread({source.arguments(size)})",
        f"syswrite({source.arguments(text)})",
        f"read({source.arguments(size, _timeout(source))})",
        f"read({source.arguments(text, _timeout(source))})",
        f"read({{{source.word('chunk size limit')} = {size}, {source.one('line', 'delimiter')} = {text}}}, 0.01)",
        f"read({{delimiter = {{{text}, 'b'}}}}, 0.01)",
        f"read({{{source.word('chunk size delimiter limit')} = {source.value()}}}, 0.01)",
        f"write({source.arguments(text, _timeout(source))})",
        f"send("
        f"{source.arguments(text, source.one('0', repr('MSG_DONTWAIT'), repr('nope'), '{' + repr('MSG_OOB') + '}'))})",
        f"recv({source.arguments(size)})",
        f"recvfrom({source.arguments(size)})",
        f"sendto({_address(source)}, {text})",
        f"bind({_address(source)})",
        f"listen({source.arguments('5')})",
        f"sysconnect({_address(source)})",
        f"shutdown({source.arguments(source.one('0', '1', '2', repr('R'), repr('W'), repr('RW'), repr('nope')))})",
        f"linger({source.arguments(source.one('true', 'false'), '0')})",
        f"nonblock({source.arguments('true')})",
        f"setsockopt({source.arguments(level, option, source.one('1', '0', 'true', text))})",
        f"getsockopt({source.arguments(level, option)})",
        f"readable({_timeout(source)})",
        f"writable({_timeout(source)})",
        f"wait({_timeout(source)})",
        "accept()",
        "name()",
        "peer()",
        "errno()",
        "error()",
        "close()",
        f"{source.random.choice(METHODS)}({source.values(3)})",
    )
    if source.chance(0.05):
        return f"{name}.{call}"
    return f"{name}:{call}"


def _raw(source: RandomLua) -> list[str]:
    domain = source.one("'AF_INET'", "'AF_UNIX'", "'AF_INET6'", "'nope'", "2", "1", "'PF_UNIX'")
    kind = source.one("'SOCK_STREAM'", "'SOCK_DGRAM'", "'nope'", "1", "2")
    protocol = source.one("0", "'tcp'", "'udp'", "'nope'", "''", "17")
    return [
        f"s, e = socket({source.arguments(domain, kind, protocol)}) return s ~= nil, e",
        *[_on(source, "s") for _ in range(source.random.randint(1, 4))],
        "closed(s)",
    ]


def _pair(source: RandomLua) -> list[str]:
    made = source.one(
        "socket.tcp_server('unix/', './p.sock', function(c) {})",
        "socket.tcp_server('unix/', './p.sock', {{handler = function(c) {} end, name = 'n'}}) --",
    )
    body = source.one(
        "c:write('one\\ntwo\\n')", "c:write(c:read(3, 2) or '')", "error('own')", "fiber.sleep(2)", "c:close()"
    )
    server = made.format(body + " end" if "{{" not in made else body).replace("{{", "{").replace("}}", "}")
    return [
        "require('fio').unlink('./p.sock')",
        f"l = {server}",
        "a, e = socket.tcp_connect('unix/', './p.sock') return a ~= nil, e",
        "fiber.sleep(0.01)",
        *[_on(source, "a") for _ in range(source.random.randint(1, 4))],
        source.one("l:name().host, l:name().type", "l:close()", "l:accept()", _on(source, "l")),
        "closed(a)",
        "closed(l)",
    ]


def _lookups(source: RandomLua) -> list[str]:
    options = source.one(
        "{type = 'SOCK_STREAM'}",
        "{family = 'AF_INET'}",
        "{flags = 'AI_PASSIVE'}",
        "{protocol = 'tcp'}",
        "{type = 'nope'}",
        "{family = 5}",
        "{flags = {'AI_NUMERICHOST'}}",
        "5",
    )
    host = source.one("'127.0.0.1'", "'::1'", "''", "nil", "'localhost'")
    return [
        source.one(
            f"socket.getaddrinfo({host}, {source.one('80', repr('http'), repr('80'), 'nil', repr('zzz'), '-1')}, "
            f"1, {options})",
            f"socket.getaddrinfo({source.arguments(host, '80', '1', options)})",
            f"socket.tcp_connect({source.arguments(_address(source), source.one('1', repr('x'), 'nil'))})",
            f"socket.iowait({source.arguments('-1', source.one(repr('R'), repr('W'), '1', repr('X')), '0.01')})",
            f"l = socket.tcp_server({source.arguments(_address(source), 'function() end', '1')}) "
            "closed(l) return l ~= nil",
            f"l = socket.{source.word('nope tcp bind connect')}({source.values(3)}) closed(l) return l ~= nil",
            f"socket({source.values(3)}) ~= nil",
            f"socket.{source.word('DOMAIN SO_TYPE SEND_FLAGS PROTOCOL SHUT_RDWR SOL')}",
        )
        for _ in range(3)
    ]


def _requests(source: RandomLua) -> list[str]:
    reply = source.one(
        "HTTP/1.1 200 OK\\r\\nContent-Length: 3\\r\\n\\r\\nabc",
        "HTTP/1.1 404 Not Found\\r\\nConnection: close\\r\\n\\r\\nnothing",
        "HTTP/1.1 204 No Content\\r\\nX-A: 1\\r\\nX-a: 2\\r\\nX-B:\\r\\n\\r\\n",
        "HTTP/1.1 302 Found\\r\\nLocation: /b\\r\\nContent-Length: 0\\r\\n\\r\\n",
        "HTTP/1.0 200\\r\\nSet-Cookie: a=b; Path=/; HttpOnly\\r\\nSet-Cookie: c=d\\r\\n\\r\\nx",
        "HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n3\\r\\nabc\\r\\n0\\r\\n\\r\\n",
        "garbage\\r\\n\\r\\n",
        "",
        "HTTP/1.1 200 OK\\r\\nContent-Length: 10\\r\\n\\r\\nabc",
    )
    option = source.one(
        "timeout = 1",
        "timeout = {n}",
        "headers = {{['X-T'] = {v}}}",
        "headers = {v}",
        "verbose = false",
        "max_header_name_length = 2",
        "follow_location = false",
        "no_proxy = {v}",
        "accept_encoding = 'gzip'",
        "verify_host = {v}",
        "unix_socket = {v}",
        "keepalive_idle = {v}",
        "low_speed_time = {v}",
        "interface = {v}",
        "ca_path = {v}",
        "nope = {v}",
    ).format(v=source.value(), n=source.one("1", "2.5", "1e15", "2^53"))
    url = source.one("'http://127.0.0.1:' .. port .. '/a?b=c'", "'127.0.0.1:' .. port", "'http://127.0.0.1:1/'")
    odd = source.one(
        "'nope://x'", "''", "'http://'", "'http://127.0.0.1:1/'", "5", "nil", "{}", "'http://[::1'", "'http:// x/'"
    )
    method = source.one("get", "post", "put", "delete", "head", "options", "trace", "patch", "connect")
    body = source.one("'body'", "nil", "5", "''", "{}")
    arguments = (
        source.arguments(url, body, f"{{{option}}}")
        if method in ("post", "put", "patch")
        else (source.arguments(url, f"{{{option}}}"))
    )
    return [
        "l = socket.tcp_server('127.0.0.1', 0, function(c) local h = c:read({delimiter = '\\r\\n\\r\\n'}, 1) "
        f"c:write(h and h:find(' /b ') and 'HTTP/1.1 200 OK\\r\\nContent-Length: 1\\r\\n\\r\\nb' or '{reply}') end) "
        "port = l:name().port",
        source.one(
            f"r = http.{method}({arguments}) return r",
            f"r = http.request('{method.upper()}', {url}, {body}, {{{option}}}) return r",
            f"r = http.request({source.arguments(repr('GET'), url, body, '{' + option + '}')}) return r",
            f"c = http.new({source.one('', '{max_connections = 1}', source.value())}) r = "
            f"c:{method}({arguments}) return r",
        ).replace("return r", "if type(r) == 'table' and r.headers then r.headers.date = nil end return r"),
        source.one(
            "r.status, r.reason, r.body, r.proto",
            "r.cookies",
            "r:decode and r:decode()",
            f"http.request({source.one(repr('GET'), source.value())}, {odd}, nil, {{timeout = 0.2}})",
            f"http.get({odd}, {{timeout = 0.2}})",
            f"http.post({odd}, {source.value()}, {{timeout = 0.2}})",
            f"http.new({source.value()}) ~= nil",
            f"http.new():request({source.values(4)})",
            f"http.{method}({source.values(3)})",
            "http.new().request()",
            "http.new():stat()",
        ),
        "closed(l)",
    ]


def sockets(source: RandomLua) -> list[str]:
    """Return a program about raw sockets, a server and its client, look-ups, or HTTP."""
    return source.random.choice([_raw, _raw, _pair, _pair, _lookups, _requests])(source)
