-- Converts index parts, in every notation of box.schema.index.create, to the maps in _index.
--
--   {1, 'unsigned', 2, 'string'}      pairs of number and type (1.6.0)
--   {1, 'unsigned'}                   one part
--   {{1, 'unsigned'}, {field = 'name', type = 'string', collation = 'unicode'}, 'name', 3}
--
-- Numbers are one-based, names may be JSON paths; _index is zero-based.

local catalog = require('box.schema.catalog')
local check = require('box.check')

local M = {}

local PAIRS_EXPECTED = 'options.parts: expected field_no (number), type (string) pairs'

local TYPE_ALIASES = {num = 'unsigned', uint = 'unsigned', str = 'string', int = 'integer', ['*'] = 'any'}

local function flat_pairs(parts)
    local result = {}
    if #parts % 2 ~= 0 then
        check.illegal(PAIRS_EXPECTED)
    end
    for i = 1, #parts, 2 do
        local field, field_type = parts[i], parts[i + 1]
        if type(field) ~= 'number' then
            check.illegal(PAIRS_EXPECTED)
        elseif field == 0 then
            check.illegal('invalid index parts: field_no must be one-based')
        elseif type(field_type) ~= 'string' then
            check.illegal(PAIRS_EXPECTED)
        end
        result[#result + 1] = {field = field - 1, type = field_type}
    end
    return result
end

local function number_of(format, name)
    for number, field in pairs(format) do
        if field.name == name then
            return number
        end
    end
end

-- The possible beginnings of a full JSON path. The pattern captures the field, `quotes` is the number of characters
-- around it.
local PATH_HEADS = {
    {pattern = '^%[(%d+)%]', quotes = 2, resolve = function(_, head) return tonumber(head) end},
    {pattern = '^%["([^%]]+)"%]', quotes = 4, resolve = number_of},
    {pattern = "^%['([^%]]+)'%]", quotes = 4, resolve = number_of},
    {pattern = '^([^.[]+)', quotes = 0, resolve = number_of},
}

-- Returns the one-based number and the rest of the path, nil for a plain name.
local function split_path(format, path)
    local number = number_of(format, path)
    if number ~= nil then
        return number
    end
    for _, form in ipairs(PATH_HEADS) do
        local head = path:match(form.pattern)
        number = head and form.resolve(format, head)
        if number ~= nil then
            return number, path:sub(#head + form.quotes + 1)
        end
    end
end

-- Returns the zero-based field number and the relative JSON path of a one-based number, a name or a full JSON path.
function M.resolve_field(format, field, what)
    assert(type(field) == 'number' or type(field) == 'string')
    local number, path = field, nil
    if type(field) == 'string' then
        number, path = split_path(format, field)
        if number == nil then
            check.illegal(what .. ": field was not found by name '" .. field .. "'")
        end
    end
    if number <= 0 then
        check.illegal(what .. ': field (number) must be one-based')
    end
    return number - 1, path
end

local function collation_id(name, what)
    local id = catalog.collation(name) or catalog.collation(name:lower())
    if id == nil then
        check.illegal(what .. ": collation was not found by name '" .. name .. "'")
    end
    return id
end

-- Returns the given options, with positions resolved and the collation by id, and whether only field and type are
-- given.
local function read_part(given, what)
    if type(given) ~= 'table' then
        return {field = given}, true
    end
    local part, is_simple = {}, true
    for key, value in pairs(given) do
        if key == 1 or key == 'field' then
            part.field = value
        elseif key == 2 or key == 'type' then
            part.type = value
        else
            is_simple = false
            if key == 'collation' then
                value = collation_id(value, what)
            elseif key == 'exclude_null' and type(value) ~= 'boolean' then
                check.illegal(what .. ': type (boolean) is expected')
            end
            part[key] = value
        end
    end
    return part, is_simple
end

-- Completes a part from the format of the space. Returns whether that added an option.
local function inherit(part, field, what)
    local has_added = false
    if part.type == nil then
        part.type = field and field.type or 'scalar'
    elseif type(part.type) ~= 'string' then
        check.illegal(what .. ': type (string) is expected')
    end
    if part.is_nullable == nil then
        if field and field.is_nullable then
            part.is_nullable, has_added = true, true
        end
    elseif type(part.is_nullable) ~= 'boolean' then
        check.illegal(what .. ': type (boolean) is expected')
    end
    if part.exclude_null and not part.is_nullable then
        if part.is_nullable ~= nil then
            check.illegal(what .. ': exclude_null=true and is_nullable=false are incompatible')
        end
        part.is_nullable = true
    end
    if part.action == nil and field and field.action ~= nil then
        part.action, has_added = field.action, true
    end
    return has_added
end

local function check_positions(given, what)
    if type(given) ~= 'table' then
        return
    end
    local first_illegal = 3 - (given.field ~= nil and 1 or 0) - (given.type ~= nil and 1 or 0)
    if given[first_illegal] ~= nil then
        check.illegal(what .. ': unexpected option ' .. tostring(given[first_illegal]))
    end
end

local function normalize_part(format, given, what)
    local part, is_simple = read_part(given, what)
    if type(part.field) ~= 'number' and type(part.field) ~= 'string' then
        check.illegal(what .. ': field (name or number) is expected')
    end
    local path
    part.field, path = M.resolve_field(format, part.field, what)
    part.path = path or part.path
    local has_added = inherit(part, format[part.field + 1], what)
    check_positions(given, what)
    return part, is_simple and part.path == nil and not has_added
end

-- Returns the parts as maps {field (zero-based), type, path?, collation?, is_nullable?, ...}, and whether the short
-- form {field, type} can hold them all.
function M.normalize(format, parts)
    if type(parts) ~= 'table' then
        check.illegal('options.parts parameter should be a table')
    elseif #parts == 0 then
        check.illegal('options.parts must have at least one part')
    end
    if type(parts[1]) == 'number' and (parts[2] == nil or type(parts[2]) == 'string') then
        if parts[3] ~= nil then
            return flat_pairs(parts), true
        end
        parts = {parts}
    end
    local result, all_simple, count = {}, true, 0
    for _ in pairs(parts) do
        count = count + 1
        if parts[count] == nil then
            check.illegal('options.parts: unexpected option(s)')
        end
        local is_simple
        result[count], is_simple = normalize_part(format, parts[count], 'options.parts[' .. count .. ']')
        all_simple = all_simple and is_simple
    end
    return result, all_simple
end

function M.resolve_type_aliases(parts)
    for _, part in ipairs(parts) do
        local name = part.type:lower()
        part.type = TYPE_ALIASES[name] or name
        if name == 'num' then
            require('log').warn("field type '%s' is deprecated since Tarantool 1.7, please use '%s' instead",
                                name, part.type)
        end
    end
end

-- Returns the short form, which is stored if the parts have no other options: {{0, 'unsigned'}, ...}.
function M.simplify(parts)
    local result = {}
    for i, part in ipairs(parts) do
        result[i] = {part.field, part.type}
    end
    return result
end

function M.is_multikey(parts)
    for _, part in ipairs(parts) do
        if type(part.path) == 'string' and part.path:find('[*]', 1, true) then
            return true
        end
    end
    return false
end

return M
