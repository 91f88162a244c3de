"""Wrong arguments of built-in modules: Tarantool's texts, with the caller's place and the function's name."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import Lua

HERE = "test.lua:1: "
"""The beginning of an error's text: the file and the line of the call."""

TEXTS = {
    "decimal.scale(nil)": HERE + "expected cdata as 1 argument",
    "decimal.round(nil, 1)": HERE + "expected cdata as 1 argument",
    "decimal.round(decimal.new(1))": HERE + "usage: decimal.round(decimal, scale)",
    "fiber.top()": HERE + "fiber.top() is disabled. Enable it with fiber.top_enable() first",
    "fiber.cond().wait(nil)": HERE + "bad argument #1 to 'wait' (fiber.cond expected, got nil)",
    "fiber.channel().get(nil)": HERE + "bad argument #1 to 'get' (fiber.channel expected, got nil)",
    "coroutine.wrap(nil)": HERE + "bad argument #1 to 'wrap' (function expected, got nil)",
    "tap.test('t'):plan(nil)": "builtin/tap.lua: bad argument #2 to 'format' (number expected, got nil)",
    "digest.guava(1, '5')": HERE + "bad argument #2 to '?' (cannot convert 'string' to 'int')",
    "string.endswith(nil, 'x')": "builtin/string.lua: attempt to get length of local 'inp' (a nil value)",
    "json.encode(require('http.client').new().curl)": HERE + "unsupported Lua type 'userdata'",
    "digest.md5(5)": "builtin/crypto.lua: Usage: digest.md5(string)",
    "digest.md5_hex(5)": "builtin/digest.lua: Usage: digest.md5_hex(string)",
    "digest.base64_encode(5)": "builtin/digest.lua: Usage: digest.base64_encode(string[, table])",
    "digest.urandom()": "builtin/digest.lua: Usage: digest.urandom(len)",
    "digest.urandom('x')": "builtin/buffer.lua: attempt to perform arithmetic on 'char *' and 'string'",
    "digest.sha512_hex(5)": "builtin/digest.lua: Usage: digest.sha512_hex(string)",
    "digest.crc32_update('x', 'x')": HERE + "bad argument #1 to '?' (cannot convert 'nil' to 'unsigned int')",
    "clock.time(1)": HERE + "wrong number of arguments for function call",
    "crypto.hmac.md5(nil, 'x')": "builtin/crypto.lua: Key should be specified for HMAC operations",
    "crypto.digest.md5.new():update(5)": "builtin/crypto.lua: attempt to index local 'input' (a number value)",
    "pickle.pack('i', print)": HERE + "unsupported Lua type 'function'",
    "pickle.unpack()": HERE + "bad argument #1 to 'unpack' (string expected, got no value)",
    "key_def.new({}, 1)": HERE
    + "Bad params, use: key_def.new({{fieldno = fieldno, type = type[, is_nullable = <boolean>][, exclude_null = "
    "<boolean>][, path = <string>][, collation_id = <number>][, collation = <string>]}, ...}",
    "merger.new_tuple_source('x')": HERE + "Usage: merger.new_tuple_source(gen, param, state)",
    "merger.new_source_fromtable({}).pairs(1)": HERE + "expected cdata as 1 argument",
    "table.move(5)": HERE + "bad argument #1 to 'move' (table expected, got number)",
    "table.clear()": HERE + "bad argument #1 to 'clear' (table expected, got no value)",
    "utf8.len('x', 1, 1, 1)": HERE + "Usage: utf8.len(<string>, [i, [j]])",
    "utf8.next('x', 1, 1)": HERE + "Usage: utf8.next(<string>, [<byte offset>])",
    "iconv.new('ASCII', 'UTF-8')({})": "builtin/iconv.lua: attempt to call method 'len' (a nil value)",
    "socket('AF_INET', 'SOCK_STREAM', 'tcp').sysread(1)": "builtin/socket.lua: Usage: socket:method(), called with "
    "non-socket",
    "socket('AF_INET', 'SOCK_STREAM', 'tcp'):sysread(-1)": "builtin/socket.lua: socket:sysread(): size can not be "
    "negative",
    "socket('AF_INET', 'SOCK_STREAM', 'tcp'):send('x', 0)": "builtin/socket.lua: bad argument #4 to 'send' (cannot "
    "convert 'nil' to 'int')",
    "socket('AF_INET', 'SOCK_STREAM', 'tcp'):syswrite(5)": "builtin/socket.lua: Usage: socket:syswrite(data) or "
    "socket:syswrite(const char *, size)",
    "socket.iowait(1)": HERE + "Usage: iowait(fd, 1 | 'r' | 2 | 'w' | 3 | 'rw' [, timeout])",
    "socket.iowait(1, 'R', {})": HERE + "bad argument #3 to 'iowait' (number expected, got table)",
    "fio.path.is_link()": "builtin/fio.lua: pathname is absent",
    "fio.abspath({})": "builtin/fio.lua: bad argument #1 to 'sub' (string expected, got table)",
    "xlog.pairs('x', 1)": "builtin/box/xlog.lua: Usage: parser.open(log_filename)",
    "msgpack.decode_map_header(1)": HERE + "Usage: msgpack.decode_map_header(ptr, size)",
    "msgpack.encode(1, nil)": HERE + "msgpack.encode: argument 2 must be of type 'struct ibuf'",
    "yaml.decode('x', box.NULL)": HERE + "Usage: yaml.decode(document, [{tag_only = boolean}])",
    "yaml.decode('*a\\n%TAG ! x')": "invalid reference: a",
    "digest.guava(1, 'x')": HERE + "bad argument #2 to '?' (cannot convert 'string' to 'int')",
    "digest.guava({}, 1)": HERE + "bad argument #1 to '?' (cannot convert 'table' to 'uint64_t')",
    "digest.murmur.new({seed = 'x'})": "builtin/digest.lua: cannot convert 'string' to 'int [1]'",
    "digest.crc32.new():update(5)": "builtin/digest.lua: Usage crc32:update(string)",
    "decimal.is_decimal()": HERE + "usage: decimal.is_decimal(value)",
    "decimal.new(1) < nil": HERE + "attempt to compare decimal with nil",
    "uuid.new().str()": HERE + "Usage: uuid:str()",
    "crypto.cipher.aes128.cbc.encrypt.new():update('a')": HERE + "Cipher not initialized",
    "uuid.fromstr(5)": "builtin/uuid.lua: fromstr(str)",
    "uuid.frombin('x')": "builtin/uuid.lua: frombin(bin, [byteorder])",
    "fio.basename(5)": "builtin/fio.lua: Usage: fio.basename(path[, suffix])",
    "fio.stat({})": HERE + "Usage: fio.stat(pathname)",
    "fio.path.exists({})": "builtin/fio.lua: Usage: fio.stat(pathname)",
    "fio.umask('x')": HERE + "bad argument #1 to 'umask' (cannot convert 'nil' to 'int')",
    "log.level({})": "builtin/log.lua: must be a number or a string",
    "iconv.new()": 'builtin/iconv.lua: Usage: iconv.new("CP1251", "KOI8-R")',
    "json.encode()": HERE + "bad argument #1 to 'encode' (expected 1 or 2 arguments)",
    "json.encode(print)": HERE + "unsupported Lua type 'function'",
    "json.decode('{')": HERE + "Expected object key string but found end on line 1 at character 2 here '{ >> '",
    "json.decode({})": HERE + "bad argument #1 to 'decode' (string expected, got table)",
    "json.encode(0/0, {encode_invalid_numbers = false})": "number must not be NaN or Inf",
    "json.encode({[1] = 1, [100] = 2}, {encode_sparse_convert = false})": "excessively sparse array",
    "json.encode(setmetatable({}, {__serialize = 'x'}))": "invalid __serialize value",
    "json.encode(setmetatable({}, {__serialize = function() error('x', 0) end}))": "x",
    "json.encode(setmetatable({}, {__serialize = function() error({}) end}))": "",
    "yaml.encode(print)": HERE + "unsupported Lua type 'function'",
    "yaml.encode{print}": HERE + "unsupported Lua type 'function'",
    "yaml.encode(setmetatable({}, {__serialize = 'x'}))": "invalid __serialize value",
    "yaml.encode()": HERE + "Usage: encode(object, {tag_prefix = <string>, tag_handle = <string>})",
    "msgpack.decode('')": HERE + "msgpack.decode: invalid MsgPack",
    "msgpack.ibuf_decode()": HERE + "expected cdata as 1 argument",
    "pickle.pack(5)": HERE + "pickle.pack: argument count does not match the format",
    "pickle.unpack('i')": HERE + "bad argument #2 to 'unpack' (string expected, got no value)",
    "decimal.scale(5ULL)": HERE + "expected decimal as 1 argument",
    "decimal.scale(5)": HERE + "expected cdata as 1 argument",
    "uri.format(nil)": "builtin/uri.lua: attempt to index local 'uri' (a nil value)",
    "uri.format({host = 'h', service = 19})": "builtin/uri.lua: cannot convert 'number' to 'const char *'",
    "uri.format({scheme = 1LL})": "builtin/uri.lua: cannot convert 'int64_t' to 'const char *'",
    "uri.parse(true)": "builtin/uri.lua: bad argument #2 to 'uri_parse' (cannot convert 'bool' to 'const char *')",
    "csv.load(5)": "builtin/csv.lua: attempt to index local 'readable' (a number value)",
    "csv.load('a', 5)": "builtin/csv.lua: attempt to index local 'opts' (a number value)",
    "csv.load('a', {delimiter = ''})": "builtin/csv.lua: cannot convert 'nil' to 'char'",
    "fio.chmod('a')": HERE + "Usage: fio.chmod(pathname, mode)",
    "fio.chown('a', 'b')": HERE + "Usage: fio.chown(pathname, owner, group)",
    "fio.mkdir({})": HERE + "Usage fio.mkdir(pathname[, mode])",
    "fio.utime({})": "builtin/fio.lua: Usage: fio.utime(filepath[, atime[, mtime]])",
    "fio.open('a', {[100] = 'pear'})": "builtin/fio.lua: fio.open(): unknown flag: pear",
    "fio.path.lexists({})": "builtin/fio.lua: pathname is absent",
    "uuid.new() < 5": HERE + "incorrect value to convert to uuid as 2 argument",
    "crypto.digest.nosuch('x')": HERE + 'Digest method "nosuch" is not supported',
    "pwd.getpw(true)": "builtin/pwd.lua: Bad type of uid (expected 'string'/'number')",
    "decimal.new()": HERE + "usage: decimal.new(value)",
    "decimal.new(nil)": HERE + "expected decimal, number or string as 1 argument",
    "pickle.unpack('bb', 'abc')": HERE + "pickle.unpack('bb'): too many bytes: unpacked 2, total 3",
    "utf8.char('x')": HERE + "bad argument #1 to 'char' (number expected, got string)",
    "fiber.kill('x')": HERE + "bad argument #1 to 'kill' (fiber expected, got string)",
    "fiber.new(print):name({})": HERE + "bad argument #1 to 'name' (string expected, got table)",
    "clock.bench(1)": "builtin/clock.lua: attempt to call local 'fun' (a number value)",
    "fiber.name({})": HERE + "bad argument #1 to 'name' (string expected, got table)",
    "fiber.name(string.rep('x', 300))": HERE + "Fiber name is too long",
    "fiber.create(function() end):cancel()": HERE + "the fiber is dead",
    "fiber.create(function() end).storage": HERE + "the fiber is dead",
    "string.split('x', '')": "bad argument #2 to 'string.split' (non-empty string expected, got empty string)",
    "tonumber64()": HERE + "bad argument #1 to 'tonumber64' (value expected)",
    "tonumber64('5', 40)": HERE + "bad argument #2 to 'tonumber64' (base out of range)",
    "tonumber64('5', 'x')": HERE + "bad argument #2 to 'tonumber64' (number expected, got string)",
    "key_def.new()": HERE
    + "Bad params, use: key_def.new({{fieldno = fieldno, type = type[, is_nullable = <boolean>]"
    + "[, exclude_null = <boolean>][, path = <string>][, collation_id = <number>][, collation = <string>]}, ...}",
    "key_def.new{{fieldno = 1, type = 'string'}}:compare_with_key({'x'}, 'x')": "A tuple or a table expected, "
    "got string",
    "key_def.new{{fieldno = 1, type = 'string'}}:compare_with_key({1}, 'x')": "Supplied key type of part 0 does not "
    "match index part type: expected string",
    "key_def.new{{fieldno = 1, type = 'string'}}:extract_key()": HERE + "Usage: key_def:extract_key(tuple)",
    "merger.new_source_fromtable()": "Usage: merger.new_source_fromtable(<table>)",
    "merger.new_tuple_source(5)": HERE + "Usage: merger.new_tuple_source(gen, param, state)",
    "fiber.sleep('x')": HERE + "fiber.sleep(delay): bad arguments",
    "fiber.sleep(0ULL)": HERE + "fiber.sleep(delay): bad arguments",
    "fiber.channel('x')": HERE + "fiber.channel(size): bad arguments",
    "fiber.channel(box.NULL)": HERE + "fiber.channel(size): bad arguments",
    "fiber.channel({}, 1)": HERE + "fiber.channel(size): bad arguments",
    "fiber.channel(-1)": HERE + "fiber.channel(size): negative size",
    "fiber.channel(1e300)": HERE + "fiber.channel(size): negative size",
    "fiber.channel(0/0)": HERE + "fiber.channel(size): negative size",
    "fiber.channel(2^31)": "userdata length overflow",
    "fiber.channel():put()": HERE + "usage: channel:put(var [, timeout])",
    "fiber.channel():put(1, box.NULL)": HERE + "usage: channel:put(var [, timeout])",
    "fiber.channel():get('x')": HERE + "usage: channel:get([timeout])",
    "fiber.channel().size()": HERE + "usage: channel:size()",
    "fiber.channel().get(box.NULL)": HERE + "bad argument #1 to 'get' (fiber.channel expected, got cdata)",
    "fiber.cond():wait(-1)": HERE + "usage: cond:wait([timeout])",
    "fiber.cond().signal()": HERE + "usage: cond:signal()",
    "fiber.cond().broadcast(1)": HERE + "bad argument #1 to 'broadcast' (fiber.cond expected, got number)",
    "coroutine.create()": HERE + "bad argument #1 to 'create' (function expected, got no value)",
    "coroutine.wrap(1)": HERE + "bad argument #1 to 'wrap' (function expected, got number)",
    "coroutine.resume(1)": HERE + "bad argument #1 to 'resume' (coroutine expected)",
    "msgpack.encode(require('ffi').typeof('int'))": HERE + "unsupported Lua type 'cdata'",
    "msgpack.encode{require('ffi').typeof('int64_t')}": HERE + "unsupported Lua type 'cdata'",
    "msgpack.encode(require('ffi').typeof('uint64_t'))": HERE + "unsupported Lua type 'cdata'",
    "msgpack.encode(require('ffi').typeof('struct tuple'))": HERE + "unsupported Lua type 'cdata'",
    "msgpack.decode('a', nil)": HERE + "bad argument #2 to 'decode' (number expected, got nil)",
    "msgpackffi.decode_unchecked('a', 5)": "builtin/msgpackffi.lua: offset = 5 is out of bounds [1..1]",
    "msgpackffi.decode_unchecked()": (
        "builtin/msgpackffi.lua: msgpackffi.decode_unchecked(str, offset) -> res, new_offset | "
        "msgpackffi.decode_unchecked([const] char *buf) -> res, new_buf"
    ),
    "clock.time64(nil)": HERE + "wrong number of arguments for function call",
    "utf8.len('a', box.NULL)": HERE + "bad argument #2 to 'len' (number expected, got cdata)",
    "utf8.sub('a', 1, box.NULL)": HERE + "bad argument #3 to 'sub' (number expected, got cdata)",
    "utf8.sub('a', nil)": HERE + "bad argument #2 to 'sub' (number expected, got nil)",
    "key_def.new{{fieldno = 1, type = 'string'}}:totable(1)": HERE + "Usage: key_def:totable()",
    "merger.new_table_source('a')": HERE + "Usage: merger.new_table_source(gen, param, state)",
    "merger.new_table_source(print, 1, 2, 3)": HERE + "Usage: merger.new_table_source(gen, param, state)",
    "table.move({}, 1, 2, {})": HERE + "bad argument #4 to 'move' (number expected, got table)",
    "table.move({}, 1, 2, 1, 5)": HERE + "bad argument #5 to 'move' (table expected, got number)",
    "string.endswith('a')": ("builtin/string.lua: attempt to get length of local 'tail' (a nil value)"),
    "string.endswith('a', {})": HERE + "bad argument #2 to 'string.endswith' (string expected, got string)",
    "errno('x')": HERE + "bad argument #1 to 'errno' (cannot convert 'string' to 'int')",
    "package.search({})": ("builtin/tarantool.lua: bad argument #1 to 'searcher' (string expected, got table)"),
    "fiber.channel().is_full(5)": HERE + "bad argument #1 to 'is_full' (fiber.channel expected, got number)",
    "fiber.cond().signal(5)": HERE + "bad argument #1 to 'signal' (fiber.cond expected, got number)",
    "fiber.testcancel(fiber.self())": HERE + "fiber.testcancel(): bad arguments",
    "pickle.pack('A', print)": HERE + "unsupported Lua type 'function'",
    "key_def.new{box.NULL}": "'void *' has no member named 'fieldno'",
    "pickle.pack('q', box.NULL)": HERE + "pickle.pack: expected 64-bit int",
    "uri.format({host = box.NULL})": "builtin/uri.lua: bad argument #1 to 'len' (string expected, got cdata)",
    "json.decode(false, false)": HERE + "attempt to index a boolean value",
    "msgpackffi.on_encode('', print)": (
        "builtin/msgpackffi.lua: Usage: on_encode(ffi.typeof('mytype'), function(buf, obj)"
    ),
    "msgpack.decode_map_header(box.NULL, 'a')": HERE + "msgpack.decode_map_header: 'char *' expected",
    "tap.test('a'):isudata(1)": "builtin/tap.lua: attempt to concatenate local 'utype' (a nil value)",
    "tap.test('a'):like({}, {}, 'b')": "builtin/tap.lua: bad argument #2 to 'match' (string expected, got table)",
    "fiber.create(1)": HERE + "fiber.create(function, ...): bad arguments",
    "socket('AF_INET', 'SOCK_STREAM', 'tcp'):write(5)": (
        "builtin/socket.lua: attempt to get length of local 'octets' (a number value)"
    ),
    "socket('AF_INET', 'SOCK_STREAM', 'tcp'):listen('x')": (
        "builtin/socket.lua: bad argument #2 to 'listen' (cannot convert 'string' to 'int')"
    ),
}


@pytest.mark.parametrize("call", TEXTS)
def test_texts(shared_lua: Lua, call: str) -> None:
    """Each wrong call has Tarantool's text; it is no tail call, so that place and name are known."""
    module = re.match(r"\w+", call)
    assert module is not None
    opening = "" if module[0] in ("tonumber64", "package") else f"local {module[0]} = require('{module[0]}') "
    probe = f"local ok, problem = pcall(function() local result = {call} return result end)"
    (text,) = shared_lua(f"{opening}{probe} return tostring(problem)")
    assert re.sub(r"(builtin/\S+\.lua):\d+:", r"\1:", text) == TEXTS[call]


def test_numbers_are_texts_and_paths(lua: Lua) -> None:
    """Functions that Tarantool writes in C accept a number as a text or path."""
    assert lua(
        """local utf8, fio = require('utf8'), require('fio')
        return utf8.upper(5), utf8.len(-1), utf8.cmp(1, 2), utf8.sub(123, 2), utf8.isupper(-1), utf8.isupper(1e9),
            utf8.isupper(''), fio.stat(12345) == nil, fio.abspath(5):match('/5$')"""
    ) == ["5", 2, -1, "23", False, False, False, True, "/5"]


def test_sizes_and_timeouts_of_channels(lua: Lua) -> None:
    """Channels accept numbers as text, cut sizes to 32 bits, and use the last argument as timeout."""
    assert lua(
        """local channel = require('fiber').channel
        local c = channel(1)
        return channel('5'):size(), channel(1.5):size(), channel(-0.5):size(), channel(2^32 + 5):size(),
            channel(1, 2):size(), channel(1, 'x'):size(), channel(nil, 4):size(),
            c:put(1, '0'), c:put(2, '0'), c:get('0'), require('fiber').cond():wait('0')"""
    ) == [5, 1, 0, 5, 2, 0, 0, True, False, 1, False]


def test_whole_numbers_as_large_as_numbers_of_types(lua: Lua) -> None:
    """A number equal to a ctype's id is no ctype."""
    assert lua(
        """local ffi, encode = require('ffi'), require('msgpack').encode
        local function number(name)
            return encode(ffi.new(name, tonumber(ffi.typeof(name)))) == encode(tonumber(ffi.typeof(name)))
        end
        return number('int64_t'), number('uint64_t'), number('int'), number('uint8_t')"""
    ) == [True, True, True, True]


def test_which_coroutines_may_yield(lua: Lua) -> None:
    assert lua("return coroutine.isyieldable(), coroutine.wrap(coroutine.isyieldable)()") == [False, True]


def test_ports_that_are_none(lua: Lua) -> None:
    assert lua(
        """local socket = require('socket')
        local s = socket('AF_INET', 'SOCK_STREAM', 'tcp')
        local bound = s:bind('127.0.0.1', 'x')
        s:close()
        return bound, socket.tcp_connect('127.0.0.1', {}) == nil, #socket.getaddrinfo({}, 6) > 0"""
    ) == [True, True, True]


def test_timeouts_of_look_ups_that_are_none(lua: Lua) -> None:
    """A timeout that is no number is no limit."""
    assert lua(
        """local socket, found = require('socket'), {}
        for i, timeout in ipairs{'x', '1', 0 / 0, 1 / 0, true, {}, 1e308, box.NULL, print} do
            found[i] = #socket.getaddrinfo('127.0.0.1', '80', timeout) > 0
        end
        return found"""
    ) == [[True] * 9]


def test_comparisons_with_nothing(lua: Lua) -> None:
    assert lua(
        """local uuid = require('uuid')
        local id = uuid.fromstr('f6423bdf-b49e-4913-b361-0740c9702e4b')
        return require('decimal').new('1.5') == box.NULL, id == tostring(id), id == 5"""
    ) == [False, True, False]


def test_tags_of_yaml(lua: Lua) -> None:
    """A wrong YAML tag is a returned error, not a raised one."""
    source = "return {select(2, require('yaml').encode(1, {tag_handle = ..., tag_prefix = select(2, ...)}))}"
    assert lua(source, "x", "p") == [["tag handle must start with '!'"]]
    assert lua(source, "!x", "p") == [["tag handle must end with '!'"]]
    assert lua(source, "!x!", "") == [["tag prefix must not be empty"]]


def test_the_file_of_a_chunk(lua: Lua) -> None:
    """debug.sourcefile and related functions return nil for a chunk without a file."""
    assert lua(
        """local file, directory = debug.sourcefile(), debug.sourcedir()
        local chunk = loadstring('local a, b = debug.__file__, debug.sourcedir() return a, b')
        local a, b = chunk()
        return file, directory, debug.__file__, a == nil, b, debug.sourcefile(100) == nil"""
    ) == ["test.lua", ".", "test.lua", True, ".", True]


def test_log_levels_without_bounds(lua: Lua) -> None:
    assert lua("local log = require('log') log.level(1/0) local high = log.cfg.level log.level(-5) return high") == [
        math.inf
    ]


def test_a_library_that_lacks_symbols_is_refused(lua: Lua, tmp_path: Path) -> None:
    """A library with missing symbols is refused; opening it would end the process when one is called."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, library = tmp_path / "lacks.c", tmp_path / "liblacks.so"
    source.write_text("int not_there(int); int call(int x) { return not_there(x); }")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    ok, text, cosine = lua(
        """
        local ffi = require('ffi')
        ffi.cdef('double cos(double);')
        local ok, text = pcall(ffi.load, (...))
        return ok, text, ffi.load('libm.so.6').cos(0)""",
        str(library),
    )
    assert (ok, "undefined symbol: not_there" in text, cosine) == (False, True, 1)


UNYIELDABLE = {
    "sleep": "fiber.sleep(0.01)",
    "yield": "fiber.yield()",
    "condition": "condition:wait(0.01)",
    "channel": "channel:get(0.01)",
    "join": "other:join()",
    "file": "fio.listdir('.')",
}


@pytest.mark.parametrize("wait", UNYIELDABLE.values(), ids=UNYIELDABLE.keys())
def test_a_wait_where_none_is_possible_leaves_nothing(lua: Lua, wait: str) -> None:
    """A wait in a function called from C, or in a debug hook, raises, and no later wait is affected."""
    ok, text, hook_ok, slept, woken, sent = lua(
        f"""
        local fiber, fio = require('fiber'), require('fio')
        local condition, channel = fiber.cond(), fiber.channel(0)
        local other = fiber.new(function() fiber.sleep(0.02) end)
        other:set_joinable(true)
        local ok, text = pcall(string.gsub, 'x', 'x', function() {wait} end)
        local hook_ok = pcall(function()
            debug.sethook(function() debug.sethook() {wait} end, '', 1)
            for _ = 1, 100 do end
        end)
        local start = fiber.clock()
        fiber.sleep(0.05)
        local slept, woken = fiber.clock() - start, false
        fiber.create(function() condition:wait() woken = true end)
        condition:signal()
        fiber.sleep(0.01)
        return ok, text, hook_ok, slept >= 0.045, woken, channel:put(1, 0.01)"""
    )
    assert (ok, hook_ok, slept, woken, sent) == (False, False, True, True, False)
    assert text.endswith("attempt to yield across C-call boundary")


def test_users_and_errors_of_odd_numbers(lua: Lua) -> None:
    assert lua(
        """
        local texts = {}
        local function text_of(...)
            local ok, problem = pcall(...)
            texts[#texts + 1] = ok and 'ok' or (tostring(problem):gsub('(%.lua):%d+:', '%1:'))
        end
        text_of(box.session.su, {})
        text_of(box.session.su, 0/0)
        texts[#texts + 1] = {box.error.new(0/0).code, box.error.new(2^32).code, box.error.new{code = 1/0}.code}
        text_of(require('iconv').new('UTF-16', 'UTF-8'), nil)
        text_of(require('msgpack').decode_unchecked, 'x', 0/0)
        text_of(function() return require('buffer').ibuf():alloc(-1) end)
        return texts""",
        configure={"wal_mode": "none"},
    ) == [
        [
            "ok",
            "ok",
            [0, 0, 0],
            "builtin/iconv.lua: attempt to index local 'data' (a nil value)",
            "msgpack.decode: offset is out of bounds",
            "builtin/buffer.lua: Failed to allocate -1 bytes in ibuf",
        ]
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("}", "unexpected END event"),
        ("][", "unexpected END event"),
        ("a\n---\n}", "unexpected END event"),
        ("- }", "did not find expected node content"),
        ("a: [1,", "did not find expected node content"),
        ("\udcff", "invalid leading UTF-8 octet at document: 0\n"),
        ("a\0b", "control characters are not allowed at document: 0\n"),
    ],
)
def test_bad_yaml(shared_lua: Lua, text: str, problem: str) -> None:
    """A document without content is an END event for Tarantool, whatever the reason."""
    (told,) = shared_lua("return tostring(select(2, pcall(require('yaml').decode, ...)))", text)
    assert told == problem or (not problem.endswith(("event", "\n")) and told.startswith(problem + " at document: 1"))


def test_yaml_is_read_to_the_depth_that_is_written(lua: Lua) -> None:
    """YAML is read to the depth that is written; deeper brackets raise at once, because libyaml's time grows with
    depth.
    """
    assert lua(
        """
        local yaml = require('yaml')
        local function nested(count, open, close)
            local ok, value = pcall(yaml.decode, open:rep(count) .. close:rep(count))
            return ok and type(value) or (value:gsub('^.-:%d+: ', ''))
        end
        local start = os.clock()
        local texts = {
            nested(1000, '[', ']'), nested(1001, '[', ']'),
            nested(50000, '[', ']'), nested(50000, '{a: ', '}'), nested(50000, '- ', ''),
        }
        return texts, os.clock() - start < 10"""
    ) == [["table", *["Too high nest level at document: 1\n"] * 4], True]


def test_only_texts_and_numbers_are_the_text_of_an_error(lua: Lua) -> None:
    assert lua(
        """
        local found = {}
        for _, value in ipairs({true, {}, print, 5, 'five'}) do
            local new = box.error.new{type = value, reason = value}
            found[#found + 1] = {new.type, new.message}
        end
        return found"""
    ) == [[*[["ClientError", ""]] * 3, ["5", "5"], ["five", "five"]]]


def test_fractions_are_no_integers_for_pickle(lua: Lua) -> None:
    assert lua(
        """
        local pack = require('pickle').pack
        local function text_of(...)
            local ok, result = pcall(pack, ...)
            return ok and result:hex() or (result:gsub('^.-%.lua:%d+: ', ''))
        end
        return text_of('i', 1.5), text_of('l', 0/0), text_of('q', 1/0), text_of('b', 256), text_of('i', 2^63),
            text_of('s', -1)"""
    ) == [
        "pickle.pack: expected 32-bit int",
        "pickle.pack: expected 64-bit int",
        "pickle.pack: expected 64-bit int",
        "00",
        "00000000",
        "ffff",
    ]


def test_a_hook_that_fails_or_yields_fails_in_what_users_have_written(lua: Lua) -> None:
    """A hook that fails or yields raises in the user's function alone, and other fibers go on."""
    assert lua(
        """
        local fiber = require('fiber')
        local results = {}
        local function touched() return 1 end
        for _, hook in ipairs({coroutine.yield, function() error('hooked', 0) end, function() fiber.sleep(0) end}) do
            local start = fiber.clock()
            debug.sethook(hook, 'c')
            fiber.sleep(0.01)
            local failing = fiber.new(touched)
            failing:set_joinable(true)
            local joined, reason = failing:join()
            local found = debug.gethook()
            debug.sethook()
            local has_slept = fiber.clock() - start > 0.009
            results[#results + 1] = {has_slept, joined, tostring(reason), found == hook, pcall(touched)}
        end
        return results, debug.gethook() == nil"""
    ) == [
        [
            [True, False, "attempt to yield across C-call boundary", True, True, 1],
            [True, False, "hooked", True, True, 1],
            [True, False, "attempt to yield across C-call boundary", True, True, 1],
        ],
        True,
    ]


def test_levels_and_events_of_a_hook(lua: Lua) -> None:
    """Within a hook, level 2 of the stack is the hooked function."""
    assert lua(
        """
        local events = {}
        local function hooked() return math.abs(-1) end
        debug.sethook(function(event, line)
            local place = debug.getinfo(2, 'Sl')
            events[#events + 1] = {event, place.what, event ~= 'line' or place.currentline == line}
        end, 'crl')
        hooked()
        debug.sethook()
        return events"""
    ) == [
        [
            ["line", "main", True],
            ["call", "Lua", True],
            ["line", "Lua", True],
            ["call", "C", True],
            ["line", "main", True],
        ]
    ]


def test_numbers_out_of_range(lua: Lua) -> None:
    """They are converted as by C: to the smallest number, or to the low bits."""
    assert lua(
        r"""
        local t, utf8 = box.tuple.new{1, 'a'}, require('utf8')
        local function problem(...) return (tostring(select(2, pcall(...))):gsub('^%S+:%d+: ', '')) end
        local h = require('crypto').hmac.md5.new('k')
        return {t:next(2^32 + 1)}, problem(t.slice, t, -1/0), problem(t.tomap, t, nil), {utf8.len('abc', 0/0)},
            utf8.sub('~', 1e15, 4), problem(table.new, 0, -1), problem(require('decimal').exp, nil, 1),
            problem(h.init, h, 5), require('uri').format({host = 'h', service = '1\0x'}),
            require('socket').getaddrinfo('127.0.0.1\0x', 1, 5) ~= nil
        """
    ) == [
        [4294967298, "a"], "tuple.slice(): start must be less than end", "Usage: tuple:tomap(opts)",
        [None, "position is out of string"], "~", "table overflow", "expected decimal, number or string as 1 argument",
        "attempt to index local 'key' (a number value)", "h:1", True,
    ]  # fmt: skip


def test_null_is_no_absent_argument(lua: Lua) -> None:
    assert lua(
        """
        local merger = require('merger')
        local function problem(...) return (tostring(select(2, pcall(...))):gsub('^%S+:%d+: ', '')) end
        local function once(_, state) if state == nil then return 1, nil end end
        local function of(kind) return merger['new_' .. kind .. '_source'](once) end
        local lists, tuples, buffers = of('table'), of('tuple'), of('buffer')
        local fio = require('fio')
        local old = fio.umask()
        fio.umask(0/0)
        return problem(lists.select, lists), problem(tuples.select, tuples), problem(buffers.select, buffers),
            problem(require('yaml').encode, 1, box.NULL):sub(1, 13), fio.umask(old),
            select(2, box.tuple.new{1, 'a'}:next(1LL)), (pcall(require('buffer').ibuf, -0.25)),
            problem(require('msgpack').ibuf_decode, box.NULL), problem(require('csv').dump, {{1}}, {}, 5)
        """
    ) == [
        "Expected <state>, <table>", "A tuple or a table expected, got nil", "Expected <state>, <buffer>",
        "Usage: encode", 0, "a", True, "msgpack.ibuf_decode: rpos is null",
        "attempt to index local 'writable' (a number value)",
    ]  # fmt: skip
