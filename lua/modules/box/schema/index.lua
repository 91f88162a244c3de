-- box.schema.index: DDL of indexes, written as DML on _index, _func_index and _space_sequence.

local box_error = require('box.error')
local attached_sequence = require('box.schema.attached_sequence')
local catalog = require('box.schema.catalog')
local check = require('box.check')
local parts_of = require('box.schema.parts')

local M = {}

-- The options that are stored in the map of options of _index.
local STORED_OPTIONS = {
    unique = 'boolean', dimension = 'number', distance = 'string', run_count_per_level = 'number',
    run_size_ratio = 'number', range_size = 'number', page_size = 'number', bloom_fpr = 'number',
    func = 'number, string', hint = 'boolean',
}
local ALTER_OPTIONS = check.with_defaults(STORED_OPTIONS, {
    id = 'number', name = 'string', type = 'string', parts = 'table', sequence = 'boolean, number, string, table',
})
local CREATE_OPTIONS = check.with_defaults(ALTER_OPTIONS, {if_not_exists = 'boolean'})

local DEFAULTS_BY_TYPE = {
    rtree = {parts = {2, 'array'}, unique = false},
    bitset = {parts = {2, 'unsigned'}, unique = false},
}
local DEFAULTS = {parts = {1, 'unsigned'}, unique = true}

local VINYL_OPTIONS = {'page_size', 'range_size', 'run_count_per_level', 'run_size_ratio', 'bloom_fpr'}

local function space_or_raise(space_id)
    local space = box.space[space_id]
    if space == nil then
        box_error(box_error.NO_SUCH_SPACE, '#' .. tostring(space_id))
    end
    return space
end

local function complete_options(space, format, options)
    options = check.with_defaults(options, {type = 'tree'})
    local defaults = DEFAULTS_BY_TYPE[options.type] or DEFAULTS
    if not options.parts then
        local fieldno = defaults.parts[1]
        local field = format[fieldno]
        if field ~= nil and field.type ~= 'any' then
            options.parts = {{fieldno, field.type}}
        end
    end
    options = check.with_defaults(options, defaults)
    if space.engine == 'vinyl' then
        for _, name in ipairs(VINYL_OPTIONS) do
            if options[name] == nil then
                options[name] = box.cfg['vinyl_' .. name]
            end
        end
    end
    return options
end

local function check_hint(space, index_name, options)
    if not options.hint then
        return
    end
    local reason
    if options.type ~= 'tree' or space.engine ~= 'memtx' then
        reason = 'hint is only reasonable with memtx tree index'
    elseif options.func then
        reason = "functional index can't use hints"
    end
    if reason ~= nil then
        box_error(box_error.MODIFY_INDEX, index_name, space.name, reason)
    end
end

local function check_multikey_hint(space, index_name, options, parts)
    if options.hint and parts_of.is_multikey(parts) then
        box_error(box_error.MODIFY_INDEX, index_name, space.name, "multikey index can't use hints")
    end
end

local function resolve_func(stored)
    if type(stored.func) == 'string' then
        local tuple = box.space._func.index.name:get(stored.func)
        if tuple == nil then
            box_error(box_error.NO_SUCH_FUNCTION, stored.func)
        end
        stored.func = tuple[1]
    end
end

local function next_index_id(space_id)
    local last = box.space._vindex.index[0]:select(space_id, {limit = 1, iterator = 'LE'})[1]
    return last ~= nil and last[1] == space_id and last[2] + 1 or 0
end

local function stored_options(options)
    local stored = {}
    for name in pairs(STORED_OPTIONS) do
        stored[name] = options[name]
    end
    return setmetatable(stored, {__serialize = 'map'})
end

function M.create(space_id, name, options)
    check.param(space_id, 'space_id', 'number')
    check.param(name, 'name', 'string')
    check.options(options, CREATE_OPTIONS)
    local space = space_or_raise(space_id)
    local format = space:format()
    options = complete_options(space, format, options)
    check_hint(space, name, options)
    if box.space._vindex.index.name:get{space_id, name} ~= nil then
        if options.if_not_exists then
            return space.index[name], 'not created'
        end
        box_error(box_error.INDEX_EXISTS, name)
    end
    local index_id = options.id or next_index_id(space_id)
    local parts, is_simple = parts_of.normalize(format, options.parts)
    local stored = stored_options(options)
    parts_of.resolve_type_aliases(parts)
    check_multikey_hint(space, name, options, parts)
    if is_simple then
        parts = parts_of.simplify(parts)
    end
    resolve_func(stored)
    local sequence = attached_sequence.prepare(format, parts, options, space, index_id, name)
    box.space._index:insert{space_id, index_id, name, options.type, stored, parts}
    attached_sequence.finish(sequence)
    if stored.func ~= nil then
        box.space._func_index:insert{space_id, index_id, stored.func}
    end
    return space.index[name]
end

function M.drop(space_id, index_id)
    check.param(space_id, 'space_id', 'number')
    check.param(index_id, 'index_id', 'number')
    if index_id == 0 then
        catalog.drop_sequence_of(space_id)
    end
    local _func_index = box.space._func_index
    for _, t in ipairs(_func_index:select{space_id, index_id}) do
        _func_index:delete{t[1], t[2]}
    end
    box.space._index:delete{space_id, index_id}
end

function M.rename(space_id, index_id, name)
    check.param(space_id, 'space_id', 'number')
    check.param(index_id, 'index_id', 'number')
    check.param(name, 'name', 'string')
    box.space._index:update({space_id, index_id}, {{'=', 3, name}})
end

-- Changes the id of an index. This moves the row, so only the name and the type may change with it.
local function alter_id(space_id, index_id, options)
    local others = ''
    for name in pairs(options) do
        if name ~= 'id' and name ~= 'name' and name ~= 'type' then
            others = others .. ' ' .. name
        end
    end
    if others ~= '' then
        box_error(box_error.PROC_LUA, "Don't know how to update both id and" .. others)
    end
    local ops = {{'=', 2, options.id}}
    if options.name then
        ops[#ops + 1] = {'=', 3, options.name}
    end
    if options.type then
        ops[#ops + 1] = {'=', 4, options.type}
    end
    box.space._index:update({space_id, index_id}, ops)
end

local function alter_definition(space, index_id, options)
    local format = space:format()
    local row = box.space._index:get{space.id, index_id}
    local stored, parts = row[5], row[6]
    local name, index_type = options.name or row[3], options.type or row[4]
    for option in pairs(STORED_OPTIONS) do
        if options[option] ~= nil then
            stored[option] = options[option]
        end
    end
    local old_name = space.index[index_id].name
    check_hint(space, old_name, {hint = options.hint, type = index_type, func = options.func})
    if options.parts then
        local is_simple
        parts, is_simple = parts_of.normalize(format, options.parts)
        if is_simple then
            parts = parts_of.simplify(parts)
        end
    end
    check_multikey_hint(space, old_name, options, parts)
    resolve_func(stored)
    local sequence = attached_sequence.prepare(format, parts, options, space, index_id, name)
    box.space._index:replace{space.id, index_id, name, index_type, stored, parts}
    if stored.func ~= nil then
        box.space._func_index:insert{space.id, index_id, stored.func}
    end
    attached_sequence.finish(sequence)
end

function M.alter(space_id, index_id, options)
    local space = space_or_raise(space_id)
    local index = space.index[index_id]
    if index == nil then
        box_error(box_error.NO_SUCH_INDEX_ID, index_id, space.name)
    end
    if options == nil then
        return
    end
    check.options(options, ALTER_OPTIONS)
    if options.id ~= nil then
        alter_id(space.id, index.id, options)
    else
        alter_definition(space, index.id, options)
    end
end

return M
