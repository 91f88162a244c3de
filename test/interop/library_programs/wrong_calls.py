"""Calls of public functions with any arguments: wrong types, too few or many, huge and negative numbers, odd bytes."""

from __future__ import annotations

from test.interop.random_lua import RandomLua

MODULES = [
    "function shown(ok, ...) local t = {} for i = 1, select('#', ...) do local v = select(i, ...) "
    "t[i] = (type(v) == 'cdata' or type(v) == 'table' or type(v) == 'userdata') and type(v) or v end "
    "return ok, unpack(t, 1, select('#', ...)) end",
    "t, empty = box.tuple.new{1, 'a', {b = 2}, 1.5}, box.tuple.new{}",
    "d, u = require('decimal').new('1.5'), require('uuid').fromstr('c8f0fa1f-da29-438c-a040-393f1126ad39')",
    "k = require('key_def').new{{fieldno = 1, type = 'unsigned'}, {fieldno = 2, type = 'string', is_nullable = true}}",
    "b = require('buffer').ibuf() s = require('merger').new_source_fromtable({{1, 'a'}, {2, 'b'}})",
    "c, h = require('iconv').new('UTF-16BE', 'UTF-8'), require('crypto').hmac.md5.new('k')",
]

_FUNCTIONS = {
    "require('fio')": "basename dirname pathjoin abspath stat lstat open listdir glob readlink truncate path.exists "
    "path.is_dir path.is_file path.is_link path.lexists utime umask chown rename",
    "require('csv')": "load dump iterate",
    "require('digest')": "base64_encode base64_decode crc32 crc32_update md5 md5_hex sha1_hex sha224_hex sha256_hex "
    "sha384_hex sha512_hex sha512 murmur guava pbkdf2_hex aes256cbc.encrypt crc32.new murmur.new",
    "require('crypto')": "digest.md5 digest.sha1 digest.sha512 digest.nope hmac.md5_hex hmac.sha256 "
    "cipher.aes128.cbc.encrypt cipher.aes256.ecb.decrypt cipher.des.cbc.encrypt digest.md5.new "
    "cipher.aes192.ofb.encrypt.new",
    "require('iconv')": "new",
    "require('uuid')": "fromstr frombin is_uuid new",
    "require('decimal')": "new abs ln log10 exp sqrt precision scale round rescale trim is_decimal",
    "require('buffer')": "ibuf",
    "require('msgpack')": "encode decode decode_unchecked decode_array_header decode_map_header new ibuf_decode",
    "require('json')": "encode decode new",
    "require('yaml')": "encode decode new",
    "require('uri')": "parse format",
    "require('pickle')": "pack unpack",
    "require('key_def')": "new",
    "require('merger')": "new new_source_fromtable new_table_source new_tuple_source new_source_frombuffer",
    "require('http.client')": "new",
    "require('fun')": "range iter take nth wrap chain zip duplicate tabulate",
    "string": "split startswith endswith strip lstrip rstrip hex fromhex ljust rjust center rep sub byte char find "
    "match gsub len upper reverse format",
    "table": "concat copy deepcopy sort insert remove maxn unpack clear new",
    "utf8": "len upper lower sub char next isalpha isdigit islower isupper casecmp cmp",
    "os": "getenv difftime",
    "box.tuple": "new is update upsert",
}
_METHODS = {
    "t": "find findall slice unpack totable transform update upsert next bsize tomap pairs tojson nope",
    "empty": "find slice unpack next transform update",
    "d": "abs add sub mul div nope",
    "u": "bin str isnil nope",
    "k": "extract_key compare compare_with_key merge totable nope",
    "b": "alloc reserve read size unused pos capacity checksize nope",
    "s": "select pairs ipairs nope",
    "c": "nope convert",
    "h": "update init result nope",
    "('a,b')": "split startswith endswith strip hex fromhex ljust center rep sub byte find match gsub format",
}
_HOSTILE = [
    "-1",
    "2^31",
    "2^32 + 1",
    "-2^53",
    "2^63",
    "1e300",
    "0/0",
    "-1/0",
    "'\\255'",
    "'\\192\\128'",
    "'a\\0b'",
    "('é'):rep(3)",
    "'-1'",
    "' 5 '",
    "'5x'",
    "{{}}",
    "{[0] = 1}",
    "setmetatable({}, {__index = {a = 1}})",
    "newproxy()",
    "9223372036854775807LL",
]


def _value(source: RandomLua) -> str:
    return source.random.choice(_HOSTILE) if source.chance(0.4) else source.value()


def wrong_calls(source: RandomLua) -> list[str]:
    """Return calls of functions and methods. Objects of a module are shown by their type."""
    calls = []
    for _ in range(3):
        arguments = [_value(source) for _ in range(source.random.choice((0, 1, 1, 2, 2, 3, 4)))]
        if source.chance(0.65):
            module = source.random.choice(list(_FUNCTIONS))
            name = f"{module}.{source.word(_FUNCTIONS[module])}"
            calls.append(f"shown(pcall({', '.join([name, *arguments])}))")
        else:
            owner = source.random.choice(list(_METHODS))
            calls.append(f"shown(true, {owner}:{source.word(_METHODS[owner])}({', '.join(arguments)}))")
    return calls
