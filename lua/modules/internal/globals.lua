-- Globals of the runtime: print, os.exit, pairs over tuples, tonumber64, dostring.
local arguments = require('internal.arguments')
local ffi = require('ffi')
local output = require('internal.standard_output')
local python = require('internal.python')
local scheduler = require('internal.scheduler')

local type, select, tostring, tonumber, error, pcall = type, select, tostring, tonumber, error, pcall
local raw_pairs, raw_ipairs = pairs, ipairs
local byte, concat, write = string.byte, table.concat, output.write

-- Returns the text that print() shows of a value, made by the global `tostring`.
local function shown(value)
    local text = rawget(_G, 'tostring')(value)
    if type(text) ~= 'string' and type(text) ~= 'number' then
        error("'tostring' must return a string to 'print'", 3)
    end
    return text
end

if output.is_stream then
    -- The texts go into the stream one by one, as in Tarantool: if a `tostring` fails, those before it are there.
    function _G.print(...)
        local count = select('#', ...)
        if count > 0 then
            write(shown((...)))
        end
        for i = 2, count do
            write('\t', shown((select(i, ...))))
        end
        write('\n')
    end
else
    function _G.print(...)
        local parts = {...}
        for i = 1, select('#', ...) do
            parts[i] = shown(parts[i])
        end
        write(concat(parts, '\t') .. '\n')
    end
end

local raw_load = ffi.load

-- Loads a library for the FFI. A library with missing symbols is refused, because a call of one would end the process.
function ffi.load(...)
    local name = ...
    local problem = type(name) == 'string' and python.library_problem(name)
    if problem then
        error(problem, 2)
    end
    return raw_load(...)
end

-- Ends the process or the node by Python; this fiber does not continue. As in Tarantool, true and false mean the code
-- 0.
function os.exit(code)
    local is_code = type(code) == 'number' and code > -2 ^ 31 and code < 2 ^ 31
    local number = is_code and code or 0
    python.exit(number)
    while scheduler.current_fiber() do
        local has_waited, problem = pcall(scheduler.park)
        if not has_waited then
            python.exit_at_once(number)    -- inside a C function such as table.sort() nothing can wait
            error(problem, 0)
        end
    end
end

local tuples

-- Returns whether a value is a tuple: the standard pairs() of this LuaJIT refuses cdata, but Tarantool's loops over a
-- tuple. Both ignore __pairs and __ipairs of tables.
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

-- Byte -> value of the digit; letters count from ten.
local DIGIT = {}
for digit, letters in ipairs{'0', '1', '2', '3', '4', '5', '6', '7', '8', '9'} do
    DIGIT[letters:byte()] = digit - 1
end
for offset = 0, 25 do
    DIGIT[97 + offset], DIGIT[65 + offset] = 10 + offset, 10 + offset
end
-- Every whole number up to this one is exactly a double.
local EXACT = 2 ^ 53

local SPACE = {[9] = true, [10] = true, [11] = true, [12] = true, [13] = true, [32] = true}
local PLUS, MINUS, ZERO = 43, 45, 48
-- The bytes of letters in suffixes and prefixes, in both cases.
local IS_L, IS_U = {[76] = true, [108] = true}, {[85] = true, [117] = true}
local PREFIX_BASES = {[66] = 2, [98] = 2, [88] = 16, [120] = 16}

local function skip_space(text, position)
    while SPACE[byte(text, position)] do
        position = position + 1
    end
    return position
end

-- Returns the number whose digits begin at a position, and the position after them; nil without digits, or with more
-- than 64 bits. Few digits make a double, so that no object is made for each step.
local function parse_digits(text, first, base)
    local last = first
    while (DIGIT[byte(text, last)] or base) < base do
        last = last + 1
    end
    if last == first then
        return nil
    end
    local is_short = base ^ (last - first) <= EXACT
    local result, limit = is_short and 0 or 0ULL, 18446744073709551615ULL
    for i = first, last - 1 do
        local value = DIGIT[byte(text, i)]
        if not is_short and result > (limit - value) / base then
            return nil
        end
        result = result * base + value
    end
    return result, last
end

-- Returns the base after the sign of a text (a prefix `0x` or `0b` changes it), and the position of the first digit.
local function parse_prefix(text, position, base)
    local prefix = byte(text, position) == ZERO and PREFIX_BASES[byte(text, position + 1)]
    if prefix and (base == nil or base == prefix) then
        return prefix, position + 2
    end
    return base or 10, position
end

-- Returns the position after `LL`, `ULL` or `LLU`, and whether there is a U.
local function skip_suffix(text, position)
    local unsigned = IS_U[byte(text, position)]
    local at = unsigned and position + 1 or position
    if not (IS_L[byte(text, at)] and IS_L[byte(text, at + 1)]) then
        return position, false
    elseif not unsigned and IS_U[byte(text, at + 2)] then
        return at + 3, true
    end
    return at + 2, unsigned
end

local function small(value, negative)
    if type(value) == 'number' and value < 100000000000000 then
        return negative and 0 - value or value
    end
    value = ffi.cast('uint64_t', value)
    if negative then
        if value > 9223372036854775808ULL then
            return nil
        end
        local signed = -ffi.cast('int64_t', value)
        return signed > -100000000000000LL and tonumber(signed) or signed
    end
    return value < 100000000000000ULL and tonumber(value) or value
end

-- Parses a number. A sign may come before a prefix, and white space and another sign after it, as strtoull() allows.
local function parse_number(text, base)
    local position = skip_space(text, 1)
    local negative = byte(text, position) == MINUS
    local digits_base
    digits_base, position = parse_prefix(text, negative and position + 1 or position, base)
    position = skip_space(text, position)
    local sign = byte(text, position)
    local wraps = sign == MINUS
    local value, stop = parse_digits(text, (wraps or sign == PLUS) and position + 1 or position, digits_base)
    if value == nil then
        return nil
    end
    local unsigned = false
    if base == nil then
        stop, unsigned = skip_suffix(text, stop)
    end
    if skip_space(text, stop) <= #text then
        return nil
    elseif wraps ~= (negative and unsigned) then
        value = -ffi.cast('uint64_t', value)
    end
    return small(value, negative and not unsigned)
end

-- Converts a text to a number or a 64-bit cdata; nil if it is not a number. Returns numbers and 64-bit cdata unchanged.
function _G.tonumber64(...)
    local value, base = ...
    if select('#', ...) == 0 then
        arguments.bad(1, 'value expected', 2)
    elseif type(base) ~= 'nil' and type(base) ~= 'number' then
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
    return parse_number(value, base)
end

-- Runs a source text. Returns its values, or raises its error.
function _G.dostring(source, ...)
    local chunk, problem = loadstring(source)
    if chunk == nil then
        error(problem, 2)    -- the place of the call comes before that of the mistake
    end
    return chunk(...)
end

_G._TARANTOOL = python.version()

