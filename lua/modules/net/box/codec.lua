-- Encodes bodies of requests of the binary protocol, and decodes replies.
--
-- `bodies.name(...)` returns the type of a request and its body, `results.name(body, format)` the value of its reply.
local ffi = require('ffi')
local decoder = require('internal.msgpack_decode')
local msgpack = require('internal.msgpack')
local sql_column = require('box.sql_columns')
local tuples = require('internal.tuple')

local type = type
local encode = msgpack.encode_value
local get, skip, array_header, map_header = decoder.get_sized, decoder.skip, decoder.array_header, decoder.map_header

local TYPE = {
    select = 1, insert = 2, replace = 3, update = 4, delete = 5, call_16 = 6, eval = 8, upsert = 9, call_17 = 10,
    execute = 11, prepare = 13, begin = 14, commit = 15, rollback = 16, ping = 64, id = 73, watch = 74, unwatch = 75,
}
local SPACE_ID, INDEX_ID, LIMIT, OFFSET, ITERATOR, INDEX_BASE = '\x10', '\x11', '\x12', '\x13', '\x14', '\x15'
local KEY, TUPLE, FUNCTION_NAME, EXPRESSION, OPS = '\x20', '\x21', '\x22', '\x27', '\x28'
local FETCH_POSITION, AFTER_POSITION, AFTER_TUPLE, POSITION = '\x1f', '\x2e', '\x2f', 0x35
local TIMEOUT, EVENT_KEY, TXN_ISOLATION = '\x56', '\x57', '\x59'
local VERSION, FEATURES, EVENT_DATA = 0x54, 0x55, 0x58
local PROTOCOL_VERSION = 4
local FEATURE_NAMES = {[0] = 'streams', 'transactions', 'error_extension', 'watchers', 'pagination'}
local OPTIONS, SQL_TEXT, SQL_BIND, STATEMENT_ID = '\x2b', '\x40', '\x41', '\x43'
local DATA, METADATA, BIND_METADATA, BIND_COUNT, SQL_INFO, STMT_ID = 0x30, 0x32, 0x33, 0x34, 0x42, 0x43
-- Keys of columns and of SQL_INFO, by number.
local COLUMN = {[0] = 'name', 'type', 'collation', 'is_nullable', 'is_autoincrement', 'span'}
local INFO = {[0] = 'row_count', 'autoincrement_ids'}

-- Encodes a map; each pair is a key and the encoded bytes of its value.
local function map(count, ...)
    return table.concat({string.char(0x80 + count), ...})
end

-- Returns the bytes of an object of msgpack.object, nil of anything else.
local function raw_of(value)
    return type(value) == 'userdata' and require('internal.msgpack_object').raw(value) or nil
end

local function checked_array(raw)
    local tag = raw:byte()
    if tag >= 0x90 and tag < 0xa0 or tag == 0xdc or tag == 0xdd then
        return raw
    end
    box.error(box.error.TUPLE_NOT_ARRAY)
end

-- Encodes a tuple or a list of operations. Anything else, a map too, is refused.
local function encode_tuple(value)
    local raw = raw_of(value)
    if raw then
        return checked_array(raw)
    elseif type(value) ~= 'table' and not tuples.is(value) then
        encode(value) -- raises for what cannot be encoded
        box.error(box.error.TUPLE_NOT_ARRAY)
    end
    return checked_array(msgpack.encode_tuple(value))
end

-- Encodes a key: a table, a tuple, a single value or nil. A table that is a map is a single value.
local function encode_key(key)
    if key == nil then
        return '\x90'
    elseif tuples.is(key) or raw_of(key) then
        return encode_tuple(key)
    end
    local raw = encode(key)
    local first = raw:byte()
    local is_array = type(key) == 'table' and (first >= 0x90 and first <= 0x9f or first == 0xdc or first == 0xdd)
    return is_array and raw or '\x91' .. raw
end

local bodies = {}

function bodies.ping()
    return TYPE.ping, ''
end

function bodies.select(space_id, index_id, iterator, offset, limit, key)
    return TYPE.select, map(6, SPACE_ID, encode(space_id), INDEX_ID, encode(index_id), ITERATOR, encode(iterator),
        OFFSET, encode(offset), LIMIT, encode(limit), KEY, encode_key(key))
end

-- Encodes a select of a page. The option `after` is a position, a tuple, or nil for the beginning.
function bodies.select_page(space_id, index_id, iterator, offset, limit, key, after, fetches)
    local kind, body = bodies.select(space_id, index_id, iterator, offset, limit, key)
    local count, rest = 7, FETCH_POSITION .. encode(fetches == true)
    if type(after) == 'string' then
        count, rest = 8, rest .. AFTER_POSITION .. encode(after)
    elseif after ~= nil then
        local tuple = encode_tuple(after)
        if tuple:byte() < 0x90 or tuple:byte() > 0xdd then -- the tag of a map: 0x80..0x8f, 0xde or 0xdf
            box.error(box.error.TUPLE_NOT_ARRAY)
        end
        count, rest = 8, rest .. AFTER_TUPLE .. tuple
    end
    return kind, string.char(0x80 + count) .. body:sub(2) .. rest
end

bodies.select_after = bodies.select_page

-- Encodes the announcement of features. With `with_errors` the server sends errors among values as extensions.
function bodies.id(with_errors)
    return TYPE.id, map(2, string.char(VERSION), encode(PROTOCOL_VERSION), string.char(FEATURES),
        encode(with_errors and {0, 1, 2, 3, 4} or {0, 1, 3, 4}))
end

function bodies.begin(timeout, level)
    local count, body = 0, ''
    if timeout ~= nil then
        count, body = 1, TIMEOUT .. encode(ffi.cast('double', timeout))
    end
    if level ~= nil then
        count, body = count + 1, body .. TXN_ISOLATION .. encode(level)
    end
    return TYPE.begin, map(count, body)
end

function bodies.commit()
    return TYPE.commit, '\x80'
end

function bodies.rollback()
    return TYPE.rollback, '\x80'
end

for _, kind in ipairs({'watch', 'unwatch'}) do
    bodies[kind] = function(key)
        return TYPE[kind], map(1, EVENT_KEY, encode(key))
    end
end

bodies.get, bodies.min, bodies.max = bodies.select, bodies.select, bodies.select

for _, name in ipairs({'insert', 'replace'}) do
    bodies[name] = function(space_id, tuple)
        return TYPE[name], map(2, SPACE_ID, encode(space_id), TUPLE, encode_tuple(tuple))
    end
end

function bodies.delete(space_id, index_id, key)
    return TYPE.delete, map(3, SPACE_ID, encode(space_id), INDEX_ID, encode(index_id), KEY, encode_key(key))
end

function bodies.update(space_id, index_id, key, ops)
    return TYPE.update, map(5, SPACE_ID, encode(space_id), INDEX_ID, encode(index_id), INDEX_BASE, '\1',
        TUPLE, encode_tuple(ops), KEY, encode_key(key))
end

function bodies.upsert(space_id, tuple, ops)
    return TYPE.upsert, map(4, SPACE_ID, encode(space_id), INDEX_BASE, '\1', TUPLE, encode_tuple(tuple),
        OPS, encode_tuple(ops))
end

local function encode_args(args)
    if type(args) == 'table' and getmetatable(args) == nil then
        return checked_array(encode(args))
    end
    return encode_tuple(args)
end

for _, kind in ipairs({'call_16', 'call_17'}) do
    bodies[kind] = function(name, args)
        return TYPE[kind], map(2, FUNCTION_NAME, encode(name), TUPLE, encode_args(args))
    end
end

bodies.count = bodies.call_16

function bodies.eval(expression, args)
    return TYPE.eval, map(2, EXPRESSION, encode(expression), TUPLE, encode_args(args))
end

-- Encodes parameters of SQL: a list of values and of maps {name = value}, or a tuple, whose varbinary values stay such.
local function encode_params(params)
    if type(params) ~= 'table' then
        return encode_tuple(params)
    end
    local list = setmetatable({}, msgpack.array_mt)
    for number = 1, #params do
        list[number] = params[number] == nil and msgpack.NULL or params[number]
    end
    return encode(list)
end

-- Encodes a statement, given as a text or as the number of a prepared statement.
local function encode_statement(statement)
    if type(statement) == 'number' then
        return STATEMENT_ID .. encode(statement)
    end
    return SQL_TEXT .. encode(statement == nil and '' or tostring(statement))
end

function bodies.execute(statement, params, options)
    return TYPE.execute, map(
        3, encode_statement(statement), SQL_BIND, encode_params(params), OPTIONS, encode_tuple(options))
end

function bodies.prepare(statement)
    return TYPE.prepare, map(1, encode_statement(statement))
end

bodies.unprepare = bodies.prepare

-- Descriptions become plain tables, so that a console shows them in block style.
local PLAIN = {}
for name, value in pairs(msgpack.DEFAULTS) do
    PLAIN[name] = value
end
PLAIN.decode_save_metatables = false

-- ---- replies ---------------------------------------------------------------------------------

-- Returns the memory of a body and the position of its data; nil if it has none.
local function find_data(body)
    local p = ffi.cast(decoder.byte_pointer, body)
    if #body == 0 then
        return nil
    end
    local count, pos = map_header(p, 0)
    for _ = 1, count do
        local key
        key, pos = get(msgpack.DEFAULTS, p, pos)
        if key == DATA then
            return p, pos
        end
        pos = skip(p, pos)
    end
end

local function rows(body, format)
    local p, pos = find_data(body)
    if p == nil then
        return {}
    end
    local _, first = array_header(p, pos)
    return tuples.many(body:sub(first + 1, skip(p, pos)), format)
end

local function first_row(body, format)
    return rows(body, format)[1]
end

local function single_row(body, format)
    local list = rows(body, format)
    if #list > 1 then
        box.error({code = box.error.MORE_THAN_ONE_TUPLE}) -- without a text, as in Tarantool
    end
    return list[1]
end

local function values(body)
    local p, pos = find_data(body)
    if p == nil then
        return {}
    end
    return (get(msgpack.DEFAULTS, p, pos))
end

-- Returns the first value of a reply of CALL_16, in which the server wraps each value into a tuple.
local function first_value(body)
    local row = values(body)[1]
    if type(row) == 'table' then
        return row[1]
    end
    return row
end

local function nothing()
end

local function named(map, names)
    local found = {}
    for key, value in pairs(map) do
        found[names[key]] = value
    end
    return found
end

local function columns(list)
    for number, column in ipairs(list) do
        list[number] = sql_column(named(column, COLUMN))
    end
    return list
end

-- Decodes all keys of a body except DATA.
local function sql_fields(body)
    local p = ffi.cast(decoder.byte_pointer, body)
    local fields, count, pos, key = {}, map_header(p, 0)
    for _ = 1, count do
        key, pos = get(PLAIN, p, pos)
        if key == DATA then
            pos = skip(p, pos)
        else
            fields[key], pos = get(PLAIN, p, pos)
        end
    end
    return fields
end

local function sql_result(body)
    local fields = sql_fields(body)
    if fields[SQL_INFO] ~= nil then
        return named(fields[SQL_INFO], INFO)
    end
    return {metadata = columns(fields[METADATA] or {}), rows = rows(body)}
end

local function sql_prepared(body)
    local fields = sql_fields(body)
    return {
        stmt_id = fields[STMT_ID], param_count = fields[BIND_COUNT], params = columns(fields[BIND_METADATA] or {}),
        metadata = fields[METADATA] and columns(fields[METADATA]),
    }
end

-- Returns {rows, position} of a page; without rows the position is nil.
local function page(body, format)
    return {rows(body, format), sql_fields(body)[POSITION]}
end

-- Returns {version, features} of the server's protocol; features is a set of names.
local function protocol(body)
    local fields, features = sql_fields(body), {}
    for _, name in pairs(FEATURE_NAMES) do
        features[name] = false
    end
    for _, number in ipairs(fields[FEATURES] or {}) do
        if FEATURE_NAMES[number] ~= nil then
            features[FEATURE_NAMES[number]] = true
        end
    end
    return {fields[VERSION] or 0, features}
end

-- Returns the value of an event in a list: {value}.
local function event(body)
    return {sql_fields(body)[EVENT_DATA]}
end

local results = {
    select_page = page, id = protocol, watch = event, begin = nothing, commit = nothing, rollback = nothing,
    execute = sql_result, prepare = sql_prepared, unprepare = nothing,
    ping = nothing, upsert = nothing,
    select = rows, select_after = rows, call_16 = rows,
    insert = first_row, replace = first_row, update = first_row, delete = first_row, min = first_row, max = first_row,
    get = single_row, count = first_value,
    call_17 = values, eval = values,
}

-- ---- replies as objects of msgpack.object, for the option return_raw ----------------------------------------------

local function raw_object(p, start)
    local objects = require('internal.msgpack_object')
    return objects.new(msgpack.OPTIONS, ffi.string(p + start, skip(p, start) - start))
end

local function raw_values(body)
    local p, pos = find_data(body)
    return p and raw_object(p, pos) or require('internal.msgpack_object').new(msgpack.OPTIONS, '\x90')
end

local function raw_row(body)
    local p, pos = find_data(body)
    if p == nil then
        return
    end
    local count, first = array_header(p, pos)
    return count and count > 0 and raw_object(p, first) or nil
end

local function raw_single(body)
    single_row(body)
    return raw_row(body)
end

local raw_results = {
    select = raw_values, select_after = raw_values, call_16 = raw_values, call_17 = raw_values, eval = raw_values,
    insert = raw_row, replace = raw_row, update = raw_row, delete = raw_row, min = raw_row, max = raw_row,
    get = raw_single, push = raw_row,
}

function raw_results.select_page(body)
    return {raw_values(body), sql_fields(body)[POSITION]}
end

-- Replies without rows are as always.
setmetatable(raw_results, {__index = results})

-- Returns the value of a pushed message.
function results.push(body)
    return values(body)[1]
end

-- Returns the undecoded bytes of the value, for users with decoders of their own.
function results.without_header(body)
    local p, pos = find_data(body)
    return p and body:sub(pos + 1, skip(p, pos)) or ''
end

-- Returns the position at the end of a page.
function results.position(body)
    return sql_fields(body)[POSITION]
end

return {bodies = bodies, results = results, raw_results = raw_results}
