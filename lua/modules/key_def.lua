-- require('key_def'): keys of tuples outside of a space: key_def.new{{fieldno = 1, type = 'unsigned'}, ...}.
local arguments = require('internal.arguments')
local ffi = require('ffi')
local decode = require('box.finish').decode
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local tuples = require('internal.tuple')
local wait = require('internal.wait')

local error, ipairs, pcall, rawget, select, type = error, ipairs, pcall, rawget, select, type

local USAGE = 'Bad params, use: key_def.new({{fieldno = fieldno, type = type[, is_nullable = <boolean>]'
    .. '[, exclude_null = <boolean>][, path = <string>][, collation_id = <number>][, collation = <string>]}, ...}'
local EQUAL = 256    -- is added to results of comparisons, because negative numbers mean waits
local SHOWN = {'type', 'fieldno', 'path', 'is_nullable', 'exclude_null', 'collation'}

-- Python identifies a definition by the MessagePack of its parts: a program may hold a mere reference to the object.
ffi.cdef('struct key_def { uint32_t lunabox_count; uint32_t lunabox_size; uint8_t lunabox_parts[?]; };')
local key_def_type = ffi.typeof('struct key_def')

local function is_key_def(value)
    return type(value) == 'cdata' and ffi.istype(key_def_type, value)
end

local function check(value, usage)
    if not is_key_def(value) then
        error('Usage: key_def:' .. usage, 3)
    end
    return ffi.string(value.lunabox_parts, value.lunabox_size)
end

local function of_parts(parts)
    local packed = msgpack.encode(parts)
    local object = key_def_type(#packed, #parts, #packed)
    ffi.copy(object.lunabox_parts, packed, #packed)
    return object
end

local function wrong(text)
    error(require('internal.error').new_here({type = 'IllegalParams', message = text}), 0)
end

-- Returns true for what C takes for true; nil otherwise.
local function is_true(value)
    return value and true or nil
end

-- Returns the members of a part that Python needs.
local function part_of(given)
    if type(given) == 'cdata' then
        local ok, problem = pcall(function() return given.fieldno end)
        if not ok then
            error(problem:match('^%S+:%d+: (.*)'), 0)
        end
    elseif type(given) ~= 'table' and type(given) ~= 'string' then
        error('attempt to index a ' .. type(given) .. ' value', 0)
    end
    local number = given.fieldno
    if type(number) == 'nil' then
        number = given.field
        if type(number) == 'nil' then
            wrong('fieldno or field must not be nil')
        end
    elseif given.field ~= nil then
        wrong('Conflicting options: fieldno and field')
    end
    if given.type == nil then
        wrong('type must not be nil')
    end
    local part = {
        fieldno = arguments.whole(number) % 2 ^ 32, type = given.type, collation = given.collation, path = given.path,
        is_nullable = is_true(given.is_nullable), exclude_null = is_true(given.exclude_null),
    }
    -- What is no number is the collation 0; what is no text has no name.
    if type(given.collation_id) ~= 'nil' then
        part.collation_id = arguments.whole_int(given.collation_id) % 2 ^ 32
    end
    if type(part.collation) ~= 'nil' then
        part.collation = arguments.text(part.collation) or '(null)'
    end
    return part
end

-- Returns the parts, checked and described by names.
local function checked(parts)
    return decode(wait(python.key_def_parts(msgpack.encode(parts))))
end

local function new(...)
    local given = ...
    if select('#', ...) ~= 1 or type(given) ~= 'table' then
        error(USAGE, 2)
    end
    local parts = {}
    for i = 1, #given do
        local ok, part = pcall(part_of, given[i])
        if not ok then
            -- A mistake in an earlier part is told first.
            if i > 1 then
                checked(parts)
            end
            error(part, 0)
        end
        parts[i] = part
    end
    if #parts == 0 then
        wrong('Key definition can only be constructed by using at least 1 key_part')
    end
    return of_parts(checked(parts))
end

local methods = {}

function methods.extract_key(self, ...)
    local tuple = ...
    local packed = check(select('#', ...) == 1 and self, 'extract_key(tuple)')
    return tuples.new(wait(python.key_def_extract(packed, tuples.encode(tuple))))
end

-- Encodes a tuple and what it is compared with. The tuple is checked first.
local function encoded(packed, tuple, other)
    local raw = tuples.encode(tuple)
    local ok, other_raw = pcall(tuples.encode, other)
    if not ok then
        wait(python.key_def_extract(packed, raw))
        error(other_raw, 0)
    end
    return raw, other_raw
end

function methods.compare(self, ...)
    local left, right = ...
    local packed = check(select('#', ...) == 2 and self, 'compare(tuple_a, tuple_b)')
    return wait(python.key_def_compare(packed, encoded(packed, left, right))) - EQUAL
end

function methods.compare_with_key(self, ...)
    local tuple, key = ...
    local packed = check(select('#', ...) == 2 and self, 'compare_with_key(tuple, key)')
    return wait(python.key_def_compare_with_key(packed, encoded(packed, tuple, key))) - EQUAL
end

function methods.merge(self, ...)
    local packed = check(select('#', ...) == 1 and self, 'merge(second_key_def)')
    local tail = check((...), 'merge(second_key_def)')
    return of_parts(decode(wait(python.key_def_merge(packed, tail))))
end

-- Returns the parts as tables. Their fields are assigned in Tarantool's order, which is the order in which a console
-- shows them.
function methods.totable(self, ...)
    local parts = decode(check(select('#', ...) == 0 and self, 'totable()'))
    for i, part in ipairs(parts) do
        local shown = {}
        for _, name in ipairs(SHOWN) do
            -- A missing field that is set to nil would change the order of the others.
            if part[name] ~= nil then
                shown[name] = part[name]
            end
        end
        parts[i] = shown
    end
    return parts
end

methods.__serialize = methods.totable

ffi.metatype(key_def_type, {
    __index = function(_, name)
        return rawget(methods, name)
    end,
    __tostring = function()
        return '<struct key_def &>'
    end,
})

local M = {new = new}
for name, method in pairs(methods) do
    if name ~= '__serialize' then
        M[name] = method
    end
end

return M
