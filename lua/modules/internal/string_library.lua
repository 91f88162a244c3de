-- Members that Tarantool adds to `string`: splitting, padding, stripping, prefixes, hexadecimal.
local byte, char, find, format, rep, sub = string.byte, string.char, string.find, string.format, string.rep, string.sub
local error, floor, max, min, tonumber, type = error, math.floor, math.max, math.min, tonumber, type

-- Returns the set of the bytes in a text. The class of a pattern would be searched for each byte.
local function set_of(chars)
    local set = {}
    for i = 1, #chars do
        set[byte(chars, i)] = true
    end
    return set
end

local BLANKS = set_of(' \t\n\v\f\r')

-- Raises an error for a wrong argument. `level` is the number of functions between this one and the caller whose place
-- the error shows.
local function bad_argument(position, name, expected, got, level)
    error(format("bad argument #%d to '%s' (%s expected, got %s)", position, name, expected, got), level + 1)
end

local function check_string(value, position, name, level)
    if type(value) ~= 'string' then
        bad_argument(position, name, 'string', type(value), level + 1)
    end
end

-- Returns a function that finds the first and the last position of the next separator. A separator of whitespace is as
-- long as possible.
local function finder(text, separator)
    if separator then
        return function(from)
            return find(text, separator, from, true)
        end
    end
    return function(from)
        return find(text, '%s+', from)
    end
end

local function check_split(text, separator, limit)
    check_string(text, 1, 'string.split', 3)
    if separator ~= nil then
        check_string(separator, 2, 'string.split', 3)
    end
    if limit ~= nil and (type(limit) ~= 'number' or limit < 0) then
        bad_argument(3, 'string.split', 'positive integer', type(limit), 3)
    end
    if separator and #separator == 0 then
        -- The place is that of the caller's caller, as in Tarantool.
        error("bad argument #2 to 'string.split' (non-empty string expected, got empty string)", 4)
    end
end

-- Returns the parts of a text between separators; at most `limit` separators are used. Without a separator the text is
-- split at whitespace, and there are no empty parts.
function string.split(text, separator, limit)
    check_split(text, separator, limit)
    local result, from = {}, 1
    if separator == nil then
        from = find(text, '%S') or #text + 1
    end
    local next_separator = finder(text, separator)
    limit = limit or math.huge
    -- Compared in this order, errors name the types as in Tarantool.
    while not (limit <= #result) do
        local first, last = next_separator(from)
        if first == nil then
            break
        end
        result[#result + 1] = sub(text, from, first - 1)
        from = last + 1
    end
    if separator or from <= #text then
        result[#result + 1] = sub(text, from)
    end
    return result
end

local function check_padding(name, text, width, filler)
    check_string(text, 1, name, 3)
    if type(width) ~= 'number' or width < 0 then
        bad_argument(2, name, 'positive integer', type(width), 3)
    elseif filler ~= nil and (type(filler) ~= 'string' or #filler ~= 1) then
        bad_argument(3, name, 'char', type(filler), 3)
    end
    return max(width - #text, 0), filler or ' '
end

function string.ljust(text, width, filler)
    local missing, with = check_padding('string.ljust', text, width, filler)
    return text .. with:rep(missing)
end

function string.rjust(text, width, filler)
    local missing, with = check_padding('string.rjust', text, width, filler)
    return with:rep(missing) .. text
end

function string.center(text, width, filler)
    local missing, with = check_padding('string.center', text, width, filler)
    local left = floor(missing / 2)
    return with:rep(left) .. text .. with:rep(missing - left)
end

-- Returns the bounds of a part in a text of `length` bytes; negative ones count from the end.
local function bounds(length, first, last)
    first, last = first == nil and 1 or first, last == nil and length or last
    if first < 0 then
        first = max(length + first + 1, 1)
    end
    if last < 0 then
        last = length + last + 1
    end
    return max(first, 1), min(last, length)
end

local function check_bounds(name, first, last, named_type)
    if first ~= nil and type(first) ~= 'number' then
        bad_argument(3, name, 'integer', named_type or type(first), 3)
    elseif last ~= nil and type(last) ~= 'number' then
        bad_argument(4, name, 'integer', named_type or type(last), 3)
    end
end

-- Returns whether the part first..last of a text begins with `head`.
function string.startswith(text, head, first, last)
    check_string(text, 1, 'string.startswith', 2)
    check_string(head, 2, 'string.startswith', 2)
    check_bounds('string.startswith', first, last)
    if head == '' then
        return true
    end
    first, last = bounds(#text, first, last)
    return last - first + 1 >= #head and sub(text, first, first + #head - 1) == head
end

-- Returns whether the part first..last of a text ends with `tail`. Asks for the lengths before it checks the types, and
-- errors about other arguments name the type of `inp`, as in Tarantool.
function string.endswith(inp, tail, first, last)
    local size, length = #tail, #inp
    check_string(inp, 1, 'string.endswith', 2)
    if type(tail) ~= 'string' then
        bad_argument(2, 'string.endswith', 'string', type(inp), 2)
    end
    check_bounds('string.endswith', first, last, type(inp))
    if size == 0 then
        return true
    end
    first, last = bounds(length, first, last)
    return last - first + 1 >= size and sub(inp, last - size + 1, last) == tail
end

function string.hex(text)
    check_string(text, 1, 'string.hex', 2)
    return (text:gsub('.', function(one)
        return format('%02x', byte(one))
    end))
end

function string.fromhex(text)
    check_string(text, 1, 'string.fromhex', 2)
    if #text % 2 ~= 0 then
        bad_argument(1, 'string.fromhex', 'even amount of chars', 'odd amount', 2)
    elseif find(text, '%X') then
        bad_argument(1, 'string.fromhex', 'hex string', 'non hex chars', 2)
    end
    return (text:gsub('..', function(digits)
        return char(tonumber(digits, 16))
    end))
end

local function check_strip(name, text, chars)
    check_string(text, 1, name, 3)
    if chars == nil or text == '' then
        return BLANKS
    end
    check_string(chars, 2, name, 3)
    return set_of(chars)
end

local function strip_left(text, set)
    local first = 1
    while first <= #text and set[byte(text, first)] do
        first = first + 1
    end
    return sub(text, first)
end

local function strip_right(text, set)
    local last = #text
    while last > 0 and set[byte(text, last)] do
        last = last - 1
    end
    return sub(text, 1, last)
end

function string.lstrip(text, chars)
    return strip_left(text, check_strip('string.lstrip', text, chars))
end

function string.rstrip(text, chars)
    return strip_right(text, check_strip('string.rstrip', text, chars))
end

-- As in Tarantool, nothing is asked of the characters if there is nothing to strip.
function string.strip(text, chars)
    if text == '' then
        return text
    end
    local class = check_strip('string.strip', text, chars)
    return strip_right(strip_left(text, class), class)
end

-- An old name of gmatch that LuaJIT 2.0 still has.
string.gfind = nil

return string
