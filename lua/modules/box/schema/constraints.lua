-- Constraints and foreign keys of formats, which Tarantool has from 2.10 on: converts what users write to the form in
-- _space, and back.
--
--     constraint = 'func' | {'func', name = 'func'}               ->  {name = id of the function}
--     foreign_key = {space = .., field = ..} | {name = {..}}      ->  {name = {space = id, field = ..}}
--
-- `field` is a field there or, for a foreign key of the whole tuple, a table {own field = field there}. Users count
-- fields from 1, _space from 0.

local check = require('box.check')

local M = {}

local MAP = {__serialize = 'map'}

-- ---- constraints -----------------------------------------------------------------------------

local function function_id(name, where)
    local found = box.space._vfunc.index.name:get(name)
    if found == nil then
        check.illegal(("%sconstraint function was not found by name '%s'"):format(where, name))
    end
    return found[1]
end

-- Returns the stored form. Raises ILLEGAL_PARAMS with a text that begins with `where`.
function M.constraint(given, where)
    if given == nil or given == false then
        return nil
    elseif type(given) == 'string' then
        given = {given}
    elseif type(given) ~= 'table' then
        check.illegal(where .. 'constraint must be string or table')
    end
    local stored = setmetatable({}, MAP)
    for key, name in pairs(given) do
        if type(name) ~= 'string' then
            check.illegal(where .. 'constraint function is expected to be a string, but got ' .. type(name))
        end
        local id = function_id(name, where)
        if type(key) ~= 'number' and type(key) ~= 'string' then
            check.illegal(where .. 'constraint name is expected to be a string, but got ' .. type(key))
        end
        stored[type(key) == 'number' and name or key] = id
    end
    return stored
end

-- ---- foreign keys ----------------------------------------------------------------------------

local function is_name(value)
    return type(value) == 'string' or type(value) == 'number'
end

local function moved(field, by)
    return type(field) == 'number' and field + by or field
end

-- Returns the stored form of a table {own field = field there}.
local function mapping(fields, refuse)
    local expected = 'field must be a table with local field -> foreign field mapping'
    if type(fields) ~= 'table' then
        refuse(expected)
    end
    local stored = setmetatable({}, MAP)
    for own, there in pairs(fields) do
        if not is_name(own) then
            refuse('local field must be string or number')
        elseif not is_name(there) then
            refuse('foreign field must be string or number')
        end
        stored[moved(own, -1)] = moved(there, -1)
    end
    return next(stored) ~= nil and stored or refuse(expected)
end

-- `holder` is the space of the format: its id and name.
local function is_itself(space, holder)
    return space == nil or space == holder.id or space == holder.name
end

local function stored_key(given, where, holder, is_whole)
    local function refuse(text)
        check.illegal(where .. 'foreign key: ' .. text)
    end
    local space, field = given.space, given.field
    if field == nil then
        refuse('field must be specified')
    elseif space ~= nil and not is_name(space) then
        refuse('space must be string or number')
    end
    if is_whole then
        field = mapping(field, refuse)
    elseif is_name(field) then
        field = moved(field, -1)
    else
        refuse('field must be string or number')
    end
    local itself = is_itself(space, holder)
    if not itself and box.space[space] == nil then
        refuse(('space %s was not found'):format(tostring(space)))
    end
    for key in pairs(given) do
        if key ~= 'space' and key ~= 'field' then
            refuse(("unexpected parameter '%s'"):format(tostring(key)))
        end
    end
    return {space = not itself and box.space[space].id or nil, field = field}
end

-- A table with the members of a key is one key without a name, unless the members are keys themselves.
local function is_single(given)
    return given.field ~= nil and not (type(given.space) == 'table' and type(given.field) == 'table')
end

-- Returns the stored form; `is_whole` for the foreign keys of the whole tuple. Raises ILLEGAL_PARAMS with a text that
-- begins with `where`.
function M.foreign_key(given, where, holder, is_whole)
    if given == nil then
        return nil
    elseif type(given) ~= 'table' then
        check.illegal(where .. 'foreign key must be a table')
    end
    local stored = setmetatable({}, MAP)
    if is_single(given) then
        local key = stored_key(given, where, holder, is_whole)
        stored[key.space == nil and holder.name or box.space[key.space].name] = key
        return stored
    end
    for name, definition in pairs(given) do
        if type(name) ~= 'string' then
            check.illegal(where .. 'foreign key name must be a string')
        elseif type(definition) ~= 'table' then
            check.illegal(where .. "foreign key definition must be a table with 'space' and 'field' members")
        end
        stored[name] = stored_key(definition, where, holder, is_whole)
    end
    return stored
end

-- Changes a stored format to the form that users see: the fields of foreign keys count from 1.
function M.shown(format)
    for _, field in ipairs(format) do
        for _, key in pairs(type(field.foreign_key) == 'table' and field.foreign_key or {}) do
            if type(key) == 'table' then
                key.field = moved(key.field, 1)
            end
        end
    end
    return format
end

return M
