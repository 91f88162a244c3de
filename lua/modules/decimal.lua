-- require('decimal'): exact numbers of up to 38 digits, as cdata with arithmetic; MessagePack extension 1.
local ffi = require('ffi')
local msgpack = require('internal.msgpack')
local python = require('internal.python')

local error, tostring, type = error, tostring, type
local band, bor, lshift, rshift = bit.band, bit.bor, bit.lshift, bit.rshift

local EXTENSION = 1

-- The bytes of a decimal as text: 38 digits, a sign, a point and a zero before it. `_zeros` is a positive exponent: 1e3 is
-- the digit 1 with three such zeros, 1000 has none.
ffi.cdef('struct lunabox_decimal { uint8_t _size; uint8_t _zeros; char _text[46]; };')
local decimal_type = ffi.typeof('struct lunabox_decimal')

local function is_decimal(value)
    return type(value) == 'cdata' and ffi.istype(decimal_type, value)
end

-- Returns the text that is shown, without an exponent.
local function shown(number)
    return ffi.string(number._text, number._size) .. ('0'):rep(number._zeros)
end

-- Returns the text for Python: a positive exponent follows an E.
local function text_of(number)
    local text, zeros = ffi.string(number._text, number._size), number._zeros
    return zeros == 0 and text or text .. 'E' .. zeros
end

-- Returns the decimal of a text from Python.
local function of_text(text)
    local number = ffi.new(decimal_type)
    local digits, zeros = text:match('^(.*)E(%d+)$')
    if digits ~= nil then
        text, number._zeros = digits, tonumber(zeros)
    end
    number._size = #text
    ffi.copy(number._text, text, #text)
    return number
end

-- ---- conversion ------------------------------------------------------------------------------

local CDATA_NUMBERS = {}
for _, name in ipairs({'int64_t', 'uint64_t'}) do
    CDATA_NUMBERS[tonumber(ffi.typeof(name))] = function(value)
        return (tostring(value):gsub('[UL]+$', ''))
    end
end
for _, name in ipairs({'char', 'int8_t', 'int16_t', 'int32_t', 'uint8_t', 'uint16_t', 'uint32_t'}) do
    CDATA_NUMBERS[tonumber(ffi.typeof(name))] = function(value)
        return ('%d'):format(tonumber(value)) -- tostring() shows the address of these
    end
end
for _, name in ipairs({'float', 'double'}) do
    CDATA_NUMBERS[tonumber(ffi.typeof(name))] = function(value)
        return python.decimal_parse_double(tonumber(value))
    end
end

local function parsed(value, position)
    local kind = type(value)
    if kind == 'number' then
        -- Python gets whole numbers as integers, which have no negative zero.
        return value == 0 and (1 / value < 0 and '-0' or '0') or python.decimal_parse_double(value)
    elseif kind == 'string' then
        return python.decimal_parse(value)
    end
    local convert = kind == 'cdata' and CDATA_NUMBERS[tonumber(ffi.typeof(value))]
    if not convert or tostring(value):find('^ctype<') then    -- a type has the type of its values, but no value
        error(('expected decimal, number or string as %d argument'):format(position), 4)
    end
    return convert(value)
end

-- Returns the text for Python of a decimal, number or string.
local function operand(value, position)
    if is_decimal(value) then
        return text_of(value)
    end
    local text = parsed(value, position)
    if text == nil then
        error(('incorrect value to convert to decimal as %d argument'):format(position), 3)
    end
    return text
end

local function result(text)
    return text and of_text(text) or error('decimal operation failed', 3)
end

local function new(...)
    if select('#', ...) == 0 then
        error('usage: decimal.new(value)', 2)
    end
    local text = operand((...), 1)
    return of_text(text)
end

-- ---- operations ------------------------------------------------------------------------------

local function binary(name)
    return function(left, right)
        local a, b = operand(left, 1), operand(right, 2)
        local number = result(python.decimal_binary(name, a, b))
        return number
    end
end

local function unary(name)
    return function(...)
        local value = ...
        if select('#', ...) == 0 then
            error(('usage: decimal.%s(decimal)'):format(name), 2)
        end
        local a = operand(value, 1)
        local number = result(python.decimal_unary(name, a))
        return number
    end
end

-- The text of the first argument, which has to be a decimal. `least` is the number of arguments that the function needs.
local function check_decimal(usage, least, ...)
    local value = ...
    if select('#', ...) < least then
        error('usage: ' .. usage, 3)
    elseif not is_decimal(value) then
        error(('expected %s as 1 argument'):format(type(value) == 'cdata' and 'decimal' or 'cdata'), 3)
    end
    return text_of(value)
end

local function scaling(name)
    local usage = ('decimal.%s(decimal, scale)'):format(name)
    return function(...)
        local text = check_decimal(usage, 2, ...)
        local number = of_text(python.decimal_scaling(name, text, tonumber((select(2, ...))) or 0))
        return number
    end
end

local function scale(...)
    local digits = python.decimal_scale(check_decimal('decimal.scale(decimal)', 1, ...))
    return digits
end

local function precision(...)
    local digits = python.decimal_precision(check_decimal('decimal.precision(decimal)', 1, ...))
    return digits
end

local function trim(...)
    local text = check_decimal('decimal.trim(decimal)', 1, ...)
    return of_text(python.decimal_unary('trim', text))
end

local LESS, EQUAL = 0, 1

local function equal(left, right)
    -- `==` would call this function again.
    if type(left) == 'nil' or type(right) == 'nil' or ffi.istype('void *', left) or ffi.istype('void *', right) then
        return false
    end
    local a, b = operand(left, 1), operand(right, 2)
    return python.decimal_compare(a, b) == EQUAL
end

local function check_order(left, right)
    if type(left) == 'nil' or type(right) == 'nil' then
        error('attempt to compare decimal with nil', 3)
    end
end

local function less(left, right)
    check_order(left, right)
    local a, b = operand(left, 1), operand(right, 2)
    return python.decimal_compare(a, b) == LESS
end

local function less_or_equal(left, right)
    check_order(left, right)
    local a, b = operand(left, 1), operand(right, 2)
    return python.decimal_compare(a, b) <= EQUAL
end

ffi.metatype(decimal_type, {
    __add = binary('add'), __sub = binary('sub'), __mul = binary('mul'), __div = binary('div'), __mod = binary('mod'),
    __pow = binary('pow'), __unm = unary('minus'),
    __eq = equal, __lt = less, __le = less_or_equal,
    __tostring = shown,
})

-- ---- MessagePack -----------------------------------------------------------------------------
--
--     +--------+---------+-------+------------------------------------------+
--     | header | type: 1 | scale | digits, half a byte each, and the sign   |
--     +--------+---------+-------+------------------------------------------+
--
-- The header is 0xc7 and the size of scale and digits, or 0xd5 .. 0xd8 for 2, 4, 8 or 16 bytes. The scale counts the
-- digits after the point; it is negative for a positive exponent, and takes two bytes below -32. An even number of digits
-- gets a zero before them. The sign is 0x0c for plus, 0x0d for minus.

local MINUS_CHAR, POINT_CHAR, ZERO_CHAR = 45, 46, 48
local PLUS, MINUS = 0x0c, 0x0d
local MAX_DIGITS = 38
local INT8, LEAST_FIXED = 0xd0, -32    -- a scale below the second needs the first before it
local FIXED_TAGS = {[2] = 0xd5, [4] = 0xd6, [8] = 0xd7, [16] = 0xd8}
-- The largest body in bytes: the scale, and half a byte for each of 38 digits, a zero before them and the sign.
local MAX_BODY = 21

-- Returns the number of significant digits, at least one, and the number of digits after the point.
local function measure(text, size)
    local count, scale, has_point = 0, 0, false
    for i = 0, size - 1 do
        local char = text[i]
        if char == POINT_CHAR then
            has_point = true
        elseif char ~= MINUS_CHAR then
            count = (count > 0 or char ~= ZERO_CHAR) and count + 1 or 0
            scale = has_point and scale + 1 or 0
        end
    end
    return count > 0 and count or 1, scale
end

msgpack.register(decimal_type, function(number, pos, buffer)
    local text, from = number._text, number._size - 1
    local count, scale = measure(text, number._size)
    if number._zeros > 0 then
        scale = -number._zeros
    end
    local is_wide = scale < LEAST_FIXED
    local size = rshift(count, 1) + 1
    local body = size + (is_wide and 2 or 1)
    local tag = FIXED_TAGS[body]
    buffer[pos] = tag or 0xc7
    if not tag then
        pos = pos + 1
        buffer[pos] = body
    end
    buffer[pos + 1] = EXTENSION
    if is_wide then
        pos = pos + 1
        buffer[pos + 1] = INT8
    end
    buffer[pos + 2] = band(scale, 0xff)
    local after = pos + 3 + size
    local is_high, half = true, text[0] == MINUS_CHAR and MINUS or PLUS
    for i = 1, 2 * size - 1 do
        if text[from] == POINT_CHAR then
            from = from - 1
        end
        local digit = i <= count and text[from] - ZERO_CHAR or 0
        from = from - 1
        if is_high then
            buffer[after - rshift(i + 1, 1)] = bor(lshift(digit, 4), half)
        end
        is_high, half = not is_high, digit
    end
    return after
end)

-- Returns a half-byte of the digits at `p + pos`, counted from 0.
local function nibble(p, pos, i)
    local both = p[pos + rshift(i, 1)]
    return band(i, 1) == 0 and rshift(both, 4) or band(both, 0x0f)
end

-- Returns the half-bytes of the first digit that is not zero and of the sign; nil if the encoder above would not have
-- made this body.
local function survey(p, pos, size)
    if size < 2 or size > MAX_BODY or p[pos] > MAX_DIGITS then
        return nil
    end
    local last, first = 2 * (size - 1) - 1, nil
    for i = 0, last - 1 do
        local digit = nibble(p, pos + 1, i)
        if digit > 9 then
            return nil
        elseif digit > 0 and first == nil then
            first = i
        end
    end
    first = first or last
    local sign = nibble(p, pos + 1, last)
    if last - first > MAX_DIGITS or sign ~= PLUS and sign ~= MINUS then
        return nil
    end
    return first, last, sign == MINUS
end

-- Returns the text of the digits from half-byte `first` up to, but without, `last`. The last `scale` digits stand after
-- the point; missing ones are zeros.
local function of_body(p, pos, first, last, is_negative)
    local number = ffi.new(decimal_type)
    local text, size, scale = number._text, 0, p[pos]
    if is_negative then
        text[0], size = MINUS_CHAR, 1
    end
    local point = last - scale
    for i = math.min(point - 1, first), last - 1 do
        if i == point then
            text[size], size = POINT_CHAR, size + 1
        end
        text[size], size = ZERO_CHAR + (i >= first and nibble(p, pos + 1, i) or 0), size + 1
    end
    number._size = size
    return number
end

msgpack.register_extension(EXTENSION, function(p, pos, size)
    local first, last, is_negative = survey(p, pos, size)
    if first then
        return of_body(p, pos, first, last, is_negative)
    end
    local text = python.decimal_unpack(ffi.string(p + pos, size))
    return text and of_text(text)
end)

return {
    new = new,
    is_decimal = function(...)
        if select('#', ...) == 0 then
            error('usage: decimal.is_decimal(value)', 2)
        end
        return is_decimal((...))
    end,
    abs = unary('abs'), exp = unary('exp'), ln = unary('ln'), log10 = unary('log10'), sqrt = unary('sqrt'),
    round = scaling('round'), rescale = scaling('rescale'), scale = scale, precision = precision, trim = trim,
}
