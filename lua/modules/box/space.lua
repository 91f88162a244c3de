-- Methods of space objects, and the table box.space.

local arguments = require('internal.arguments')
local ffi = require('ffi')
local box_error = require('box.error')
local changes = require('box.changes')
local direct = require('box.direct')
local finish = require('box.finish')
local index_module = require('box.index')
local located = require('internal.caller').located
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local triggers = require('box.space_triggers')
local tuples = require('internal.tuple')
local usage = require('box.usage')

local tuple_new, new_salted, is_tuple = tuples.new, tuples.new_salted, tuples.is
local get = index_module.methods.get
local by_number, by_space, fetch, may_read_directly = direct.by_number, direct.by_space, direct.fetch, direct.is_allowed
-- Up to 2^53 every whole number is exactly a double.
local EXACT_LIMIT = 2^53
local changed_tuple, encode_operations = index_module.changed_tuple, index_module.encode_operations
local plain_operation = index_module.plain_operation
local space_insert, space_replace = python.space_insert, python.space_replace
local space_upsert_one = python.space_upsert_one
local check_space, primary_index = usage.space, usage.primary_index
local type = type

local methods = {}

-- Reports a dropped space by its name. The frequent methods skip this check.
local function check_exists(space)
    if box.space[space.id] == nil then
        box_error(box_error.NO_SUCH_SPACE, space.name)
    end
end

local encode_salted, salted_raw = msgpack.encode_salted, tuples.salted_raw

-- Encodes a tuple. A map is encoded as such, and Python refuses it.
local function encode_tuple(tuple)
    if type(tuple) == 'table' then
        return encode_salted(tuple)
    elseif is_tuple(tuple) then
        return salted_raw(tuple)
    end
    local kind = type(tuple)
    if kind == 'userdata' and require('internal.msgpack_object').is_array(tuple) then
        return encode_salted(tuple)
    end
    local is_unknown = kind == 'cdata' and not pcall(msgpack.encode_value, tuple)
    if is_unknown or kind == 'function' or kind == 'userdata' or kind == 'thread' then
        error(located("unsupported Lua type '" .. kind .. "'"), 0)
    end
    box_error(box_error.TUPLE_NOT_ARRAY)
end

-- Inserts a tuple. Python returns nil if the stored tuple is the one that was sent, whose bytes are here already.
function methods.insert(space, tuple)
    check_space(space, 'insert')
    local raw = encode_tuple(tuple)
    changes.count = changes.count + 1
    local result, problem = space_insert(space.id, raw)
    if result == nil then
        return new_salted(raw, space.id)
    end
    return changed_tuple(space.id, result, problem, raw)
end

function methods.replace(space, tuple)
    check_space(space, 'replace')
    local raw = encode_tuple(tuple)
    changes.count = changes.count + 1
    local result, problem = space_replace(space.id, raw)
    if result == nil then
        return new_salted(raw, space.id)
    end
    return changed_tuple(space.id, result, problem, raw)
end

methods.put = methods.replace

function methods.update(space, key, ops)
    check_space(space, 'update')
    return primary_index(space):update(key, ops)
end

local function is_list(value)
    return type(value) == 'table' or is_tuple(value)
end

function methods.upsert(space, tuple, ops, deprecated)
    check_space(space, 'upsert')
    if deprecated ~= nil then
        box_error(box_error.PROC_LUA, 'Error: extra argument in upsert call: ' .. tostring(deprecated) ..
                  '. Usage :upsert(tuple, operations)')
    end
    if not is_list(tuple) or not is_list(ops) then
        error('Usage space:upsert(tuple_key, ops)', 2)
    end
    changes.count = changes.count + 1
    local code, field, argument = plain_operation(ops)
    if code then
        return changed_tuple(space.id, space_upsert_one(space.id, encode_tuple(tuple), code, field, argument))
    end
    -- The reply is a tuple only if a before_replace trigger has returned it.
    return changed_tuple(space.id, python.space_upsert(space.id, encode_tuple(tuple), encode_operations(ops)))
end

function methods.delete(space, key)
    check_space(space, 'delete')
    return primary_index(space):delete(key)
end

function methods.get(space, key)
    local way = by_space[space]
    if way and type(key) == 'number' and key >= 0 and key < EXACT_LIMIT and key % 1 == 0 and may_read_directly() then
        direct.reads = direct.reads + 1
        return fetch(way, key)
    end
    check_space(space, 'get')
    local index = space.index[0] or primary_index(space)
    by_space[space] = by_number[index] or nil
    return get(index, key)
end

function methods.select(space, key, options)
    check_space(space, 'select')
    return primary_index(space):select(key, options)
end

function methods.pairs(space, key, options)
    check_space(space, 'pairs')
    local index = space.index[0]
    if index == nil then
        return require('fun').iter({})
    end
    return index:pairs(key, options)
end

function methods.len(space)
    check_space(space, 'len')
    local index = space.index[0]
    return index == nil and 0 or index:len()
end

function methods.count(space, key, options)
    check_space(space, 'count')
    local index = space.index[0]
    return index == nil and 0 or index:count(key, options)
end

function methods.bsize(space)
    check_space(space, 'bsize')
    check_exists(space)
    -- Returns the size as a 64-bit integer, because it is a size_t in Tarantool.
    return finish.plain(python.space_bsize(space.id)) + 0ULL
end

-- Inserts the tuple under the largest number in the primary key, plus one.
function methods.auto_increment(space, tuple)
    check_space(space, 'auto_increment')
    local last = primary_index(space):max()
    table.insert(tuple, 1, (last ~= nil and last[1] or 0) + 1)
    return space:insert(tuple)
end

function methods.frommap(...)
    local space, map, options = ...
    local argument_count = select('#', ...)
    local has_bad_options = argument_count == 3 and
        (type(options) ~= 'table' or options.table ~= nil and type(options.table) ~= 'boolean')
    if argument_count > 3 or type(space) ~= 'table' or type(map) ~= 'table' or has_bad_options then
        error('Usage: space:frommap(map, opts)', 2)
    end
    local id = arguments.number(space.id) or 0
    if box.space[id] == nil then
        return nil, string.format("Space with id '%d' doesn't exist", id)
    end
    local numbers = tuples.format(id)
    local fields = {}
    for name, value in pairs(map) do
        local number = numbers[name]
        if number == nil then
            return nil, string.format("Unknown field '%s'", tostring(name))
        end
        fields[number] = value
    end
    local whole = {}
    for number = 1, table.maxn(fields) do
        whole[number] = fields[number] == nil and msgpack.NULL or fields[number]
    end
    local ok, raw = pcall(msgpack.encode_value, whole)
    if not ok then
        return nil, tostring(raw)
    end
    local result, problem = python.space_validate(id, raw)
    if result == false then
        return nil, tostring(finish.error(problem))
    elseif options ~= nil and options.table then
        return fields
    end
    return tuple_new(raw, id)
end

function methods.truncate(space)
    check_space(space, 'truncate')
    changes.count = changes.count + 1
    finish.nothing(python.space_truncate(space.id))
end

function methods.run_triggers(space, is_enabled)
    check_space(space, 'run_triggers')
    check_exists(space)
    local ok, reason = pcall(ffi.new, 'bool', is_enabled)
    if not ok then
        error("bad argument #2 to 'space_run_triggers' (" .. reason:match("cannot convert '.*") .. ')')
    end
    finish.nothing(python.space_run_triggers(space.id, is_enabled))
end

function methods.format(space, format)
    check_space(space, 'format')
    return box.schema.space.format(space.id, format)
end

function methods.drop(space)
    check_space(space, 'drop')
    check_exists(space)
    return box.schema.space.drop(space.id, space.name)
end

function methods.rename(space, name)
    check_space(space, 'rename')
    check_exists(space)
    return box.schema.space.rename(space.id, name)
end

function methods.alter(space, options)
    check_space(space, 'alter')
    check_exists(space)
    return box.schema.space.alter(space.id, options)
end

function methods.create_index(space, name, options)
    check_space(space, 'create_index')
    check_exists(space)
    return box.schema.index.create(space.id, name, options)
end

function methods.create_check_constraint(space, name, code)
    check_space(space, 'create_constraint')
    if name == nil or code == nil then
        box_error(box_error.PROC_LUA, 'Usage: space:create_constraint(name, code)')
    end
    box.space._ck_constraint:insert{space.id, name, false, 'SQL', code, true}
    return space.ck_constraint[name]
end

for _, name in ipairs({'fselect', 'gselect', 'jselect'}) do
    methods[name] = function(space, key, options, print_options)
        check_space(space, 'select')
        return primary_index(space)[name](primary_index(space), key, options, print_options)
    end
end

methods.__pairs = methods.pairs
methods.__ipairs = methods.pairs
methods.__index = methods

return {methods = methods, on_replace = triggers.on_replace, before_replace = triggers.before_replace}
