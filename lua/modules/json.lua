-- require('json'): encode, decode, new, cfg.
local ffi = require('ffi')
local arguments = require('internal.arguments')
local serializer = require('internal.serializer')

local find, sub, byte, gsub, format, char = string.find, string.sub, string.byte, string.gsub, string.format, string.char
local next, type, tonumber, rawget, concat, error = next, type, tonumber, rawget, table.concat, error
local classify = serializer.classify
local STRING, EXTENSION, ARRAY, MAP = serializer.STRING, serializer.EXTENSION, serializer.ARRAY, serializer.MAP
local INTEGER, DOUBLE = serializer.INTEGER, serializer.DOUBLE
local NULL = serializer.NULL

-- ---- encoding -------------------------------------------------------------------------------

local ESCAPES = {
    ['"'] = '\\"', ['\\'] = '\\\\', ['/'] = '\\/', ['\b'] = '\\b', ['\t'] = '\\t', ['\n'] = '\\n',
    ['\f'] = '\\f', ['\r'] = '\\r', ['\127'] = '\\u007f',
}
for code = 0, 31 do
    local control = char(code)
    ESCAPES[control] = ESCAPES[control] or format('\\u%04x', code)
end

local function quote(text)
    if find(text, '[%z\1-\31"\\/\127]') then
        text = gsub(text, '[%z\1-\31"\\/\127]', ESCAPES)
    end
    return '"' .. text .. '"'
end

local append

local function append_array(cfg, out, n, depth, value, size)
    n = n + 1
    out[n] = '['
    for i = 1, size do
        if i > 1 then
            n = n + 1
            out[n] = ','
        end
        n = append(cfg, out, n, depth, classify(cfg, rawget(value, i)))
    end
    out[n + 1] = ']'
    return n + 1
end

local function key_text(kind, text)
    if kind == STRING then
        return quote(text)
    elseif kind == INTEGER then
        return '"' .. text .. '"'
    end
    error('table key must be a number or string', 0)
end

local function append_object(cfg, out, n, depth, map)
    n = n + 1
    out[n] = '{'
    local first = true
    for key, item in next, map do
        local kind, text = classify(cfg, key)
        n = n + 1
        out[n] = (first and '' or ',') .. key_text(kind, text) .. ':'
        first = false
        n = append(cfg, out, n, depth, classify(cfg, item))
    end
    out[n + 1] = '}'
    return n + 1
end

append = function(cfg, out, n, depth, kind, value, size)
    if kind == STRING or kind == EXTENSION then
        value = quote(value)
    elseif kind == DOUBLE then
        value = value == '-nan' and 'nan' or value
    elseif kind == ARRAY or kind == MAP then
        if depth < cfg.encode_max_depth then
            if kind == ARRAY then
                return append_array(cfg, out, n, depth + 1, value, size)
            end
            return append_object(cfg, out, n, depth + 1, value)
        elseif not cfg.encode_deep_as_nil then
            error('Too high nest level', 0)
        end
        value = 'null'
    end
    out[n + 1] = value
    return n + 1
end

local function encode(cfg, value)
    local out = {}
    local n = append(cfg, out, 0, 0, classify(cfg, value))
    return concat(out, '', 1, n)
end

-- ---- decoding: errors -----------------------------------------------------------------------

-- State of one parse: text, position of the next token, line (counted from 1), line_start (the
-- position of the open line's first character), depth, cfg.

local function context(state, column)
    local from = math.max(0, column - 8)
    local at = state.line_start + column
    local after = sub(state.text, at, at + 7)
    after = gsub(gsub(after, '[%z].*', ''), '\n.*', '')
    return sub(state.text, state.line_start + from, at - 1) .. ' >> ' .. after
end

local function fail(state, expected, found, column)
    error(format("Expected %s but found %s on line %d at character %d here '%s'", expected, found, state.line,
                 column + 1, context(state, column)), 0)
end

-- ---- decoding: tokens -----------------------------------------------------------------------

local PUNCTUATION = {
    ['{'] = "'{'", ['}'] = "'}'", ['['] = "'['", [']'] = "']'", [':'] = 'colon', [','] = 'comma',
}
local UNESCAPES = {
    ['"'] = '"', ['\\'] = '\\', ['/'] = '/', b = '\b', t = '\t', n = '\n', f = '\f', r = '\r',
}
local MAX_PLAIN_INTEGER = 1e14 - 1    -- larger ones are 64-bit cdata
local MAX_INT64, MAX_UINT64 = 9223372036854775807LL, 18446744073709551615ULL

local function utf8(code)
    if code < 0x80 then
        return char(code)
    elseif code < 0x800 then
        return char(0xC0 + math.floor(code / 64), 0x80 + code % 64)
    elseif code < 0x10000 then
        return char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
    end
    return char(0xF0 + math.floor(code / 262144), 0x80 + math.floor(code / 4096) % 64,
                0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
end

local function hex4(text, position)
    local digits = string.match(text, '^%x%x%x%x', position)
    return digits and tonumber(digits, 16)
end

-- The character of a \uXXXX escape (or a surrogate pair of them) and the position after it.
local function unicode_escape(text, position)
    local code = hex4(text, position + 2)
    if not code then
        return nil
    elseif code < 0xD800 or code > 0xDFFF then
        return utf8(code), position + 6
    elseif code >= 0xDC00 or sub(text, position + 6, position + 7) ~= '\\u' then
        return nil
    end
    local low = hex4(text, position + 8)
    if not low or low < 0xDC00 or low > 0xDFFF then
        return nil
    end
    return utf8((code - 0xD800) * 1024 + (low - 0xDC00) + 0x10000), position + 12
end

-- Token functions return type, value, column. Type 'error' has the message as its value.
local function string_token(state, column)
    local text = state.text
    local position = state.position + 1
    local pieces
    while true do
        local stop = find(text, '["\\%z]', position)
        local mark = stop and byte(text, stop) or 0
        if mark == 34 then
            state.position = stop + 1
            local tail = sub(text, position, stop - 1)
            if pieces then
                pieces[#pieces + 1] = tail
                tail = concat(pieces)
            end
            return 'string', tail, column
        elseif mark == 0 then
            return 'error', 'unexpected end of string', (stop or #text + 1) - state.line_start
        end
        pieces = pieces or {}
        pieces[#pieces + 1] = sub(text, position, stop - 1)
        local letter = sub(text, stop + 1, stop + 1)
        local decoded = UNESCAPES[letter]
        position = stop + 2
        if letter == 'u' then
            decoded, position = unicode_escape(text, stop)
        end
        if not decoded then
            return 'error', letter == 'u' and 'invalid unicode escape code' or 'invalid escape code',
                stop - state.line_start
        end
        pieces[#pieces + 1] = decoded
    end
end

local function int64(digits)
    digits = gsub(digits, '^0+(%d)', '%1')
    if #digits > 20 then
        return MAX_UINT64
    end
    local high, low = tonumber(sub(digits, 1, -10)) or 0, tonumber(sub(digits, -9))
    if high > 18446744073 or (high == 18446744073 and low > 709551615) then
        return MAX_UINT64
    end
    return ffi.cast('uint64_t', high) * 1000000000ULL + ffi.cast('uint64_t', low)
end

local function integer_value(sign, digits)
    local number = tonumber(digits)
    if number <= MAX_PLAIN_INTEGER then
        return sign == '-' and -number or number
    end
    local magnitude = int64(digits)
    if sign ~= '-' then
        return magnitude > 9223372036854775806ULL and magnitude or ffi.cast('int64_t', magnitude)
    elseif magnitude > 9223372036854775807ULL then
        return -MAX_INT64 - 1LL
    end
    return -ffi.cast('int64_t', magnitude)
end

local function number_token(state, column)
    local text, position = state.text, state.position
    local _, stop, sign, digits = find(text, '^(%-?)(%d+)', position)
    if not find(text, '^[.eE]', stop + 1) then
        state.position = stop + 1
        local value = integer_value(sign, digits)
        return ffi.istype('uint64_t', value) and 'unsigned int' or 'int', value, column
    end
    local _, fraction = find(text, '^%.%d*', stop + 1)
    stop = fraction or stop
    local _, exponent = find(text, '^[eE][-+]?%d+', stop + 1)
    stop = exponent or stop
    state.position = stop + 1
    return 'number', tonumber(sub(text, position, stop)), column
end

local LITERALS = {{'true', 'boolean', true}, {'false', 'boolean', false}, {'null', 'null', NULL}}
local INVALID_NUMBERS = {{'inf', math.huge}, {'-inf', -math.huge}, {'nan', 0 / 0}, {'-nan', 0 / 0}}

local function word_token(state, column)
    local text, position = state.text, state.position
    for i = 1, #LITERALS do
        local literal = LITERALS[i]
        if sub(text, position, position + #literal[1] - 1) == literal[1] then
            state.position = position + #literal[1]
            return literal[2], literal[3], column
        end
    end
    if state.cfg.decode_invalid_numbers then
        for i = 1, #INVALID_NUMBERS do
            local literal = INVALID_NUMBERS[i]
            if sub(text, position, position + #literal[1] - 1) == literal[1] then
                state.position = position + #literal[1]
                return 'number', literal[2], column
            end
        end
    end
    return 'error', 'invalid token', column
end

local function skip_space(state)
    local text, position = state.text, state.position
    while true do
        position = find(text, '[^ \t\r]', position) or #text + 1
        if byte(text, position) ~= 10 then
            state.position = position
            return
        end
        position = position + 1
        state.line = state.line + 1
        state.line_start = position
    end
end

local function next_token(state)
    skip_space(state)
    local text, position = state.text, state.position
    local column = position - state.line_start
    local first = sub(text, position, position)
    if PUNCTUATION[first] then
        state.position = position + 1
        return PUNCTUATION[first], nil, column
    elseif first == '"' then
        return string_token(state, column)
    elseif first == '' or first == '\0' then
        return 'end', nil, column
    elseif find(text, '^%-?[1-9]', position) or (find(text, '^%-?0', position)
            and not find(text, '^%-?0[xX0-9]', position)) then
        return number_token(state, column)
    end
    return word_token(state, column)
end

-- ---- decoding: values -----------------------------------------------------------------------

local parse_value

local function unexpected(state, expected, kind, value, column)
    return fail(state, expected, kind == 'error' and value or kind, column)
end

local function descend(state)
    state.depth = state.depth + 1
    if state.depth > state.cfg.decode_max_depth then
        local column = state.position - state.line_start
        error(format("Found too many nested data structures (%d) on line %d at character %d here '%s'",
                     state.depth, state.line, column, context(state, column - 1)), 0)
    end
end

local function parse_array(state)
    descend(state)
    local result = {}
    if state.cfg.decode_save_metatables then
        setmetatable(result, serializer.array_mt)
    end
    local kind, value, column = next_token(state)
    local size = 0
    while kind ~= "']'" do
        size = size + 1
        result[size] = parse_value(state, kind, value, column)
        kind, value, column = next_token(state)
        if kind == 'comma' then
            kind, value, column = next_token(state)
            if kind == "']'" then
                unexpected(state, 'value', kind, value, column)
            end
        elseif kind ~= "']'" then
            unexpected(state, "comma or ']'", kind, value, column)
        end
    end
    state.depth = state.depth - 1
    return result
end

local function parse_object(state)
    descend(state)
    local result = {}
    if state.cfg.decode_save_metatables then
        setmetatable(result, serializer.map_mt)
    end
    local kind, key, column = next_token(state)
    local first = true
    while not (first and kind == "'}'") do
        first = false
        if kind ~= 'string' then
            unexpected(state, 'object key string', kind, key, column)
        end
        local mark, _, mark_column = next_token(state)
        if mark ~= 'colon' then
            unexpected(state, 'colon', mark, _, mark_column)
        end
        result[key] = parse_value(state, next_token(state))
        kind, key, column = next_token(state)
        if kind == "'}'" then
            break
        elseif kind ~= 'comma' then
            unexpected(state, "comma or '}'", kind, key, column)
        end
        kind, key, column = next_token(state)
    end
    state.depth = state.depth - 1
    return result
end

parse_value = function(state, kind, value, column)
    if kind == 'string' or kind == 'boolean' or kind == 'null' then
        return value
    elseif kind == 'int' or kind == 'unsigned int' then
        return value
    elseif kind == 'number' then
        if type(value) == 'number' and value - value ~= 0 and not state.cfg.decode_invalid_numbers then
            error('number must not be NaN or Inf', 0)
        end
        return value
    elseif kind == "'{'" then
        return parse_object(state)
    elseif kind == "'['" then
        return parse_array(state)
    end
    return unexpected(state, 'value', kind, value, column)
end

local function decode(cfg, text)
    if #text >= 2 and find(sub(text, 1, 2), '%z') then
        error('JSON parser does not support UTF-16 or UTF-32', 0)
    end
    local state = {cfg = cfg, text = text, position = 1, line = 1, line_start = 1, depth = 0}
    local result = parse_value(state, next_token(state))
    local kind, value, column = next_token(state)
    if kind ~= 'end' then
        unexpected(state, 'the end', kind, value, column)
    end
    return result
end

-- ---- the module -----------------------------------------------------------------------------

local function check_count(count)
    if count ~= 1 and count ~= 2 then
        arguments.bad(1, 'expected 1 or 2 arguments', 3)
    end
end

local function call_cfg(cfg, count, overrides)
    if count == 1 then
        return cfg
    elseif type(overrides) ~= 'table' then
        error(format('attempt to index a %s value', type(overrides)), 3)
    end
    return serializer.with_options(cfg, overrides)
end

-- What encode() or decode() gave; its error stands where the caller is.
local function finish(ok, ...)
    if not ok then
        local problem = ...
        error(problem, 3)
    end
    return ...
end

local function new()
    local cfg = serializer.options()
    return {
        encode = function(...)
            local value, overrides = ...
            check_count(select('#', ...))
            local result = finish(pcall(encode, call_cfg(cfg, select('#', ...), overrides), value))
            return result
        end,
        decode = function(...)
            local text, overrides = ...
            check_count(select('#', ...))
            if type(text) == 'number' then
                text = tostring(text)
            elseif type(text) ~= 'string' then
                arguments.bad(1, arguments.expected('string', text), 2)
            end
            local result = finish(pcall(decode, call_cfg(cfg, select('#', ...), overrides), text))
            return result
        end,
        new = new,
        cfg = serializer.public_cfg(cfg),
        NULL = NULL,
        null = NULL,
        array_mt = serializer.array_mt,
        map_mt = serializer.map_mt,
    }
end

return new()
