-- Globals of the runtime: print, os.exit, pairs over tuples, tonumber64, dostring.
local arguments = require('internal.arguments')
local ffi = require('ffi')
local python = require('internal.python')
local scheduler = require('internal.scheduler')

local type, select, tostring, tonumber, error = type, select, tostring, tonumber, error
local raw_pairs, raw_ipairs = pairs, ipairs
local concat = table.concat

io.stdout:setvbuf('no')

function _G.print(...)
    local parts = {...}
    for i = 1, select('#', ...) do
        local text = tostring(parts[i])
        if type(text) ~= 'string' then
            error("'tostring' must return a string to 'print'", 2)
        end
        parts[i] = text
    end
    python.print(concat(parts, '\t') .. '\n')
end

local raw_load = ffi.load

-- Without this a library with missing symbols would load, and a call of one would end the process.
function ffi.load(...)
    local name = ...
    local problem = type(name) == 'string' and python.library_problem(name)
    if problem then
        error(problem, 2)
    end
    return raw_load(...)
end

-- Python ends the process or the node, and this fiber does not continue. As in Tarantool, true and false mean the code
-- 0.
function os.exit(code)
    local is_code = type(code) == 'number' and code > -2 ^ 31 and code < 2 ^ 31
    python.exit(is_code and code or 0)
    while scheduler.current_fiber() do
        scheduler.park()
    end
end

local tuples

-- The standard library of this LuaJIT refuses cdata, but Tarantool's loops over a tuple. Both ignore __pairs and
-- __ipairs of tables.
local function is_tuple(value)
    if type(value) ~= 'cdata' then
        return false
    end
    tuples = tuples or require('internal.tuple')
    return tuples.is(value)
end

function _G.pairs(...)
    local value = ...
    if is_tuple(value) then
        return tuples.pairs(value)
    end
    return raw_pairs(...)
end

function _G.ipairs(...)
    local value = ...
    if is_tuple(value) then
        return tuples.pairs(value)
    end
    return raw_ipairs(...)
end

local DIGITS = '0123456789abcdefghijklmnopqrstuvwxyz'
local PREFIXES = {['0x'] = 16, ['0b'] = 2}

local function parse_digits(digits, base)
    local result, limit = 0ULL, 18446744073709551615ULL
    if digits == '' then
        return nil
    end
    for i = 1, #digits do
        local digit = DIGITS:find(digits:sub(i, i), 1, true)
        if digit == nil or digit > base then
            return nil
        end
        local value = ffi.cast('uint64_t', digit - 1)
        if result > (limit - value) / base then
            return nil
        end
        result = result * base + value
    end
    return result
end

local function small(value, negative)
    if negative then
        if value > 9223372036854775808ULL then
            return nil
        end
        local signed = -ffi.cast('int64_t', value)
        return signed > -100000000000000LL and tonumber(signed) or signed
    end
    return value < 100000000000000ULL and tonumber(value) or value
end

-- Converts a text to a number or 64-bit cdata; nil if it is no number. Returns numbers and 64-bit cdata unchanged.
function _G.tonumber64(...)
    local value, base = ...
    if select('#', ...) == 0 then
        arguments.bad(1, 'value expected', 2)
    elseif base ~= nil and type(base) ~= 'number' then
        arguments.bad(2, arguments.expected('number', base), 2)
    elseif base ~= nil and not (base >= 2 and base <= 36) then
        arguments.bad(2, 'base out of range', 2)
    end
    local kind = type(value)
    if kind == 'number' then
        return value
    elseif kind == 'cdata' then
        return (ffi.istype('int64_t', value) or ffi.istype('uint64_t', value)) and value or nil
    elseif kind ~= 'string' then
        return nil
    end
    local sign, digits = value:lower():match('^%s*(%-?)(%w+)%s*$')
    if digits == nil then
        return nil
    end
    digits = digits:gsub('u?ll$', '')
    local prefix = PREFIXES[digits:sub(1, 2)]
    if prefix and (base == nil or base == prefix) then
        digits, base = digits:sub(3), prefix
    end
    local number = parse_digits(digits, base or 10)
    return number and small(number, sign == '-')
end

-- Runs a source text. Returns its values, or raises its error.
function _G.dostring(source, ...)
    local chunk, problem = loadstring(source)
    if chunk == nil then
        error(problem, 0)
    end
    return chunk(...)
end

_G._TARANTOOL = python.version()

