"""Programs with json, yaml, msgpack, csv and the printed form of values: values, broken texts, options."""

from __future__ import annotations

from test.interop.random_lua import RandomLua

MODULES = [
    "json = require('json')",
    "yaml = require('yaml')",
    "msgpack = require('msgpack')",
    "csv = require('csv')",
    "uuid = require('uuid')",
    "decimal = require('decimal')",
    "ffi = require('ffi')",
    "buffer = require('buffer')",
]

_OPTIONS = (
    "encode_sparse_convert encode_sparse_ratio encode_sparse_safe encode_max_depth encode_deep_as_nil "
    "encode_invalid_numbers "
    "encode_number_precision encode_load_metatables encode_use_tostring encode_invalid_as_nil decode_invalid_numbers "
    "decode_save_metatables decode_max_depth encode_error_as_ext nope"
).split()


def _option(source: RandomLua) -> str:
    return f"{source.random.choice(_OPTIONS)} = {source.one('true', 'false', '1', '0', '3', '20', source.value())}"


def _deep(source: RandomLua) -> str:
    # As a key no number that 32 bits cannot hold: Tarantool loses such elements.
    key = source.one(source.small(), source.text(), "1.5", "-0.25", "255", "65536", "true")
    return source.one(
        source.value(),
        f"{{{source.values(4)}}}",
        f"{{a = {source.value()}, {source.value()}}}",
        f"{{[{key}] = {source.value()}}}",
        f"setmetatable({{{source.values(2)}}}, {{__serialize = {source.word('map seq array mapping nope')!r}}})",
        f"setmetatable({{{source.values(2)}}}, {{__serialize = function(s) return {source.value()} end}})",
        "setmetatable({}, {__serialize = function(s) error('own') end})",
        f"{{[{source.small(1, 40)}] = {source.value()}}}",
        f"{{[{source.one(key, source.table(), 'true', '5LL', 'print')}] = 1}}",
        "{{{{{{{{{{{{{{1}}}}}}}}}}}}}}",
        "(function() local t = {} t.t = t return t end)()",
        "uuid.fromstr('c8f0fa1f-da29-438c-a040-393f1126ad39')",
        f"decimal.new({source.one('1', repr('1.50'), '-0.1', '1e10')})",
        "box.error.new(box.error.UNKNOWN)",
        f"ffi.new('{source.one('int', 'double', 'uint8_t', 'float', 'bool', 'struct ibuf', 'char[3]', 'int64_t')}')",
        f"ffi.cast('{source.one('int', 'void *', 'uint16_t', 'const char *', 'double')}', {source.small()})",
        "box.space._schema",
        f"{{{source.number()}, {source.number()}, {source.number()}}}",
        f"({source.text()}):rep({source.small(1, 5)})",
        f"string.char({', '.join(source.small(0, 255) for _ in range(3))})",
    )


def _json_text(source: RandomLua) -> str:
    texts = [
        "{}",
        "[]",
        "[1,2",
        '{"a":1}',
        '{"a" 1}',
        "{a:1}",
        "[1,]",
        "nul",
        "null",
        "true",
        "tru",
        "1",
        "-1",
        "1.5e3",
        "01",
        "+1",
        "1e999",
        "-",
        ".5",
        "5.",
        "0x10",
        "nan",
        "inf",
        "-inf",
        '"a"',
        '"a',
        '"\\u00e9"',
        '"\\ud83d\\ude00"',
        '"\\ud83d"',
        '"\\x"',
        "[[[[]]]]",
        "[1 2]",
        '{"a":1,"a":2}',
        " 1 ",
        "1 2",
        "",
        " ",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        '[1,{"b":[null]}]',
        '{"a":{"b":}}',
        '"\\n\\t\\/"',
        "/* c */ 1",
        "'a'",
        '"\u00e9"',
        '"\\u0000"',
        "[true,false,null]",
        '{"1":2}',
        "{1:2}",
        "nullx",
        "[tru]",
        '{"a":}',
        "]",
        "}",
        ",",
    ]
    chosen = source.random.choice(texts)
    if source.chance(0.2):
        place = source.random.randrange(len(chosen) + 1)
        chosen = chosen[:place] + source.one("\t", "\n", " ", "x", '"', "\\", "[", "}", "\x01", "1") + chosen[place:]
    return _quoted(chosen)


def _quoted(text: str) -> str:
    table = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\x01": "\\001"}
    return "'" + "".join(table.get(char, char) for char in text) + "'"


def _yaml_text(source: RandomLua) -> str:
    pieces = [
        "a: 1",
        "- 1",
        "- a",
        "b: [1, 2]",
        "{a: b}",
        "[1, 2",
        "'single'",
        '"dou\\nble"',
        "|",
        "  text",
        ">-",
        "---",
        "...",
        "&a x",
        "*a",
        "!!str 1",
        "!!binary YQ==",
        "!!int x",
        "!!float 1",
        "~",
        "null",
        "yes",
        "no",
        "on",
        "True",
        "0x1F",
        "0o17",
        "017",
        "1_000",
        "1e3",
        ".inf",
        "-.nan",
        ".5",
        "5.",
        "1:30",
        "2001-01-01",
        "? a",
        ": b",
        "# c",
        "%TAG ! x",
        "\t",
        "- - 1",
        "key: 'it''s'",
        "!tag x",
        "<<: *a",
        "a: b: c",
        "@x",
        "`x",
        "- {a: 1, b: [c]}",
        "'",
        '"',
        "+1",
        "-0",
        "0b11",
        "=",
        "!!null ''",
        "!!bool true",
        "!!map {}",
        "!!nope 1",
    ]
    chosen = [source.random.choice(pieces) for _ in range(source.random.randint(1, 4))]
    return _quoted(source.one("\n", "\n", " ").join(chosen))


def _bytes(source: RandomLua) -> str:
    codes = [
        0x00,
        0x7F,
        0x80,
        0x81,
        0x82,
        0x90,
        0x91,
        0x92,
        0xA0,
        0xA1,
        0xC0,
        0xC1,
        0xC2,
        0xC3,
        0xC4,
        0xC7,
        0xCA,
        0xCB,
        0xCC,
        0xCD,
        0xCE,
    ]
    codes += [0xCF, 0xD0, 0xD1, 0xD2, 0xD3, 0xD4, 0xD8, 0xD9, 0xDA, 0xDC, 0xDD, 0xDE, 0xDF, 0xE0, 0xFF, 1, 2, 0x61]
    return "'" + "".join(f"\\{source.random.choice(codes):03d}" for _ in range(source.random.randint(0, 6))) + "'"


def _csv_text(source: RandomLua) -> str:
    pieces = ["a", "1", "b c", '"q"', '"a""b"', '"a,b"', '"open', "", " x ", "é", '"a"b', "'s'", '"l\nm"', '""']
    rows = [source.one(",", ",", ";").join(source.some(pieces, 4)) for _ in range(source.random.randint(0, 4))]
    return _quoted(source.one("\n", "\r\n", "\n", "\r").join(rows) + source.one("", "\n"))


def _csv_options(source: RandomLua) -> str:
    name = source.one("delimiter", "quote_char", "chunk_size", "skip_head_lines", "nope")
    return f"{{{name} = {source.one(repr(';'), repr(','), '1', '2', repr('ab'), source.value())}}}"


def _encoding(source: RandomLua) -> str:
    module = source.one("json", "yaml", "msgpack")
    more = source.one("", "", "", f", {{{_option(source)}}}", f", {source.value()}")
    encoded = f"{module}.encode({_deep(source)}{more})"
    return f"({encoded}):hex()" if module == "msgpack" else encoded


def _decoding(source: RandomLua) -> str:
    more = source.one("", "", "", ", {" + _option(source) + "}", ", " + source.value())
    return source.one(
        f"json.decode({_json_text(source)}{more})",
        f"json.decode({_json_text(source)})",
        f"yaml.decode({_yaml_text(source)}{more})",
        f"yaml.decode({_yaml_text(source)})",
        f"msgpack.decode({_bytes(source)}{source.one('', '', ', ' + source.small())})",
        f"msgpack.{source.one('decode', 'decode_unchecked')}({source.values(3)})",
        f"json.decode({source.value()})",
        f"yaml.decode({source.values(2)})",
        f"json.decode(json.encode({_deep(source)}))",
        f"yaml.decode(yaml.encode({_deep(source)}))",
        f"msgpack.decode(msgpack.encode({_deep(source)}))",
    )


def _configured(source: RandomLua) -> list[str]:
    module = source.one("json", "yaml", "msgpack")
    return [
        f"m = {module}.new({source.one('', 'nil', '{}', source.value())})",
        f"m.cfg{{{_option(source)}}} ~= nil",
        f"m.cfg.{source.random.choice(_OPTIONS)}",
        f"m.encode({_deep(source)})" if module != "msgpack" else f"m.encode({_deep(source)}):hex()",
        f"m.decode({_json_text(source)})",
        f"m.cfg({source.values(2)}) ~= nil",
    ]


def _csv(source: RandomLua) -> str:
    return source.one(
        f"csv.load({_csv_text(source)})",
        f"csv.load({source.arguments(_csv_text(source), _csv_options(source))})",
        f"csv.dump({source.arguments('{{1, ' + source.value() + '}, {' + source.text() + '}}', _csv_options(source))})",
        f"csv.dump({source.value()})",
        f"csv.load({source.values(3)})",
        f"x = {{}} for i, v in csv.iterate({_csv_text(source)}, {_csv_options(source)}) do x[i] = v end return x",
        f"csv.iterate({source.values(2)}) ~= nil",
        f"csv.load({{read = function(s, n) return {source.one(_csv_text(source), 'nil', '5')} end}}, "
        f"{{chunk_size = 3}})"
        if source.chance(0.01)
        else f"csv.load({_csv_text(source)}, {{delimiter = ';'}})",
    )


def _buffers(source: RandomLua) -> list[str]:
    module = source.one("msgpack", "json")
    return [
        "b = buffer.ibuf()",
        f"msgpack.encode({source.arguments(_deep(source), 'b')})",
        source.one(
            "msgpack.decode(b.rpos, b:size())",
            f"msgpack.decode({source.arguments('b.rpos', 'b:size()')})",
            "ffi.string(b.rpos, b:size()):hex()",
            f"{module}.encode(b)",
            f"msgpack.decode_array_header({source.arguments('b.rpos', 'b:size()')})",
            f"msgpack.decode_map_header({source.arguments('b.rpos', 'b:size()')})",
        ),
    ]


def serializers(source: RandomLua) -> list[str]:
    """Return encoders and decoders with any values, options and broken texts."""
    if source.chance(0.2):
        return _configured(source)
    if source.chance(0.1):
        return _buffers(source)
    return [source.random.choice([_encoding, _encoding, _decoding, _decoding, _csv])(source) for _ in range(3)]
