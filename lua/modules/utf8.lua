-- require('utf8'), also the global `utf8`: strings as sequences of code points. Positions count bytes in `next`, `len`
-- and code points in `sub`.
local python = require('internal.python')
local arguments = require('internal.arguments')
local encode = require('internal.code_point')

local byte, sub = string.byte, string.sub
local error, type, tonumber, select = error, type, tonumber, select

local utf8 = {}

local function continuation(text, position)
    local value = byte(text, position)
    return value and value >= 0x80 and value < 0xc0 and value - 0x80 or nil
end

-- Lead byte -> number of continuation bytes, and the bits of the code point in the lead byte.
local function lead(value)
    if value < 0x80 then
        return 0, value
    elseif value >= 0xc2 and value < 0xe0 then
        return 1, value - 0xc0
    elseif value >= 0xe0 and value < 0xf0 then
        return 2, value - 0xe0
    elseif value >= 0xf0 and value < 0xf5 then
        return 3, value - 0xf0
    end
end

local SMALLEST = {[0] = 0, 0x80, 0x800, 0x10000}

local function is_scalar(code, following)
    return code >= SMALLEST[following] and code <= 0x10ffff and not (code >= 0xd800 and code < 0xe000)
end

-- Returns the code point at a position and the position after it; nil if there is no valid one.
local function decode(text, position)
    local following, code = lead(byte(text, position))
    if following == nil then
        return nil
    end
    for i = 1, following do
        local part = continuation(text, position + i)
        if part == nil then
            return nil
        end
        code = code * 64 + part
    end
    if is_scalar(code, following) then
        return code, position + following + 1
    end
end

-- Returns the end of the character at a position, which need not be valid.
local function skip(text, position)
    local _, after = decode(text, position)
    return after or position + 1
end

-- Returns the only argument of a function; nil if there are several or none.
local function only(...)
    if select('#', ...) == 1 then
        return (...)
    end
end

local LAST_CODE = 0x10ffff
local SMALLEST_INT = -2 ^ 31    -- has no positive number of 32 bits beside it

-- Returns an argument as a text; a number is accepted, like in Lua's string functions.
local function check_string(value, usage)
    if type(value) == 'number' then
        return tostring(value)
    elseif type(value) ~= 'string' then
        error('Usage: ' .. usage, 3)
    end
    return value
end

-- `level` is that of the function of the module, as for error().
local function check_number(value, position, level)
    local number = arguments.number(value)
    if number == nil then
        arguments.bad(position, 'number expected, got ' .. type(value), level or 3)
    end
    return arguments.whole_int(number)
end

-- Returns a number that may be absent. Unlike nil, box.NULL is no absent one.
local function optional(value, position, default)
    return type(value) == 'nil' and default or check_number(value, position, 4)
end

local function absolute(position, size)
    return position >= 0 and position or position < -size and 0 or size + position + 1
end

-- Returns the number of code points in the bytes first..last, or nil and the position of the first invalid byte.
function utf8.len(...)
    local text, first, last = ...
    text = check_string(select('#', ...) <= 3 and text, 'utf8.len(<string>, [i, [j]])')
    local size = #text
    first, last = absolute(optional(first, 2, 1), size), absolute(optional(last, 3, -1), size)
    if first < 1 or first > size + 1 or last > size then
        return nil, 'position is out of string'
    end
    local count = 0
    while first <= last do
        local code, after = decode(text, first)
        if code == nil then
            return nil, first
        end
        count, first = count + 1, after
    end
    return count
end

-- Returns the byte positions of all characters, and the position after the last one.
local function positions(text)
    local list, position = {}, 1
    while position <= #text do
        list[#list + 1] = position
        position = skip(text, position)
    end
    list[#list + 1] = #text + 1
    return list
end

-- Returns the characters first..last; negative numbers count from the end.
function utf8.sub(text, ...)
    local first, last = ...
    text = check_string(select('#', ...) > 0 and text or nil, 'utf8.sub(<string>, [i, [j]])')
    first, last = check_number(first, 2), optional(last, 3, -1)
    if first == SMALLEST_INT then
        return ''
    end
    local starts = positions(text)
    local count = #starts - 1
    if first < 0 then
        first = count + first + 1
    end
    if last < 0 then
        last = count + last + 1
    end
    first, last = math.max(first, 1), math.min(last, count)
    if first > last then
        return ''
    end
    return sub(text, starts[first], starts[last + 1] - 1)
end

function utf8.upper(...)
    local text = check_string(only(...), 'utf8.upper(<string>)')
    return python.utf8_upper(text)
end

function utf8.lower(...)
    local text = check_string(only(...), 'utf8.lower(<string>)')
    return python.utf8_lower(text)
end

-- Returns the bytes of any number: as in Tarantool, it is converted to 32 bits, and what is no code point gives the bytes
-- that the formula for four bytes gives.
local function encode_any(number)
    local code = number > -2 ^ 63 and number < 2 ^ 63 and (number - math.fmod(number, 1)) % 2 ^ 32 or 0
    if code <= LAST_CODE then
        return encode(code)
    end
    local first = bit.bor(0xF0, math.floor(code / 2 ^ 18)) % 256
    local rest = code % 2 ^ 18
    return string.char(first, 0x80 + math.floor(rest / 4096), 0x80 + math.floor(rest / 64) % 64, 0x80 + rest % 64)
end

function utf8.char(...)
    local count = select('#', ...)
    if count == 0 then
        error('Usage: utf8.char(<char code>', 2)
    end
    local parts = {...}
    for i = 1, count do
        parts[i] = encode_any(check_number(parts[i], i))
    end
    return table.concat(parts)
end

-- Returns the next position and the code point at `position`, for loops: `for pos, code in utf8.next, text do`.
function utf8.next(...)
    local text, position = ...
    text = check_string(select('#', ...) <= 2 and text, 'utf8.next(<string>, [<byte offset>])')
    position = optional(position, 2, 1)
    if position < 1 then
        -- As in Tarantool, 0 is the position before the first byte.
        position = math.max(absolute(position, #text), 1)
    end
    if position > #text then
        return
    end
    local code, after = decode(text, position)
    if code ~= nil then
        return after, code
    end
end

local function of_category(name, categories)
    return function(...)
        local value = ...
        if select('#', ...) ~= 1 then
            error(('Usage: utf8.%s(<string> or <one symbol code>)'):format(name), 2)
        end
        local code = value
        if value == '' then
            return false
        elseif type(value) == 'string' then
            local after
            code, after = decode(value, 1)
            if code == nil or after <= #value then
                return false
            end
        else
            code = check_number(value, 1)
            if not (code >= 0 and code <= LAST_CODE) then
                return false
            end
        end
        return categories[python.utf8_category(code)] == true
    end
end

utf8.isalpha = of_category('isalpha', {Lu = true, Ll = true, Lt = true, Lm = true, Lo = true})
utf8.isdigit = of_category('isdigit', {Nd = true})
utf8.islower = of_category('islower', {Ll = true})
utf8.isupper = of_category('isupper', {Lu = true})

local function comparison(name, ignore_case)
    return function(left, right, ...)
        local usage = ('utf8.%s(<string1>, <string2>)'):format(name)
        if select('#', ...) > 0 then
            left = nil
        end
        left, right = check_string(left, usage), check_string(right, usage)
        local a, b = python.utf8_key(left, ignore_case), python.utf8_key(right, ignore_case)
        return a < b and -1 or a > b and 1 or 0
    end
end

utf8.cmp = comparison('cmp', false)
utf8.casecmp = comparison('casecmp', true)

return utf8
