-- Decodes JSON to Lua values.
--
-- `p` points to the text, and positions count from 0. A Lua string ends with a null byte in memory, so nothing here
-- checks for the end. Lines are only counted for an error.
local ffi = require('ffi')
local utf8_bytes = require('internal.code_point')
local marks = require('internal.marks')

local byte, find, format, gsub, match, sub = string.byte, string.find, string.format, string.gsub, string.match,
    string.sub
local concat, error, max, setmetatable, tonumber = table.concat, error, math.max, setmetatable, tonumber
local ffi_string = ffi.string

ffi.cdef([[
    uint32_t lunabox_span(const char *, const char *) __asm__("strspn");
    uint32_t lunabox_span_before(const char *, const char *) __asm__("strcspn");
    double lunabox_to_double(const char *, char **) __asm__("strtod");
]])
local span, span_before, to_double = ffi.C.lunabox_span, ffi.C.lunabox_span_before, ffi.C.lunabox_to_double
local text_pointer = ffi.typeof('const char *')
local NULL = ffi.cast('void *', 0)

local QUOTE, BACKSLASH, COMMA, MINUS, ZERO = 34, 92, 44, 45, 48
local COLON, OPEN_ARRAY, CLOSE_ARRAY, OPEN_MAP, CLOSE_MAP = 58, 91, 93, 123, 125
-- A whole number with up to this many digits is a Lua number; with more it may be 64-bit cdata.
local PLAIN_DIGITS = 14
-- The number of digits in the lower half of a large number, which is made of two halves.
local LOW_DIGITS = 9
local MAX_INT64, MAX_UINT64 = 9223372036854775807LL, 18446744073709551615ULL

-- ---- errors -----------------------------------------------------------------------------------

-- Returns the line of the text position `at`, and the position where that line begins, all from 1. Line ends inside
-- strings do not count.
local function line_of(text, at)
    local line, line_start, position = 1, 1, 1
    while true do
        local stop = find(text, '[\n"]', position)
        if not stop or stop >= at then
            return line, line_start
        elseif byte(text, stop) == 10 then
            line, line_start = line + 1, stop + 1
        else
            repeat
                stop = find(text, '["\\]', stop + 1)
                local is_escape = stop and byte(text, stop) == BACKSLASH
                stop = is_escape and stop + 1 or stop
            until not is_escape
            if not stop then
                return line, line_start
            end
        end
        position = stop + 1
    end
end

local function context(text, line_start, column)
    local from, at = max(0, column - 8), line_start + column
    local after = gsub(gsub(sub(text, at, at + 7), '[%z].*', ''), '\n.*', '')
    return sub(text, line_start + from, at - 1) .. ' >> ' .. after
end

local function fail(text, expected, found, pos)
    local line, line_start = line_of(text, pos + 1)
    local column = pos + 1 - line_start
    error(format("Expected %s but found %s on line %d at character %d here '%s'", expected, found, line, column + 1,
                 context(text, line_start, column)), 0)
end

local function fail_depth(text, depth, pos)
    local line, line_start = line_of(text, pos + 1)
    local column = pos + 1 - line_start
    error(format("Found too many nested data structures (%d) on line %d at character %d here '%s'", depth, line,
                 column + 1, context(text, line_start, column)), 0)
end

-- ---- strings ----------------------------------------------------------------------------------

local UNESCAPES = {
    ['"'] = '"', ['\\'] = '\\', ['/'] = '/', b = '\b', t = '\t', n = '\n', f = '\f', r = '\r',
}

local function hex4(text, position)
    local digits = match(text, '^%x%x%x%x', position)
    return digits and tonumber(digits, 16)
end

-- Returns the character of a \uXXXX escape, or of a surrogate pair, and the position after it. Positions here are from
-- 1.
local function unicode_escape(text, position)
    local code = hex4(text, position + 2)
    if not code then
        return nil
    elseif code < 0xD800 or code > 0xDFFF then
        return utf8_bytes(code), position + 6
    elseif code >= 0xDC00 or sub(text, position + 6, position + 7) ~= '\\u' then
        return nil
    end
    local low = hex4(text, position + 8)
    if not low or low < 0xDC00 or low > 0xDFFF then
        return nil
    end
    return utf8_bytes((code - 0xD800) * 1024 + (low - 0xDC00) + 0x10000), position + 12
end

-- Returns a string with escapes. The characters from `from` up to the first escape, at `pos`, are plain.
local function read_escaped(text, p, from, pos)
    local pieces, count = {ffi_string(p + from, pos - from)}, 1
    while p[pos] == BACKSLASH do
        local letter = sub(text, pos + 2, pos + 2)
        local decoded, after = UNESCAPES[letter], pos + 2
        if letter == 'u' then
            decoded, after = unicode_escape(text, pos + 1)
            after = after and after - 1
        end
        if not decoded then
            return nil, letter == 'u' and 'invalid unicode escape code' or 'invalid escape code', pos
        end
        pos = after + span_before(p + after, '"\\')
        pieces[count + 1], pieces[count + 2], count = decoded, ffi_string(p + after, pos - after), count + 2
    end
    if p[pos] ~= QUOTE then
        return nil, 'unexpected end of string', pos
    end
    return concat(pieces), pos + 1
end

-- Returns the string whose first character is at `from`, and the position after it; or nil, the problem, its position.
local function read_string(text, p, from)
    local pos = from + span_before(p + from, '"\\')
    if p[pos] == QUOTE then
        return ffi_string(p + from, pos - from), pos + 1
    end
    return read_escaped(text, p, from, pos)
end

-- ---- numbers ----------------------------------------------------------------------------------

-- Numbers are parsed without Lua strings: hundreds of thousands would fill the table of interned strings.

-- Returns the whole number of some digits, exact for up to 15.
local function whole(p, from, stop)
    local value = 0
    for i = from, stop - 1 do
        value = value * 10 + (p[i] - ZERO)
    end
    return value
end

-- Returns a number of at least LOW_DIGITS digits.
local function magnitude(p, from, stop)
    if stop - from > 20 then
        return MAX_UINT64
    end
    local high, low = whole(p, from, stop - LOW_DIGITS), whole(p, stop - LOW_DIGITS, stop)
    if high > 18446744073 or (high == 18446744073 and low > 709551615) then
        return MAX_UINT64
    end
    return ffi.cast('uint64_t', high) * 1000000000ULL + ffi.cast('uint64_t', low)
end

-- Returns a whole number of 10^14 and more in absolute value.
local function large_integer(p, from, stop, is_negative)
    local value = magnitude(p, from, stop)
    if not is_negative then
        return value > 9223372036854775806ULL and value or ffi.cast('int64_t', value)
    elseif value > 9223372036854775807ULL then
        return -MAX_INT64 - 1LL
    end
    return -ffi.cast('int64_t', value)
end

local function read_fraction(text, p, pos, stop)
    local _, fraction = find(text, '^%.%d*', stop + 1)
    local after = fraction or stop
    local _, exponent = find(text, '^[eE][-+]?%d+', after + 1)
    return to_double(p + pos, nil), exponent or after
end

-- Returns the number at `pos`, the position after it, and whether it is whole; nil if there is none.
local function read_number(text, p, pos)
    local digits = p[pos] == MINUS and pos + 1 or pos
    local size = span(p + digits, '0123456789')
    local stop = digits + size
    local following = p[stop]
    if size == 0 or p[digits] == ZERO and (size > 1 or following == 120 or following == 88) then
        return nil
    elseif following == 46 or following == 101 or following == 69 then
        return read_fraction(text, p, pos, stop)
    elseif size <= PLAIN_DIGITS then
        local value = whole(p, digits, stop)
        return digits > pos and 0 - value or value, stop, true
    end
    return large_integer(p, digits, stop, digits > pos), stop, true
end

-- ---- words ------------------------------------------------------------------------------------

local WORDS = {{'true', 'boolean', true}, {'false', 'boolean', false}, {'null', 'null', NULL}}
local INVALID_NUMBERS = {
    {'inf', 'number', math.huge}, {'-inf', 'number', -math.huge}, {'nan', 'number', 0 / 0}, {'-nan', 'number', 0 / 0},
}

-- Returns the kind of the word at `pos`, its value and the position after it; nil if there is none.
local function read_word(cfg, text, pos)
    for i = 1, #WORDS do
        local word = WORDS[i]
        if sub(text, pos + 1, pos + #word[1]) == word[1] then
            return word[2], word[3], pos + #word[1]
        end
    end
    if cfg.decode_invalid_numbers then
        for i = 1, #INVALID_NUMBERS do
            local word = INVALID_NUMBERS[i]
            if sub(text, pos + 1, pos + #word[1]) == word[1] then
                return word[2], word[3], pos + #word[1]
            end
        end
    end
end

-- ---- values -----------------------------------------------------------------------------------

local function skip_space(p, pos)
    local first = p[pos]
    if first > 32 then
        return pos
    end
    return pos + span(p + pos, ' \t\r\n')
end

local NAMES = {
    [0] = 'end', [OPEN_MAP] = "'{'", [CLOSE_MAP] = "'}'", [OPEN_ARRAY] = "'['", [CLOSE_ARRAY] = "']'", [COLON] = 'colon',
    [COMMA] = 'comma',
}

-- Returns the name of the token at `pos` for an error; or the problem there and its position.
local function name_of(cfg, text, p, pos)
    local first = p[pos]
    if NAMES[first] then
        return NAMES[first], pos
    elseif first == QUOTE then
        local value, problem, place = read_string(text, p, pos + 1)
        return value and 'string' or problem, value and pos or place
    end
    local number, _, is_whole = read_number(text, p, pos)
    if number then
        return not is_whole and 'number' or ffi.istype('uint64_t', number) and 'unsigned int' or 'int', pos
    end
    return read_word(cfg, text, pos) or 'invalid token', pos
end

local function unexpected(cfg, text, p, pos, expected)
    fail(text, expected, name_of(cfg, text, p, pos))
end

local read_value

local function check_depth(cfg, text, pos, depth)
    if depth > cfg.decode_max_depth then
        fail_depth(text, depth, pos)
    end
end

local function read_array(cfg, text, p, pos, depth)
    check_depth(cfg, text, pos - 1, depth)
    local result, size = {}, 0
    pos = skip_space(p, pos)
    if p[pos] ~= CLOSE_ARRAY then
        while true do
            size = size + 1
            result[size], pos = read_value(cfg, text, p, pos, depth)
            pos = skip_space(p, pos)
            if p[pos] ~= COMMA then
                break
            end
            pos = skip_space(p, pos + 1)
        end
        if p[pos] ~= CLOSE_ARRAY then
            unexpected(cfg, text, p, pos, "comma or ']'")
        end
    end
    if cfg.decode_save_metatables then
        setmetatable(result, marks.array_mt)
    end
    return result, pos + 1
end

local function read_key(cfg, text, p, pos)
    local key, after
    if p[pos] == QUOTE then
        key, after = read_string(text, p, pos + 1)
    end
    if key == nil then
        unexpected(cfg, text, p, pos, 'object key string')
    end
    after = skip_space(p, after)
    if p[after] ~= COLON then
        unexpected(cfg, text, p, after, 'colon')
    end
    return key, skip_space(p, after + 1)
end

local function read_map(cfg, text, p, pos, depth)
    check_depth(cfg, text, pos - 1, depth)
    local result = {}
    pos = skip_space(p, pos)
    if p[pos] ~= CLOSE_MAP then
        while true do
            local key
            key, pos = read_key(cfg, text, p, pos)
            result[key], pos = read_value(cfg, text, p, pos, depth)
            pos = skip_space(p, pos)
            if p[pos] ~= COMMA then
                break
            end
            pos = skip_space(p, pos + 1)
        end
        if p[pos] ~= CLOSE_MAP then
            unexpected(cfg, text, p, pos, "comma or '}'")
        end
    end
    if cfg.decode_save_metatables then
        setmetatable(result, marks.map_mt)
    end
    return result, pos + 1
end

local function read_number_or_word(cfg, text, p, pos)
    local value, after = read_number(text, p, pos)
    if value == nil then
        local kind
        kind, value, after = read_word(cfg, text, pos)
        if kind == nil then
            unexpected(cfg, text, p, pos, 'value')
        end
    elseif not cfg.decode_invalid_numbers and type(value) == 'number' and value - value ~= 0 then
        error('number must not be NaN or Inf', 0)
    end
    return value, after
end

function read_value(cfg, text, p, pos, depth)
    local first = p[pos]
    if first == QUOTE then
        local value, after, place = read_string(text, p, pos + 1)
        if value == nil then
            fail(text, 'value', after, place)
        end
        return value, after
    elseif first == OPEN_MAP then
        return read_map(cfg, text, p, pos + 1, depth + 1)
    elseif first == OPEN_ARRAY then
        return read_array(cfg, text, p, pos + 1, depth + 1)
    end
    return read_number_or_word(cfg, text, p, pos)
end

-- Returns the value of a JSON text. `cfg` has the options of internal.serializer.
return function(cfg, text)
    if #text >= 2 and find(sub(text, 1, 2), '%z') then
        error('JSON parser does not support UTF-16 or UTF-32', 0)
    end
    local p = ffi.cast(text_pointer, text)
    local value, pos = read_value(cfg, text, p, skip_space(p, 0), 0)
    pos = skip_space(p, pos)
    if p[pos] ~= 0 then
        unexpected(cfg, text, p, pos, 'the end')
    end
    return value
end
