"""Programs with digest, crypto, uuid, decimal, pickle, clock, title, tarantool and buffer."""

from __future__ import annotations

from test.interop.random_lua import RandomLua

MODULES = [
    "digest = require('digest')",
    "crypto = require('crypto')",
    "uuid = require('uuid')",
    "decimal = require('decimal')",
    "pickle = require('pickle')",
    "clock = require('clock')",
    "title = require('title')",
    "tarantool = require('tarantool')",
    "buffer = require('buffer')",
    "ffi = require('ffi')",
]


def _digest(source: RandomLua) -> str:
    text = source.one(source.text(), "('x'):rep(100)")
    name = source.one("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
    key = "'0123456789abcdef0123456789abcdef'"
    return source.one(
        f"digest.{name}_hex({source.arguments(text)})",
        f"digest.{name}({source.arguments(text)}):hex()",
        f"digest.{source.one('crc32', 'murmur')}({source.arguments(text)})",
        f"digest.crc32_update({source.arguments(source.number(), text)})",
        f"digest.guava({source.arguments(source.word('5 123456 5LL'), source.one('10', '1', '0', '-1'))})",
        f"digest.base64_encode("
        f"{source.arguments(text, source.one('nil', '{nopad = true}', '{nowrap = true}', '{urlsafe = true}'))})",
        f"digest.base64_decode({source.arguments(source.one(repr('YWJj'), repr('YW'), repr('!!'), text))})",
        f"digest.pbkdf2_hex({source.arguments(text, repr('salt'), '10', '8')})",
        f"#digest.urandom({source.arguments('8')})",
        f"digest.aes256cbc.encrypt({source.arguments(text, key, key[:17] + chr(39))}):hex()",
        f"digest.aes256cbc.decrypt({source.arguments(text, key, key[:17] + chr(39))})",
        f"c = digest.{source.one('crc32', 'murmur')}.new({source.values(1)}) "
        f"c:update({source.arguments(text)}) return c:result()",
        f"c = digest.{source.one('crc32', 'murmur')}.new() c:update('a') d = c:copy() c:clear() return "
        f"c:result(), d:result(), c:update('x')",
        f"digest.crc32.new():{source.word('update nope result copy')}({source.values(2)})",
        f"digest.{source.one('nope', name, 'guava', 'pbkdf2')}({source.values(3)})",
    )


def _crypto(source: RandomLua) -> str:
    name = source.one("md5", "sha1", "sha224", "sha256", "sha512", "nope")
    cipher = source.one("aes128", "aes192", "aes256", "nope")
    mode = source.one("cbc", "cfb", "ecb", "ofb", "nope")
    key = {"aes128": "('k'):rep(16)", "aes192": "('k'):rep(24)", "aes256": "('k'):rep(32)"}.get(cipher, "('k'):rep(8)")
    vector = "('v'):rep(16)"
    text = source.text()
    return source.one(
        f"crypto.digest.{name}({source.arguments(text)}):hex()",
        f"crypto.digest.{name}({source.value()})",
        f"d = crypto.digest.{name}.new() d:init() d:update({source.arguments(text)}) return d:result():hex()",
        f"d = crypto.digest.{name}.new() return d:{source.word('update result free init nope')}({source.values(1)})",
        "d = crypto.digest.md5.new() d:free() return d:update('a')",
        "d = crypto.digest.md5.new() d:update('a') d:result() return d:update('b')",
        f"crypto.hmac.{name}({source.arguments(repr('key'), text)}):hex()",
        f"crypto.hmac.{name}_hex({source.arguments(repr('key'), text)})",
        f"d = crypto.hmac.{name}.new({source.arguments(repr('key'))}) d:update({source.arguments(text)}) "
        f"return d:result():hex()",
        f"crypto.cipher.{cipher}.{mode}.encrypt({source.arguments(text, key, vector)}):hex()",
        f"crypto.cipher.{cipher}.{mode}.decrypt({source.arguments(text, key, vector)})",
        f"crypto.cipher.{cipher}.{mode}.decrypt(crypto.cipher.{cipher}.{mode}.encrypt({text}, {key}, "
        f"{vector}), {key}, {vector})",
        f"c = crypto.cipher.{cipher}.{mode}.{source.one('encrypt', 'decrypt')}.new("
        f"{source.arguments(key, vector)}) return c:update({source.arguments(text)}), c:result()",
        "c = crypto.cipher.aes128.cbc.encrypt.new() return c:update('x')",
        f"c = crypto.cipher.aes128.cbc.encrypt.new() return c:init({source.values(2)})",
        f"crypto.{source.word('digest hmac cipher nope')}({source.values(2)})",
    )


def _uuid(source: RandomLua) -> str:
    text = source.one(
        "'c8f0fa1f-da29-438c-a040-393f1126ad39'", "'C8F0FA1F-DA29-438C-A040-393F1126AD39'", "'x'", "''", "('0'):rep(36)"
    )
    made = source.one(
        f"uuid.fromstr({text})",
        "uuid.fromstr('c8f0fa1f-da29-438c-a040-393f1126ad39')",
        "uuid.NULL",
        f"uuid.frombin({source.text()})",
    )
    order = source.one("'l'", "'b'", "'h'", "'n'", "'host'", "'network'", "'x'", "nil", "5")
    return source.one(
        f"uuid.fromstr({source.arguments(text)})",
        f"uuid.frombin({source.arguments('(' + chr(39) + 'ab' + chr(39) + '):rep(8)', order)})",
        f"({made}):{source.one('str()', 'isnil()', 'nope()')}",
        f"({made}):bin({order}):hex()",
        f"{made} {source.one('==', '<', '<=', '>', '..', '+')} {source.one(made, text, source.value())}",
        f"tostring({made}), type({made}), uuid.is_uuid({made})",
        f"#uuid.{source.one('str()', 'bin()', 'str(5)', 'bin(' + order + ')', 'new()')}",
        f"uuid.{source.word('is_uuid fromstr frombin nope isnil')}({source.values(2)})",
        f"({made}).{source.word('time_low node nope str isnil')}",
    )


def _decimal(source: RandomLua) -> str:
    texts = (
        "'1.50'",
        "'-0'",
        "'1e-5'",
        "'1e38'",
        "'1e37'",
        "'-1.23456789012345678901234567890123456789'",
        "'abc'",
        "' 1'",
        "'1 '",
        "'inf'",
        "'nan'",
        "''",
        "'0x10'",
        "'+5'",
        "'.5'",
        "'5.'",
        "'1e'",
        "'12345678901234567890123456789012345678'",
        "'0.1'",
        "'99.995'",
    )
    made = f"decimal.new({source.one(source.number(), source.one(*texts), source.one(*texts), source.value())})"
    other = source.one(source.number(), source.one(*texts), f"decimal.new({source.one(*texts)})", source.value())
    return source.one(
        made,
        f"{made} {source.one('+', '-', '*', '/', '%', '^')} {other}",
        f"{other} {source.one('+', '-', '*', '/', '%', '^')} {made}",
        f"{made} {source.one('<', '<=', '==', '>', '~=')} {other}",
        f"-{made}",
        f"tostring({made}), #tostring({made})",
        f"{made} .. 'x'",
        f"#{made}",
        f"decimal.{source.word('abs sqrt ln exp trim precision scale log10 is_decimal minus')}("
        f"{source.arguments(made)})",
        f"decimal.{source.one('round', 'rescale')}({source.arguments(made, source.small(-2, 40))})",
        f"decimal.{source.word('abs new round ln nope sqrt exp precision')}({source.values(2)})",
        f"({made}).{source.word('abs nope x')}",
        f"({made}):{source.one('abs()', 'str()', 'round(1)')}",
        f"tonumber({made}), tonumber64({made})",
        f"string.format('%s', {made}), require('json').encode({made})",
    )


def _pickle(source: RandomLua) -> str:
    form = "".join(source.random.choice("bsilqfdwaAnNSIQLBWw,z ") for _ in range(source.random.randint(1, 3)))
    return source.one(
        f"pickle.pack({source.arguments(repr(form), source.number(), source.value())}):hex()",
        f"pickle.pack('{source.word('b i l q a s n')}', {source.value()}):hex()",
        f"pickle.unpack({source.arguments(repr(form), source.one(repr('abcdefgh'), source.text(), source.value()))})",
        f"pickle.unpack('{source.word('b i l q a s bbb')}', {source.one(repr('abcdefgh'), source.text())})",
        f"pickle.{source.word('pack unpack nope')}({source.values(3)})",
    )


def _process(source: RandomLua) -> str:
    return source.one(
        f"type(clock.{source.word('time time64 monotonic proc proc64 thread thread64 nope realtime')}("
        f"{source.values(1)}))",
        f"clock.bench({source.arguments('function(...) return ... end', source.value())})[2]",
        f"clock.bench({source.value()})",
        f"title.update({source.text()})",
        f"title.update{{{source.word('script_name status custom_title nope')} = {source.plain()}}}",
        "select(2, title.get())",
        f"tarantool.{source.word('package nope build.nope build.mod_format')}",
        f"type(tarantool.{source.word('pid uptime nope build.target build.compiler')})",
        f"tarantool.pid({source.values(1)}) > 0, type(tarantool.uptime({source.values(1)}))",
    )


def _buffer(source: RandomLua) -> list[str]:
    small = source.one("0", "1", "10", "100", "20000", "{}", "'x'", "nil", "true", "5LL")
    return [
        f"b = buffer.ibuf({source.one('', '', '10', source.value())})",
        *[
            source.one(
                f"b:{source.one('reserve', 'alloc')}({small}) ~= nil",
                "b:size(), b:capacity(), b:unused(), b:pos()",
                f"b:read({small}) ~= nil",
                f"b:checksize({small}) ~= nil",
                "b:reset()",
                "b:recycle()",
                "ffi.copy(b:alloc(3), 'abc', 3) return ffi.string(b.rpos, b:size())",
                f"b:{source.word('nope size read')}({source.values(2)})",
                f"b.{source.word('size reserve reset checksize')}({source.values(1)})",
                f"b.{source.word('nope rpos buf')} == nil",
                "b.wpos - b.rpos",
                f"buffer.{source.one('nope', 'READAHEAD', 'IBUF_SHARED == nil')}",
                "tostring(b)",
                "b",
            )
            for _ in range(3)
        ],
    ]


def digests(source: RandomLua) -> list[str]:
    """Return calls of these modules."""
    if source.chance(0.15):
        return _buffer(source)
    kinds = [_digest, _crypto, _uuid, _decimal, _decimal, _pickle, _process]
    return [source.random.choice(kinds)(source) for _ in range(3)]
