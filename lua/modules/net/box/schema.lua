-- The spaces and indexes of the server of a connection: conn.space.name:select() and the like.
local box_error = require('box.error')
local arguments = require('internal.arguments')
local iterator_type = require('box.iterator_type')
local msgpack = require('internal.msgpack')
local tuples = require('internal.tuple')
local usage = require('box.usage')

local error, ipairs, setmetatable, tonumber, type = error, ipairs, setmetatable, tonumber, type

local NO_LIMIT = 0xFFFFFFFF
-- Formats of remote spaces have numbers that no local space has. Spaces with equal field names share one.
local FIRST_FORMAT = 0x80000000
local format_count, format_of_names = 0, {}

local M = {}

local function given(value)
    if value ~= nil then
        return value
    end
end

-- Returns the number of a format with these field names.
local function format_id(format)
    local names, key = {}, {}
    for i, field in ipairs(format) do
        local name = field.name
        if name ~= nil then
            names[name] = i
        end
        key[i] = ('%d:%s'):format(name and #name or 0, name or '')
    end
    if #key == 0 then
        return 0
    end
    key = table.concat(key)
    if format_of_names[key] == nil then
        format_of_names[key] = FIRST_FORMAT + format_count
        format_count = format_count + 1
        tuples.set_format(format_of_names[key], names)
    end
    return format_of_names[key]
end

function M.space_metatable(remote)
    local methods = {}

    function methods.insert(space, tuple, options)
        usage.space(space, 'insert')
        return remote:_request('insert', options, space._format_id, space.id, tuple)
    end

    function methods.replace(space, tuple, options)
        usage.space(space, 'replace')
        return remote:_request('replace', options, space._format_id, space.id, tuple)
    end

    function methods.upsert(space, tuple, ops, options)
        usage.space(space, 'upsert')
        return given(remote:_request('upsert', options, nil, space.id, tuple, ops))
    end

    for _, name in ipairs({'select', 'delete', 'update', 'get'}) do
        methods[name] = function(space, ...)
            usage.space(space, name)
            local index = usage.primary_index(space)
            return index[name](index, ...)
        end
    end

    function methods.format(space, format)
        if format == nil then
            return space._format
        end
        box_error(box_error.UNSUPPORTED, 'net.box', 'setting space format')
    end

    return {__index = methods, __metatable = false}
end

local function is_empty(key)
    return key == nil or (type(key) == 'table' and #key == 0)
end

local function refuse_buffer(opts, name)
    if opts and opts.buffer then
        error(("index:%s() doesn't support `buffer` argument"):format(name))
    end
end

local function wrong_option(name, kind)
    box_error(box_error.ILLEGAL_PARAMS, ("options parameter '%s' should be of type %s"):format(name, kind))
end

local function check_page_options(after, fetches)
    if after ~= nil and type(after) ~= 'string' and type(after) ~= 'table' and not tuples.is(after) then
        wrong_option('after', 'string, table, tuple')
    elseif fetches ~= nil and type(fetches) ~= 'boolean' then
        wrong_option('fetch_pos', 'boolean')
    end
end

function M.index_metatable(remote)
    local methods = {}

    local function read(method, index, options, iterator, offset, limit, key)
        local space = index.space
        return remote:_request(method, options, space._format_id, space.id, index.id, iterator, offset, limit, key)
    end

    local function select_page(index, options, iterator, offset, limit, key, after, fetches)
        check_page_options(after, fetches)
        local _, features = remote:_protocol()
        if features and not features.pagination then
            box_error(box_error.UNSUPPORTED, 'Remote server', 'pagination')
        end
        local space = index.space
        local method = fetches and 'select_page' or 'select_after'
        local found = remote:_request(method, options, space._format_id, space.id, index.id, iterator, offset, limit,
            key, after, fetches)
        if fetches and not options.is_async then
            return found[1], found[2]
        end
        return found
    end

    function methods.select(index, key, options)
        usage.index(index, 'select')
        local iterator = iterator_type.resolve(options, is_empty(key))
        local offset = arguments.uint32(tonumber(options and options.offset) or 0)
        local limit = arguments.uint32(tonumber(options and options.limit) or NO_LIMIT)
        local after, fetches
        if options then
            after, fetches = options.after, options.fetch_pos
        end
        if after ~= nil or fetches ~= nil then
            return select_page(index, options, iterator, offset, limit, key, after, fetches)
        end
        return (read('select', index, options, iterator, offset, limit, key))
    end

    local function one(name, iterator, limit)
        methods[name] = function(index, key, options)
            usage.index(index, name)
            refuse_buffer(options, name)
            return given(read(name, index, options, iterator, 0, limit, key))
        end
    end

    one('get', iterator_type.types.EQ, 2)
    one('min', iterator_type.types.GE, 1)
    one('max', iterator_type.types.LE, 1)

    function methods.count(index, key, options)
        usage.index(index, 'count')
        refuse_buffer(options, 'count')
        local name = ('box.space.%s.index.%s:count'):format(index.space.name, index.name)
        return remote:_request('count', options, nil, name, {key, options})
    end

    function methods.delete(index, key, options)
        usage.index(index, 'delete')
        local space = index.space
        return given(remote:_request('delete', options, space._format_id, space.id, index.id, key))
    end

    function methods.update(index, key, ops, options)
        usage.index(index, 'update')
        local space = index.space
        return given(remote:_request('update', options, space._format_id, space.id, index.id, key, ops))
    end

    return {__index = methods, __metatable = false}
end

-- ---- from the rows of the system views -------------------------------------------------------

local function fill_space(space, row, remote)
    local options = row[6]
    space.id, space.name, space.engine, space.field_count = row[1], row[3], row[4], row[5]
    space.enabled = true
    space.index = {}
    space.temporary = options.temporary == true
    space.is_sync = options.is_sync == true
    space._format = row[7] or {}
    space._format_id = format_id(space._format)
    space.connection = remote
    return space
end

local function part_of(row, collations)
    local collation_id = row.collation
    local part = {
        type = row[2] or row.type,
        fieldno = (row[1] or row.field) + 1,
        is_nullable = row.is_nullable or false,
        exclude_null = row.exclude_null or false,
        path = row.path,
    }
    if collation_id ~= nil and collation_id ~= msgpack.NULL then
        part.collation = collations[collation_id]
    end
    return part
end

local function index_of(row, collations)
    local parts = {}
    for i, part in ipairs(row[6]) do
        parts[i] = part_of(part, collations)
    end
    return {id = row[2], name = row[3], type = row[4]:upper(), unique = row[5].unique == true, parts = parts}
end

-- Makes conn.space from rows of _vspace, _vindex and _vcollation. Existing tables are reused: users hold them.
function M.build(remote, spaces, indexes, collations)
    local names, result, old = {}, {}, remote.space or {}
    for _, row in ipairs(collations) do
        names[row[1]] = row[2]
    end
    for _, row in ipairs(spaces) do
        local space = fill_space(old[row[1]] or setmetatable({}, remote._space_mt), row, remote)
        result[space.id], result[space.name] = space, space
    end
    for _, row in ipairs(indexes) do
        local space = result[row[1]]
        if space ~= nil then
            local index = setmetatable(index_of(row, names), remote._index_mt)
            index.space = space
            space.index[index.id], space.index[index.name] = index, index
        end
    end
    return result
end

return M
