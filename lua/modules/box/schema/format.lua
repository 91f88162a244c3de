-- Converts formats of spaces, as users write them, to the form in _space.

local catalog = require('box.schema.catalog')
local check = require('box.check')
local constraints = require('box.schema.constraints')

local M = {}

-- Members that may be given by position instead of by name. The members without a name take the positions from 1 on, so
-- {'a', 'unsigned'}, {'a', type = 'unsigned'} and {name = 'a', 'unsigned'} are equal.
local MEMBERS = {'name', 'type'}

-- Returns the members of a field by name. The dictionary refuses values that are left at positions.
local function named(given)
    local names, result = {}, {}
    for _, member in ipairs(MEMBERS) do
        if given[member] == nil then
            table.insert(names, member)
        end
    end
    for key, value in pairs(given) do
        result[names[key] or key] = value
    end
    return result
end

local function collation_id(name, where)
    return catalog.collation(name)
        or check.illegal(("%s: collation was not found by name '%s'"):format(where, name))
end

-- Raises ILLEGAL_PARAMS for the field that `where` names.
local function field_definition(given, where, holder)
    local field = named(type(given) == 'table' and given or {given})
    if type(field.name) ~= 'string' then
        check.illegal(where .. ': name (string) is expected')
    end
    if field.type == nil then
        field.type = 'any'
    elseif type(field.type) ~= 'string' then
        check.illegal(where .. ': type must be a string')
    end
    if field.collation ~= nil then
        field.collation = collation_id(field.collation, where)
    end
    -- Setting a missing member to nil would grow the table, and so change the order in which its members are stored.
    if field.constraint ~= nil then
        field.constraint = constraints.constraint(field.constraint, where .. ': ')
    end
    if field.foreign_key ~= nil then
        field.foreign_key = constraints.foreign_key(field.foreign_key, where .. ': ', holder, false)
    end
    return field
end

-- Returns the stored form of a format: a list of maps. `holder` has the id and the name of its space. Raises
-- ILLEGAL_PARAMS.
function M.definition(format, holder)
    local result = {}
    for number, given in ipairs(format) do
        result[number] = field_definition(given, ('format[%d]'):format(number), holder)
    end
    return result
end

return M
