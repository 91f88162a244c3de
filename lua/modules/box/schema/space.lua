-- box.schema.space: DDL of spaces, written as DML on system spaces.

local box_error = require('box.error')
local check = require('box.check')
local catalog = require('box.schema.catalog')
local session = require('box.session')

local M = {}

local CREATE_OPTIONS = {
    if_not_exists = 'boolean', engine = 'string', id = 'number', field_count = 'number',
    user = 'string, number', format = 'table', is_local = 'boolean', temporary = 'boolean', is_sync = 'boolean',
}
local CREATE_DEFAULTS = {engine = 'memtx', field_count = 0, temporary = false}

local ALTER_OPTIONS = {
    field_count = 'number', user = 'string, number', format = 'table', temporary = 'boolean',
    is_sync = 'boolean', name = 'string',
}

-- What a position of a field's definition stands for: {'a', 'unsigned'}, {'a', type = 'unsigned'},
-- {name = 'a', 'unsigned'}. Positions that stand for nothing stay: the server refuses them.
local function meaning_of(given, key)
    if key == 1 then
        return given.name == nil and 'name' or given.type == nil and 'type' or key
    elseif key == 2 and given.name == nil and given.type == nil then
        return 'type'
    end
    return key
end

local function field_definition(given, where)
    if type(given) ~= 'table' then
        given = {given}
    end
    local field = {}
    for key, value in pairs(given) do
        field[meaning_of(given, key)] = value
    end
    if type(field.name) ~= 'string' then
        check.illegal(where .. ': name (string) is expected')
    elseif field.type == nil then
        field.type = 'any'
    elseif type(field.type) ~= 'string' then
        check.illegal(where .. ': type must be a string')
    end
    if given.collation ~= nil then
        field.collation = catalog.collation(given.collation)
        if field.collation == nil then
            check.illegal(where .. ": collation was not found by name '" .. given.collation .. "'")
        end
    end
    return field
end

local function format_definition(format)
    local result = {}
    for i, given in ipairs(format) do
        result[i] = field_definition(given, 'format[' .. i .. ']')
    end
    return result
end

local function owner_id(user)
    local uid = catalog.user_or_role(user)
    if uid == nil then
        box_error(box_error.NO_SUCH_USER, user)
    end
    return uid
end

-- The next free id is kept in _schema, so that the id of a dropped space is not used again.
local function next_id()
    local _schema = box.space._schema
    local max_id = _schema:update({'max_id'}, {{'+', 2, 1}})
    if max_id == nil then
        local id = math.max(box.space._space.index.primary:max()[1], box.schema.SYSTEM_ID_MAX)
        max_id = _schema:insert{'max_id', id + 1}
    end
    return max_id[2]
end

function M.create(name, options)
    check.param(name, 'name', 'string')
    check.options(options, CREATE_OPTIONS)
    options = check.with_defaults(options, CREATE_DEFAULTS)
    if box.space[name] ~= nil then
        if options.if_not_exists then
            return box.space[name], 'not created'
        end
        box_error(box_error.SPACE_EXISTS, name)
    end
    local id = options.id or next_id()
    local owner = options.user and owner_id(options.user) or session.euid()
    local format = options.format or {}
    check.param(format, 'format', 'table')
    local flags = setmetatable({
        group_id = options.is_local and 1 or nil,
        temporary = options.temporary and true or nil,
        is_sync = options.is_sync,
    }, {__serialize = 'map'})
    box.space._space:insert{
        id, owner, name, options.engine, options.field_count, flags, format_definition(format),
    }
    return box.space[id], 'created'
end

function M.format(id, format)
    check.param(id, 'id', 'number')
    if format == nil then
        local tuple = box.space._vspace:get(id)
        if tuple == nil then
            box_error(box_error.NO_SUCH_SPACE, '#' .. tostring(id))
        end
        return tuple[7]
    end
    check.param(format, 'format', 'table')
    box.space._space:update(id, {{'=', 7, format_definition(format)}})
end

local function drop_constraints(space_id)
    local _trigger, _fk = box.space._trigger, box.space._fk_constraint
    local _ck, _func_index = box.space._ck_constraint, box.space._func_index
    for _, t in ipairs(_trigger.index.space_id:select{space_id}) do
        _trigger:delete{t[1]}
    end
    for _, t in ipairs(_fk.index.child_id:select{space_id}) do
        _fk:delete{t[1], space_id}
    end
    for _, t in ipairs(_ck:select{space_id}) do
        _ck:delete{space_id, t[2]}
    end
    for _, t in ipairs(_func_index:select{space_id}) do
        _func_index:delete{space_id, t[2]}
    end
end

local function drop_indexes(space_id)
    local _index = box.space._index
    local found = box.space._vindex:select(space_id)
    for i = #found, 1, -1 do
        _index:delete{found[i][1], found[i][2]}
    end
end

function M.drop(space_id, space_name, opts)
    check.param(space_id, 'space_id', 'number')
    opts = opts or {}
    check.options(opts, {if_exists = 'boolean'})
    catalog.drop_sequence_of(space_id)
    drop_constraints(space_id)
    drop_indexes(space_id)
    catalog.revoke_object_privileges('space', space_id)
    box.space._truncate:delete{space_id}
    if box.space._space:delete{space_id} == nil and not opts.if_exists then
        box_error(box_error.NO_SUCH_SPACE, space_name or '#' .. tostring(space_id))
    end
end

function M.rename(space_id, space_name)
    check.param(space_id, 'space_id', 'number')
    check.param(space_name, 'space_name', 'string')
    box.space._space:update(space_id, {{'=', 3, space_name}})
end

function M.alter(space_id, options)
    local space = box.space[space_id]
    if not space then
        box_error(box_error.NO_SUCH_SPACE, '#' .. tostring(space_id))
    end
    check.options(options, ALTER_OPTIONS)
    local definition = box.space._space:get{space.id}:totable()
    local flags = definition[6]
    if options.user then
        definition[2] = owner_id(options.user)
    end
    if options.temporary ~= nil then
        flags.temporary = options.temporary
    end
    if options.is_sync ~= nil then
        flags.is_sync = options.is_sync
    end
    definition[3] = options.name or definition[3]
    definition[5] = options.field_count or definition[5]
    if options.format ~= nil then
        definition[7] = format_definition(options.format)
    end
    box.space._space:replace(definition)
end

return M
