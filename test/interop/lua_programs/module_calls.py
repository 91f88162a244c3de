"""Programs that call public functions of modules, mostly with wrong arguments."""

from __future__ import annotations

from test.interop.lua_programs.source import Rules, steps_of

_FUNCTIONS = {
    "json": "encode decode nope",
    "msgpack": "encode decode decode_unchecked decode_array_header decode_map_header NULL",
    "msgpackffi": "encode decode_unchecked on_encode",
    "uri": "parse format",
    "pickle": "pack unpack",
    "errno": "EINVAL nope",
    "utf8": "len upper lower sub char next isalpha isdigit islower isupper casecmp cmp",
    "string": "split startswith endswith strip lstrip rstrip hex fromhex rjust ljust center format rep sub byte char "
    "find match gmatch gsub len lower upper reverse",
    "table": "concat copy deepcopy sort insert remove maxn unpack foreach foreachi getn move",
    "math": "floor ceil abs fmod modf sqrt pow random frexp ldexp log exp",
    "os": "time date getenv difftime nope",
    "coroutine": "create wrap resume status yield running",
    "_G": "tonumber tonumber64 tostring type select unpack rawget rawset rawequal next pairs ipairs setmetatable "
    "loadstring load dofile pcall collectgarbage",
    "key_def": "new",
    "merger": "new new_tuple_source new_buffer_source new_table_source",
    "pwd": "getpw getgr",
    "tarantool": "package version build nope",
    "log": "info warn error debug verbose level log_format pid",
    "fiber": "cond channel find status",
    "console": "eval ac nope",
    "xlog": "pairs",
    "tap": "test",
    "net.box": "connect new self",
    "box.tuple": "new is update upsert",
    "box": "atomic begin commit rollback savepoint is_in_txn",
}
_NOT_REQUIRED = {"_G", "string", "table", "math", "bit", "os", "debug", "coroutine", "utf8", "box", "box.tuple"}


def _calls() -> list[str]:
    """Return a call template for each function of each module."""
    found = []
    for module, names in _FUNCTIONS.items():
        holder = module if module in _NOT_REQUIRED else f"require('{module}')"
        found += [f"{holder}.{name}" for name in names.split()]
    return found


_RULES: Rules = {
    "function": _calls(),
    "part": [
        "{field = 1, type = 'unsigned'}",
        "{1, 'string'}",
        "{field = <value>, type = <text>}",
        "{fieldno = 1}",
        "<value>",
    ],
    "special": [
        "json.encode(<value>, {encode_max_depth = <value>})",
        "json.encode({a = <value>}, {nope = <value>})",
        "json.decode('<text_of_json>', {decode_max_depth = <small>})",
        "json.decode('<text_of_json>')",
        "j = json.new() j.cfg{<json_option> = <value>} return j.encode(<value>)",
        "json.new().cfg.<json_option>",
        "msgpack.new().cfg{<json_option> = <value>}",
        "msgpack.decode(msgpack.encode({<value>, <value>}))",
        "msgpack.decode('\\x93\\1', <small>)",
        "msgpack.decode('\\x81\\xa1a\\1', <value>)",
        "msgpack.encode(<value>):hex()",
        "require('uri').parse('<uri>')",
        "require('uri').format(require('uri').parse('<uri>'), <value>)",
        "require('uri').format({<uri_part> = <value>, host = <value>})",
        "require('pickle').pack('<pack>', <args>)",
        "require('pickle').unpack('<pack>', <text>)",
        "require('key_def').new({<part>})",
        "k = require('key_def').new({<part>, {field = 2, type = 'string'}}) return k:totable()",
        "k:<key_method>(<args>)",
        "k:<key_method>(box.tuple.new{1, 'a'}, <value>)",
        "k:<key_method>({<value>, <value>}, {<value>, <value>})",
        "require('merger').new(require('key_def').new({<part>}), <value>, <args>)",
        "type(require('clock').<clock>(<args>))",
        "type(json.new(<args>)), type(msgpack.new(<args>))",
        "require('clock').bench(function(...) return ... end, <args>)[2]",
        "string.split(<text>, <args>)",
        "('a,b,,c'):split(<args>)",
        "(<text>):<string_method>(<args>)",
        "math.max(<value>, <args>), math.min(<value>, <value>)",
        "bit.band(<small>, <plain>), bit.lshift(<small>, <small>), bit.tohex(<small>, <small>)",
        "table.sort({3, 1, 2}, <value>)",
        "table.concat({<value>, <value>}, <value>)",
        "table.deepcopy({<value>, {<value>}})",
        "require('errno')(<args>) ~= nil",
        "require('errno').strerror(<small>)",
        "require('table.new')(<args>), require('table.clear')(<value>)",
        "package.search(<value>), package.searchroot(<value>) ~= nil",
        "string.format('<format>', <args>)",
        "tonumber(<value>, <small>), tonumber64(<value>)",
        "os.date('<date>', 0), os.time({year = <value>, month = 1, day = 1})",
    ],
    "clock": ["time", "time64", "monotonic", "monotonic64", "realtime", "proc", "proc64", "thread", "thread64"],
    "text_of_json": [
        "[1, 2",
        '{"a": 1}',
        "nul",
        "[1,]",
        "{1: 2}",
        '"\\\\u00e9"',
        "1e999",
        "[[[[1]]]]",
        "  7",
        "",
        "-",
        "[nan]",
    ],
    "json_option": [
        *[
            "encode_max_depth",
            "encode_deep_as_nil",
            "encode_invalid_numbers",
            "decode_invalid_numbers",
            "encode_number_precision",
        ],
        *["encode_sparse_ratio", "encode_sparse_safe", "encode_use_tostring", "decode_save_metatables", "nope"],
    ],
    "uri": [
        "h:1",
        "u:p@h/x?q#f",
        "unix/:/tmp/s",
        "http://[::1]:80/a",
        "1.2.3.4",
        ":3301",
        "",
        "u@h:0",
        "h:99999",
        "3301",
    ],
    "uri_part": ["scheme", "login", "password", "service", "path", "query", "fragment", "unix"],
    "pack": ["b", "B", "s", "i", "l", "n", "q", "a", "A", "w", "p", "=", "f", "d", "z", "ii", ""],
    "key_method": ["extract_key", "compare", "compare_with_key", "merge", "totable", "nope"],
    "string_method": [
        "hex",
        "fromhex",
        "strip",
        "lstrip",
        "startswith",
        "endswith",
        "ljust",
        "rjust",
        "center",
        "split",
        "rep",
    ],
    "format": [
        "%d",
        "%5.2f",
        "%g",
        "%x",
        "%s",
        "%q",
        "%c",
        "%i",
        "%u",
        "%10s",
        "%-5d|",
        "%%",
        "%",
        "%y",
        "%.3s",
        "%s%s",
    ],
    "date": ["%Y-%m-%d", "!%c", "*t", "!*t", "%q", "!%H"],
    "step": ["<function>(<args>)", "<function>(<args>)", "pcall(<function>, <args>)", "<special>", "<special>"],
}

modules = steps_of(_RULES, start=["k = require('key_def').new({{field = 1, type = 'unsigned'}})"])
"""Calls functions of the modules with arguments of every kind."""
