"""Modules for texts and bytes. Expected values were printed by a running Tarantool."""

from __future__ import annotations

from uuid import UUID

import pytest

from box.errors import BoxError
from box.wire.tarantool_version import PACKAGE_VERSION

from .conftest import Lua


def test_uri_is_taken_apart_and_put_together(lua: Lua) -> None:
    parsed, unix, nothing, text = lua(
        """local uri = require('uri')
        return uri.parse('a:b@h:1/p?q=1#f'), uri.parse('unix/:/tmp/x'), uri.parse('a b') == nil,
            uri.format({host = 'h', service = '1', login = 'a', password = 'p'})"""
    )
    assert parsed == {
        "login": "a", "password": "b", "host": "h", "service": "1", "path": "/p", "query": "q=1", "fragment": "f",
    }  # fmt: skip
    assert unix == {"host": "unix/", "service": "/tmp/x", "unix": "/tmp/x"}
    assert nothing
    assert text == "a@h:1"


def test_odd_addresses(lua: Lua) -> None:
    """A host with an empty service and a path is a scheme too; a query or a fragment may stand alone."""
    assert lua(
        """local parse = require('uri').parse
        return parse('http://'), parse('h:/p'), parse('?q'), parse('#f'), parse('') == nil, parse('h:') """
    ) == [
        {"host": "http", "scheme": "http", "path": "//"}, {"host": "h", "scheme": "h", "path": "/p"}, {"query": "q"},
        {"fragment": "f"}, True, {"host": "h"},
    ]  # fmt: skip


def test_decimals_round_a_fraction_that_is_too_long(lua: Lua) -> None:
    assert lua(
        """local new = require('decimal').new
        return tostring(new('0.' .. ('5'):rep(40))), tostring(new('1.' .. ('1'):rep(40))),
            tostring(new(('9'):rep(38) .. '.4')), pcall(new, ('9'):rep(38) .. '.5')"""
    )[:4] == ["0." + "5" * 37 + "6", "1." + "1" * 37, "9" * 38, False]


def test_objects_of_crypto_that_are_freed(lua: Lua) -> None:
    assert lua(
        """local c = require('crypto')
        local function problem(object, ...)
            object:free()
            return (select(2, pcall(object.init, object, ...)))
        end
        local cipher = c.cipher.aes128.cbc.encrypt.new()
        cipher:init(('k'):rep(16), ('i'):rep(16))
        return #cipher:result(), problem(c.digest.md5.new()), problem(c.hmac.md5.new('k'), 'k'), problem(cipher)"""
    ) == [16, "Digest context isn't usable", "HMAC context isn't usable", "Cipher context isn't usable"]


def test_uuid_has_the_byte_orders_of_tarantool(lua: Lua) -> None:
    assert lua(
        """local uuid = require('uuid')
        local u = uuid.fromstr('f6423bdf-b49e-4913-b361-0740c9702e4b')
        return u, tostring(u), u:bin():hex(), u:bin('b'):hex(), uuid.frombin(u:bin()) == u, uuid.fromstr('xx') == nil,
            uuid.NULL:isnil(), #uuid.str(), uuid.is_uuid(u), u < uuid.fromstr('f6423bdf-b49e-4913-b361-0740c9702e4c')"""
    ) == [
        UUID("f6423bdf-b49e-4913-b361-0740c9702e4b"), "f6423bdf-b49e-4913-b361-0740c9702e4b",
        "df3b42f69eb41349b3610740c9702e4b", "f6423bdfb49e4913b3610740c9702e4b", True, True, True, 36, True, True,
    ]  # fmt: skip


def test_digests(lua: Lua) -> None:
    assert lua(
        """local d = require('digest')
        local crc = d.crc32.new() crc:update('a') crc:update('bc')
        return d.md5_hex('abc'), d.sha1_hex('abc'), #d.sha512('a'), d.crc32('abc'), crc:result(), d.murmur('abc'),
            d.guava(10863919174838991ULL, 11), d.base64_encode('a\\255\\254', {urlsafe = true}),
            d.base64_decode('YW Jj!'), d.pbkdf2_hex('a', 'b', 10, 16), #d.urandom(5)"""
    ) == [
        "900150983cd24fb0d6963f7d28e17f72", "a9993e364706816aba3e25717850c26c9cd0d89d", 64, 3384066120, 3384066120,
        3408160902, 6, "Yf_-", "abc", "8035ce8e3b671cc36ec2cc1cb7a42b34", 5,
    ]  # fmt: skip


def test_base64_lines_have_72_characters(lua: Lua) -> None:
    (text,) = lua("return require('digest').base64_encode(('abc'):rep(30))")
    assert [len(line) for line in text.split("\n")] == [72, 48]


def test_ciphers_and_authentication_codes(lua: Lua) -> None:
    encrypted, decrypted, code, wrong = lua(
        """local c = require('crypto')
        local key, iv = ('k'):rep(32), ('i'):rep(16)
        local text = c.cipher.aes256.cbc.encrypt('hello', key, iv)
        local _, problem = pcall(c.cipher.aes256.cbc.encrypt, 'hello', 'k', iv)
        local hmac = c.hmac.md5.new('key') hmac:update('da') hmac:update('ta')
        return text:hex(), c.cipher.aes256.cbc.decrypt(text, key, iv), hmac:result():hex(), tostring(problem)"""
    )
    assert encrypted == "691c9738822127306187e06d85f16cb7"
    assert decrypted == "hello"
    assert code == "9d5c73ef85594d34ec4438b7c97e51d8"
    assert wrong == "key size expected 32, got 1"


def test_csv_reads_what_it_writes(lua: Lua) -> None:
    assert lua(
        """local csv = require('csv')
        return csv.load(...), csv.dump({{'a', 'b,c'}, {'x\\ny', ''}}),
            csv.load('h\\n1', {skip_head_lines = 1}), csv.load('a;b', {delimiter = ';'})""",
        'a , b,"c ""q"""\n1,"x\ny",\n',
    ) == [[["a", "b", 'c "q"'], ["1", "x\ny", ""]], 'a,"b,c"\n"x\ny",\n', [["1"]], [["a", "b"]]]


def test_pickle(lua: Lua) -> None:
    assert lua(
        """local p = require('pickle')
        return p.pack('bslAnNq', 1, 2, 3, 'ab', 4, 5, 6ULL):hex(), {p.unpack('bna', p.pack('bnA', 255, 258, 'x'))}"""
    ) == ["010200030000000000000061620004000000050000000000000006", [255, 258, "x"]]
    with pytest.raises(BoxError, match="got 1 bytes \\(expected: 9\\+\\)"):
        lua("require('pickle').unpack('bl', '\\1')")


def test_iconv(lua: Lua) -> None:
    assert lua(
        """local iconv = require('iconv')
        local to, from = iconv.new('CP1251', 'UTF-8'), iconv.new('UTF-8', 'CP1251')
        return to('при'):hex(), from(to('при')), not pcall(to, '\\255'), pcall(iconv.new, 'nosuch', 'UTF-8')"""
    )[:3] == ["eff0e8", "при", True]


def test_title_is_made_of_parts(lua: Lua) -> None:
    (title, parts) = lua(
        """local title = require('title')
        title.update({script_name = 'y.lua', status = 'x', custom_title = 'running'})
        return title.get()"""
    )
    assert title == "tarantool y.lua <x>: running"
    assert parts["status"] == "x"


def test_arguments_of_a_command_line(lua: Lua) -> None:
    assert lua(
        """local parse = require('internal.argparse').parse
        return parse({'a', '--name=v', '--flag', '--list', '1', '--list', '2', '-ab', '-'}),
            parse({'--num', '5', '--yes', 'x'}, {{'num', 'number'}, {'yes', 'boolean'}}),
            {pcall(parse, {'--unknown'}, {'known'})}, {pcall(parse, {'--num', 'x'}, {{'num', 'number'}})}"""
    ) == [
        {1: "a", 2: "-", "name": "v", "flag": True, "list": ["1", "2"], "a": True, "b": True},
        {1: "x", "num": 5, "yes": True},
        [False, "builtin/internal.argparse.lua:173: unknown options: unknown"],
        [False, 'builtin/internal.argparse.lua:45: Bad value for parameter "num". Expected number, got "x"'],
    ]


def test_what_this_is(lua: Lua) -> None:
    """_TARANTOOL has the version with the number of commits and a hash, which vshard cuts off."""
    package, version, is_number, is_same = lua(
        """local t = require('tarantool')
        return t.package, t.version, t.uptime() >= 0 and t.pid() > 0, _TARANTOOL == box.info.version""",
        configure={},
    )
    assert package == "Tarantool"
    assert version == PACKAGE_VERSION == "2.8.1-0-g0000000"
    assert is_number
    assert is_same


def test_texts_that_cannot_be_converted_raise(lua: Lua) -> None:
    """Tarantool swaps the two texts."""
    assert lua(
        """local iconv, texts = require('iconv'), {}
        for _, text in ipairs({'\\xff', '\\xd0'}) do
            local ok, problem = pcall(iconv.new('UTF-16BE', 'UTF-8'), text)
            table.insert(texts, {ok, (tostring(problem):gsub(':%d+:', ':'))})
        end
        local converter = iconv.new('UTF-16BE', 'UTF-8')
        return texts, tostring(converter):match('iconv: 0x') ~= nil, select('#', utf8.next('\\xff'))"""
    ) == [
        [
            [False, "builtin/iconv.lua: Incomplete multibyte sequence"],
            [False, "builtin/iconv.lua: Invalid multibyte sequence"],
        ],
        True,
        0,
    ]


def test_versions_and_tags_of_yaml(lua: Lua) -> None:
    assert lua(
        """local yaml = require('yaml')
        return {pcall(yaml.decode, '%YAML 1.2\\n--- 1')}, yaml.decode('%YAML 1.1\\n--- 1'),
            select('#', yaml.decode('a: 1', {tag_only = true}))"""
    ) == [[False, "found incompatible YAML document at document: 0\n"], 1, 1]


def test_hashes_of_digest_are_functions(lua: Lua) -> None:
    """Programs ask for the type before they call one; those of crypto are objects that can be called."""
    assert lua(
        """local digest, types = require('digest'), {}
        for i, name in ipairs({'md4', 'md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'}) do
            types[i] = type(digest[name])
        end
        return types, #digest.sha256('a'), (select(2, pcall(digest.sha256)):gsub('^.*: Usage', 'Usage'))"""
    ) == [["function"] * 7, 32, "Usage: digest.sha256(string)"]
