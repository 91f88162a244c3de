-- require('xlog'): the rows of a log file or snapshot: for lsn, row in xlog.pairs(path) do, where row is
-- {HEADER = {type =, lsn =, ...}, BODY = {space_id =, tuple =, ...}}.
local ffi = require('ffi')
local fun = require('fun')
local decoder = require('internal.msgpack_decode')
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local tuples = require('internal.tuple')
local new_table = require('table.new')
local wait = require('internal.wait')

local error, select, type = error, select, type

local KEY_NAMES = {
    [0x10] = 'space_id', [0x11] = 'index_id', [0x12] = 'limit', [0x13] = 'offset', [0x14] = 'iterator',
    [0x15] = 'index_base', [0x20] = 'key', [0x21] = 'tuple', [0x22] = 'function_name', [0x23] = 'user_name',
    [0x24] = 'instance_uuid', [0x25] = 'cluster_uuid', [0x26] = 'vector_clock', [0x27] = 'expression',
    [0x28] = 'operations', [0x2a] = 'tuple_meta', [0x2b] = 'options',
}
local IS_TUPLE = {[0x20] = true, [0x21] = true}
local IS_DML = {
    SELECT = true, INSERT = true, REPLACE = true, UPDATE = true, DELETE = true, UPSERT = true, NOP = true,
}

local function value_at(key, body, p, pos)
    local tag, after = p[pos], decoder.skip(p, pos)
    local is_array = (tag >= 0x90 and tag < 0xa0) or tag == 0xdc or tag == 0xdd
    if IS_TUPLE[key] and is_array then
        return tuples.new(body:sub(pos + 1, after)), after
    end
    return (decoder.get(msgpack.DEFAULTS, p, pos)), after
end

local function body_of(kind, body)
    local p = ffi.cast(decoder.byte_pointer, body)
    local result, count, pos = {}, decoder.map_header(p, 0)
    for _ = 1, count do
        local key
        key, pos = decoder.get(msgpack.DEFAULTS, p, pos)
        local name = IS_DML[kind] and KEY_NAMES[key] or key
        result[name], pos = value_at(key, body, p, pos)
    end
    return result
end

local ROOM = 8

-- Makes the row for a program. The sizes of its tables and the order of the fields are Tarantool's, because they decide
-- how a console shows them.
local function row_of(facts)
    local kind, sync, lsn, replica_id, group_id, timestamp, tsn, is_commit, body = unpack(facts, 1, 9)
    local header, row = new_table(0, ROOM), new_table(0, ROOM)
    header.type = kind
    local function set(name, value)
        if value ~= 0 then
            header[name] = value
        end
    end
    set('sync', sync)
    set('lsn', lsn)
    set('replica_id', replica_id)
    set('group_id', group_id)
    set('timestamp', timestamp)
    if tsn ~= lsn or not is_commit then
        header.tsn = tsn
    end
    if is_commit and tsn ~= lsn then
        header.commit = true
    end
    row.HEADER = header
    if #body > 0 then
        row.BODY = body_of(kind, body)
    end
    return lsn, row
end

local function step(state)
    state.position = state.position + 1
    if state.rows[state.position] == nil then
        local packed = wait(python.xlog_next(state.number))
        if packed == nil then
            return nil
        end
        state.rows, state.position = msgpack.decode(packed), 1
    end
    return row_of(state.rows[state.position])
end

local function pairs_of(...)
    local path = ...
    if type(path) == 'number' then
        path = tostring(path)
    end
    if select('#', ...) ~= 1 or type(path) ~= 'string' then
        error('Usage: parser.open(log_filename)')
    end
    local number = wait(python.xlog_open(path))
    -- If a loop is left early, the file is closed when the state of the loop is collected.
    local guard = ffi.gc(ffi.new('char[1]'), function() python.xlog_close(number) end)
    return fun.wrap(step, {number = number, guard = guard, rows = {}, position = 0}, 0)
end

return {pairs = pairs_of}
