-- Encodes Lua values to JSON, in memory that belongs to one call and grows.
--
-- Every `put_*` takes the position to write at and returns the next one. A library function searches strings for
-- characters to escape, so that a plain string needs no loop of its own and the JIT compiles the loops around it.
local ffi = require('ffi')
local serializer = require('internal.serializer')

local classify = serializer.classify
local ARRAY, MAP, INTEGER, DOUBLE = serializer.ARRAY, serializer.MAP, serializer.INTEGER, serializer.DOUBLE
local STRING, EXTENSION = serializer.STRING, serializer.EXTENSION
local byte, char, format, floor, max = string.byte, string.char, string.format, math.floor, math.max
local error, next, rawget, tostring, type = error, next, rawget, tostring, type

ffi.cdef('uint32_t lunabox_plain_size(const char *, const char *) __asm__("strcspn");')
local plain_size = ffi.C.lunabox_plain_size
local bytes_type = ffi.typeof('uint8_t[?]')
local byte_pointer = ffi.typeof('const uint8_t *')
local ffi_copy, ffi_cast = ffi.copy, ffi.cast

local INITIAL_SIZE = 512
-- Up to this number the text of `tostring` is valid JSON for whole numbers and for doubles of the default precision.
local EXACT_LIMIT, USUAL_PRECISION = 1e14, 14
local QUOTE, COMMA, COLON, OPEN_ARRAY, CLOSE_ARRAY, OPEN_MAP, CLOSE_MAP = byte('",:[]{}', 1, 7)

-- The escaped characters except the null byte, and their escapes.
local SPECIALS, ESCAPES = '"\\/\127', {
    ['"'] = '\\"', ['\\'] = '\\\\', ['/'] = '\\/', ['\b'] = '\\b', ['\t'] = '\\t', ['\n'] = '\\n',
    ['\f'] = '\\f', ['\r'] = '\\r', ['\127'] = '\\u007f',
}
for code = 0, 31 do
    local control = char(code)
    ESCAPES[control] = ESCAPES[control] or format('\\u%04x', code)
    SPECIALS = code > 0 and SPECIALS .. control or SPECIALS
end
local escapes = {}
for special, escape in next, ESCAPES do
    escapes[byte(special)] = escape
end

-- Returns the memory with room for `size` more bytes at `pos`.
local function room(out, pos, size)
    if pos + size > out.capacity then
        local capacity = max(pos + size, out.capacity * 2)
        local larger = ffi.new(bytes_type, capacity)
        ffi_copy(larger, out.memory, pos)
        out.memory, out.capacity = larger, capacity
    end
    return out.memory
end

local function put_byte(out, pos, code)
    room(out, pos, 1)[pos] = code
    return pos + 1
end

local function put_bytes(out, pos, text)
    local size = #text
    ffi_copy(room(out, pos, size) + pos, text, size)
    return pos + size
end

local function put_escaped(out, pos, text, from)
    local size, p = #text, ffi_cast(byte_pointer, text)
    while from < size do
        local escape = escapes[p[from]]
        if escape then
            pos = put_bytes(out, pos, escape)
        else
            room(out, pos, 1)[pos] = p[from]
            pos = pos + 1
        end
        from = from + 1
    end
    return pos
end

local function put_string(out, pos, text)
    local size = #text
    local plain = plain_size(text, SPECIALS)
    local memory = room(out, pos, size + 2)
    memory[pos] = QUOTE
    ffi_copy(memory + pos + 1, text, plain)
    pos = pos + 1 + plain
    if plain < size then
        pos = put_escaped(out, pos, text, plain)
        memory = room(out, pos, 1)
    end
    memory[pos] = QUOTE
    return pos + 1
end

local put, put_classified

local function put_number(cfg, out, pos, depth, number)
    if floor(number) == number then
        if number < EXACT_LIMIT and number > -EXACT_LIMIT then
            return put_bytes(out, pos, number == 0 and '0' or tostring(number))
        end
    elseif number == number and cfg.encode_number_precision == USUAL_PRECISION then
        return put_bytes(out, pos, tostring(number))
    end
    return put_classified(cfg, out, pos, depth, classify(cfg, number))
end

local function put_array(cfg, out, pos, depth, value, size)
    pos = put_byte(out, pos, OPEN_ARRAY)
    for i = 1, size do
        if i > 1 then
            pos = put_byte(out, pos, COMMA)
        end
        pos = put(cfg, out, pos, depth, rawget(value, i))
    end
    return put_byte(out, pos, CLOSE_ARRAY)
end

local function put_key(cfg, out, pos, key)
    local kind, text = STRING, key
    if type(key) ~= 'string' then
        kind, text = classify(cfg, key)
    end
    if kind ~= STRING and kind ~= INTEGER then
        error('table key must be a number or string', 0)
    end
    return put_byte(out, put_string(out, pos, text), COLON)
end

local function put_map(cfg, out, pos, depth, map)
    pos = put_byte(out, pos, OPEN_MAP)
    local first = true
    for key, item in next, map do
        if not first then
            pos = put_byte(out, pos, COMMA)
        end
        first = false
        pos = put(cfg, out, put_key(cfg, out, pos, key), depth, item)
    end
    return put_byte(out, pos, CLOSE_MAP)
end

function put_classified(cfg, out, pos, depth, kind, value, size)
    if kind == ARRAY or kind == MAP then
        if depth < cfg.encode_max_depth then
            if kind == ARRAY then
                return put_array(cfg, out, pos, depth + 1, value, size)
            end
            return put_map(cfg, out, pos, depth + 1, value)
        elseif not cfg.encode_deep_as_nil then
            error('Too high nest level', 0)
        end
        value = 'null'
    elseif kind == STRING or kind == EXTENSION then
        return put_string(out, pos, value)
    elseif kind == DOUBLE and value == '-nan' then
        value = 'nan'
    end
    return put_bytes(out, pos, value)
end

function put(cfg, out, pos, depth, value)
    local kind = type(value)
    if kind == 'string' then
        return put_string(out, pos, value)
    elseif kind == 'number' then
        return put_number(cfg, out, pos, depth, value)
    elseif kind == 'boolean' then
        return put_bytes(out, pos, value and 'true' or 'false')
    end
    return put_classified(cfg, out, pos, depth, classify(cfg, value))
end

-- Returns the JSON text of a value. `cfg` has the options of internal.serializer.
return function(cfg, value)
    local out = {memory = ffi.new(bytes_type, INITIAL_SIZE), capacity = INITIAL_SIZE}
    local size = put(cfg, out, 0, 0, value)
    return ffi.string(out.memory, size)
end
