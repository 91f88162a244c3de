"""Programs with the shapes of rocks: how servers, metrics, queues, routers and test frameworks use the modules."""

from __future__ import annotations

from test.interop.random_lua import RandomLua

MODULES = [
    "json, yaml, msgpack = require('json'), require('yaml'), require('msgpack')",
    "fiber, fio, digest = require('fiber'), require('fio'), require('digest')",
    "uri, fun = require('uri'), require('fun')",
    "function safe(f, ...) local r = {pcall(f, ...)} if not r[1] then r[2] = tostring(r[2]) end "
    "return unpack(r, 1, 3) end",
]


def _server(source: RandomLua) -> list[str]:
    """What an HTTP server does with a request: lines, fields, cookies, paths with placeholders, escapes, forms."""
    target = source.one("/a/b?x=1&y=%20z", "/", "/é", "/a%2Fb?", "//x", "/a?b=c&b=d#f", "/%zz", "/a+b?c+d=e+f")
    pattern = source.one("'^/(%w+)/([^/]+)$'", "'^/(.-)/?$'", "'[?&]([^=&]+)=([^&]*)'", "'%%(%x%x)'", "'^(/[^?]*)'")
    field = source.one("Content-Length: 5", "X-A:b:c", "Cookie: a=1; b=2", ": x", "broken", "Set-Cookie: é=ü")
    return [
        f"uri.parse('http://h:80{target}')",
        f"('{target}'):match({pattern})",
        f"('{target}'):gsub('%%(%x%x)', function(h) return string.char(tonumber(h, 16)) end)",
        f"('{target}'):gsub('[^%w%.%-_]', function(c) return ('%%%02X'):format(c:byte()) end)",
        f"('GET {target} HTTP/1.1'):match('^(%S+)%s+(%S+)%s+HTTP/(%d)%.(%d)$')",
        f"('{field}'):match('^([^:]+):%s*(.*)$')",
        f"fun.iter(('{field}; c=3'):split(';')):map(string.strip):totable()",
        f"os.date('!%a, %d %b %Y %H:%M:%S GMT', {source.one('0', '86400.5', '1e9', '-1', '2^31')})",
        f"json.encode({{path = '{target}', list = {{{source.values(2)}}}}}):len()",
    ]


def _metrics(source: RandomLua) -> list[str]:
    """What collectors and exporters do: labels, buckets, quantiles, number formats."""
    number = source.one(
        source.number(), "0.1 + 0.2", "1/3", "2.5", "0.125", "12345678.9", "1/0", "-1/0", "0/0", "5ULL", "1e-7"
    )
    form = source.one("%s", "%.15g", "%g", "%.3f", "%d", "%.0f", "%5.1f%%", "%e", "%i", "%x")
    return [
        f"safe(string.format, '{form}', {number})",
        f"tostring({number})",
        f"('m{{le=\"%s\"}} %s'):format({number}, {number})",
        f"json.encode({{v = {number}, [1] = {source.plain()}}})",
        f"x = {{{source.values(3)}, {source.number()}}} "
        "table.sort(x, function(a, b) return tostring(a) < tostring(b) end) return x",
        f"fun.iter({{a = 1, b = {source.small()}}}):map(function(k, v) return k .. '=' .. v end):totable()",
        f"table.concat({{'a', {source.plain()}, {source.number()}}}, '|')",
        f"math.floor({number}), math.ceil({source.number()}), math.max(1, {source.number()})",
        f"tonumber(require('clock').time64() / 1000000000ULL) > 1.6e9, {number} == {number}",
        f"safe(digest.crc32, {source.text()}), digest.murmur({source.text()})",
    ]


def _queue(source: RandomLua) -> list[str]:
    """What queues and expiration do: channels with timeouts, conditions, fibers by name, triggers, times of tasks."""
    timeout = source.one("0", "0.001", "nil", "-1", "'x'", "1e-9")
    order = source.one("ttl", "pri", "delay", "ttr")
    return [
        f"c = fiber.channel({source.one('0', '1', '2', 'nil', source.value())}) "
        "return c:size(), c:count(), c:is_closed()",
        f"c and c:put({source.value()}, {source.one('0', '0.001')})",
        f"c and c:get({source.one('0', '0.001')})",
        f"safe(c and c.put, c, 1, {timeout if timeout != 'nil' else '0'})",
        "q = fiber.cond() fiber.create(function() fiber.sleep(0.001) q:signal() end) return q:wait(1)",
        f"f = fiber.new(function(...) fiber.name({source.text()}, {{truncate = true}}) return ... end, "
        f"{source.values(2)}) f:set_joinable(true) return f:join()",
        "box.schema.space.create('lbq', {if_not_exists = true, format = "
        f"{{{{'id', 'unsigned'}}, {{'{order}', 'number'}}}}}})"
        ":create_index('pk', {if_not_exists = true}) ~= nil",
        f"safe(box.space.lbq.replace, box.space.lbq, {{{source.small()}, {source.number()}}})",
        f"safe(box.space.lbq.update, box.space.lbq, {source.small(0, 3)}, {{{{'+', '{order}', {source.number()}}}}})",
        "box.space.lbq:pairs():take(2):map(function(t) return t:tomap({names_only = true}) end):totable()",
        "c and c:close()",
        f"safe(c and c.put, c, {source.value()})",
    ]


def _router(source: RandomLua) -> list[str]:
    """What sharding does: buckets by hashes, merged results, requests as tuples, errors as tables."""
    key = source.one(source.plain(), source.text(), "5LL", "box.NULL")
    reverse = source.one("true", "false", "nil")
    return [
        f"safe(function() return digest.crc32(tostring({key})) % 3000 + 1 end)",
        f"msgpack.decode(msgpack.encode({{{key}, {source.value()}}}))",
        "kd = require('key_def').new({{fieldno = 2, type = 'scalar', is_nullable = true}, "
        "{fieldno = 1, type = 'unsigned'}})",
        f"a = {{box.tuple.new{{1, {source.plain()}}}, box.tuple.new{{2, {source.plain()}}}}} "
        f"b = {{box.tuple.new{{3, {source.plain()}}}}} "
        f"table.sort(a, function(x, y) return kd:compare(x, y) {'>' if reverse == 'true' else '<'} 0 end)",
        "m = require('merger') r = m.new(kd, {m.new_source_fromtable(a), m.new_source_fromtable(b)}, "
        f"{{reverse = {reverse}}}) return r:select({{limit = {source.one('1', '2', '10')}}})",
        f"kd:compare(a[1], b[1]) > 0, safe(kd.compare_with_key, kd, a[1], {{{source.plain()}}})",
        f"e = box.error.new({{code = {source.small(0, 5)}, reason = {source.text()}, type = {source.text()}}}) "
        "return e.message, e.type, e.code, tostring(e)",
        "x = e:unpack() x.trace = nil return x, safe(error, e)",
        f"box.tuple.new{{1, {source.value()}}}:update({{{{'=', 2, {source.plain()}}}, "
        f"{{'!', -1, {source.number()}}}}})",
        f"safe(box.tuple.new, {{1, {source.value()}}}, {{format = {{{{'a', 'unsigned'}}}}}})",
        "uuid = require('uuid') return uuid.fromstr(tostring(uuid.new())) ~= nil, #uuid.str(), uuid.is_uuid(uuid.NULL)",
    ]


def _tooling(source: RandomLua) -> list[str]:
    """What configurations, test frameworks and checks do: files, YAML, levels of the stack, copies, loaded code."""
    broken = source.one("'a: [1, 2'", "'a: b'", "'- {x: ~}'", "'---'", source.text())
    code = source.one("'return 1 +'", "'return ...'", "'x ='", "'local a = 1 return a'")
    return [
        f"yaml.decode(yaml.encode({{a = {source.value()}, b = {{{source.values(2)}}}}}))",
        f"safe(yaml.decode, {broken})",
        f"path = fio.pathjoin(fio.tempdir(), 'lb') h = fio.open(path, {{'O_CREAT', 'O_WRONLY', 'O_TRUNC'}}, "
        f"tonumber('644', 8)) return h:write({source.text()}), h:close()",
        "h = io.open(path) x = h:read('*a') h:close() return x",
        "h = fio.open(path) x = h:read() h:close() return x, fio.path.exists(path), fio.stat(path).size",
        f"for line in io.lines(path, {source.one(repr('L'), repr('l'), '2', repr('*l'))}) do x = line end return x",
        "fio.unlink(path), fio.rmdir(fio.dirname(path))",
        f"function checked(a, b) local n, v = debug.getlocal(1, {source.small(0, 4)}) return n, type(v) end return "
        f"checked({source.values(2)})",
        "function where() return debug.getinfo(1, 'l').currentline, debug.getinfo(2, 'S').what end return where()",
        f"x = table.deepcopy({{{source.value()}, {{{source.value()}}}}}) return x",
        f"loadstring({code}) ~= nil",
        f"safe(loadstring('local a, b = ... return a {source.one('+', '..', '<', '==', '%')} b'), {source.value()}, "
        f"{source.value()})",
        f"safe(error, setmetatable({{}}, {{__tostring = function() return {source.text()} end}}))",
        f"xpcall(function() error({source.value()}) end, function(e) return type(e) end)",
        "os.getenv('HOME') == os.environ().HOME, type(os.time()), os.clock() > 0",
        f"select({source.one('1', '-1', '2', repr('#'), '0', '5')}, {source.value()}, {source.value()})",
    ]


def rocks(source: RandomLua) -> list[str]:
    """Return some steps of one of these kinds, in their order."""
    steps = source.random.choice((_server, _metrics, _queue, _router, _tooling))(source)
    return steps if source.chance(0.2) else steps[: source.random.randint(4, len(steps))]
