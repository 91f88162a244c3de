-- box.schema.space: DDL of spaces, written as DML on system spaces.

local box_error = require('box.error')
local catalog = require('box.schema.catalog')
local check = require('box.check')
local constraints = require('box.schema.constraints')
local format_definition = require('box.schema.format').definition
local session = require('box.session')

local M = {}

local GROUP_LOCAL = 1
-- Numbers of fields in a _space tuple.
local OWNER, NAME, FIELD_COUNT, FLAGS, FORMAT = 2, 3, 5, 6, 7

local function no_such_space(id, name)
    box_error(box_error.NO_SUCH_SPACE, name or '#' .. tostring(id))
end

local function owner_id(user)
    return catalog.user_or_role(user) or box_error(box_error.NO_SUCH_USER, user)
end

-- ---- creation --------------------------------------------------------------------------------

local CREATE_OPTIONS = {
    if_not_exists = 'boolean', engine = 'string', id = 'number', field_count = 'number',
    user = 'string, number', format = 'table', is_local = 'boolean', temporary = 'boolean', is_sync = 'boolean',
    constraint = 'string, table', foreign_key = 'table',
}

-- Takes the next id of a space. _schema keeps the last one taken, so that the id of a dropped space is not used again.
-- Since 3.0 it does not.
local function next_id()
    local stored = box.space._schema:update({'max_id'}, {{'+', 2, 1}})
    if stored == nil then
        local greatest = box.space._space.index.primary:max()[1]
        local id = 1 + math.max(greatest, box.schema.SYSTEM_ID_MAX)
        local version = box.space._schema:get('version')
        if version ~= nil and version[2] >= 3 then
            return id
        end
        stored = box.space._schema:insert{'max_id', id}
    end
    return stored[2]
end

-- Returns the flags to store; a flag that is off is not stored.
local function flags_of(options, holder)
    local flags = setmetatable({
        group_id = options.is_local and GROUP_LOCAL or nil,
        temporary = options.temporary or nil,
        is_sync = options.is_sync,
    }, {__serialize = 'map'})
    -- Even a member that is nil would change the order in which the flags are stored.
    if options.constraint ~= nil then
        flags.constraint = constraints.constraint(options.constraint, '')
    end
    if options.foreign_key ~= nil then
        flags.foreign_key = constraints.foreign_key(options.foreign_key, '', holder, true)
    end
    return flags
end

local function add(name, options)
    -- As in Tarantool, the id is taken first, so that a failure leaves a gap in the ids.
    local id = options.id or next_id()
    local owner = options.user and owner_id(options.user) or session.euid()
    local format = options.format or {}
    check.param(format, 'format', 'table')
    local holder = {id = id, name = name}
    format = format_definition(format, holder)
    box.space._space:insert{
        id, owner, name, options.engine or 'memtx', options.field_count or 0, flags_of(options, holder), format,
    }
    return box.space[id], 'created'
end

function M.create(name, options)
    check.param(name, 'name', 'string')
    check.options(options, CREATE_OPTIONS)
    options = check.given(options)
    local space = box.space[name]
    if space == nil then
        return add(name, options)
    elseif options.if_not_exists then
        return space, 'not created'
    end
    box_error(box_error.SPACE_EXISTS, name)
end

-- ---- changes ---------------------------------------------------------------------------------

-- Looks up the name of a space that only has an id, when a foreign key of its format needs it: Tarantool 2.8.1 does not
-- read the space, and the read would count as SELECT. The name is nil for who may not see the space; its update is
-- denied then.
local function name_of(holder, member)
    local space = member == 'name' and box.space._vspace:get(holder.id)
    return space and space[NAME] or nil
end

-- Returns the format of a space; with a second argument, changes it.
function M.format(id, format)
    check.param(id, 'id', 'number')
    if format ~= nil then
        check.param(format, 'format', 'table')
        format = format_definition(format, setmetatable({id = id}, {__index = name_of}))
        box.space._space:update(id, {{'=', FORMAT, format}})
        return
    end
    local tuple = box.space._vspace:get(id)
    return tuple ~= nil and constraints.shown(tuple[FORMAT]) or no_such_space(id)
end

function M.rename(space_id, space_name)
    check.param(space_id, 'space_id', 'number')
    check.param(space_name, 'space_name', 'string')
    box.space._space:update(space_id, {{'=', NAME, space_name}})
end

-- Options of alter(): the field of _space that each replaces, and the function that makes the field from the option.
local ALTERED_FIELDS = {
    user = {OWNER, owner_id}, name = {NAME}, field_count = {FIELD_COUNT}, format = {FORMAT, format_definition},
}
local ALTERED_FLAGS = {'temporary', 'is_sync'}
local ALTER_OPTIONS = {
    field_count = 'number', user = 'string, number', format = 'table', temporary = 'boolean', is_sync = 'boolean',
    name = 'string', constraint = 'string, table', foreign_key = 'table',
}

-- An empty table removes what is there.
local function altered(given)
    if type(given) == 'table' and next(given) == nil then
        return nil
    end
    return given
end

function M.alter(space_id, options)
    local space = box.space[space_id] or no_such_space(space_id)
    check.options(options, ALTER_OPTIONS)
    local row = box.space._space:get{space.id}:totable()
    for _, name in ipairs(ALTERED_FLAGS) do
        if options[name] ~= nil then
            row[FLAGS][name] = options[name]
        end
    end
    local holder = {id = space.id, name = options.name or space.name}
    for name, field in pairs(ALTERED_FIELDS) do
        local position, stored = field[1], field[2]
        if options[name] ~= nil then
            row[position] = stored == nil and options[name] or stored(options[name], holder)
        end
    end
    if options.constraint ~= nil then
        row[FLAGS].constraint = constraints.constraint(altered(options.constraint), '')
    end
    if options.foreign_key ~= nil then
        row[FLAGS].foreign_key = constraints.foreign_key(altered(options.foreign_key), '', holder, true)
    end
    box.space._space:replace(row)
end

-- ---- removal ---------------------------------------------------------------------------------

-- The rows that belong to a space, in the order of their removal: the system space, the view and the index where they
-- are found, and the number of fields in their keys. The primary index is removed after the others.
local DEPENDENTS = {
    {'_trigger', '_trigger', 'space_id', 1},
    {'_fk_constraint', '_fk_constraint', 'child_id', 2},
    {'_ck_constraint', '_ck_constraint', 'primary', 2},
    {'_func_index', '_func_index', 'primary', 2},
    {'_index', '_vindex', 'primary', 2},
}

local function drop_dependents(space_id)
    for _, dependent in ipairs(DEPENDENTS) do
        local holder, view, index, key_size = unpack(dependent)
        local found = box.space[view].index[index]:select{space_id}
        for i = #found, 1, -1 do
            box.space[holder]:delete{found[i]:unpack(1, key_size)}
        end
    end
end

function M.drop(space_id, space_name, options)
    check.param(space_id, 'space_id', 'number')
    check.options(options, {if_exists = 'boolean'})
    catalog.drop_sequence_of(space_id)
    drop_dependents(space_id)
    catalog.revoke_object_privileges('space', space_id)
    box.space._truncate:delete{space_id}
    local dropped = box.space._space:delete{space_id}
    if dropped == nil and not (options ~= nil and options.if_exists) then
        no_such_space(space_id, space_name)
    end
end

return M
