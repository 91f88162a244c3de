-- require('decimal'): exact numbers of up to 38 digits, as cdata with arithmetic; MessagePack extension 1.
local ffi = require('ffi')
local msgpack = require('internal.msgpack')
local python = require('internal.python')

local error, tostring, type = error, tostring, type

local EXTENSION = 1

-- The digits as text: 38 of them, a sign, a point and a zero before it.
ffi.cdef('struct lunabox_decimal { uint8_t _size; char _text[47]; };')
local decimal_type = ffi.typeof('struct lunabox_decimal')

local function is_decimal(value)
    return type(value) == 'cdata' and ffi.istype(decimal_type, value)
end

local function text_of(number)
    return ffi.string(number._text, number._size)
end

local function of_text(text)
    local number = ffi.new(decimal_type)
    number._size = #text
    ffi.copy(number._text, text, #text)
    return number
end

-- ---- conversion ------------------------------------------------------------------------------

local CDATA_NUMBERS = {}
for _, name in ipairs({'int8_t', 'int16_t', 'int32_t', 'int64_t', 'uint8_t', 'uint16_t', 'uint32_t', 'uint64_t'}) do
    CDATA_NUMBERS[tonumber(ffi.typeof(name))] = function(value)
        return (tostring(value):gsub('[UL]+$', ''))
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
        return python.decimal_parse_double(value)
    elseif kind == 'string' then
        return python.decimal_parse(value)
    end
    local convert = kind == 'cdata' and CDATA_NUMBERS[tonumber(ffi.typeof(value))]
    if not convert then
        error(('expected decimal, number or string as %d argument'):format(position), 4)
    end
    return convert(value)
end

-- The canonical text of a decimal, number or string.
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

local function new(value)
    if type(value) == 'nil' then
        error('usage: decimal.new(value)', 2)
    end
    local text = operand(value, 1)
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
    return function(value)
        if type(value) == 'nil' then
            error(('usage: decimal.%s(decimal)'):format(name), 2)
        end
        local a = operand(value, 1)
        local number = result(python.decimal_unary(name, a))
        return number
    end
end

local function check_decimal(value, usage)
    if type(value) == 'nil' then
        error('usage: ' .. usage, 3)
    elseif not is_decimal(value) then
        error(('expected %s as 1 argument'):format(type(value) == 'cdata' and 'decimal' or 'cdata'), 3)
    end
    return text_of(value)
end

local function scaling(name)
    return function(value, scale)
        local usage = ('decimal.%s(decimal, scale)'):format(name)
        if type(scale) == 'nil' then
            error('usage: ' .. usage, 2)
        end
        local text = check_decimal(value, usage)
        return of_text(python.decimal_scaling(name, text, tonumber(scale) or 0))
    end
end

local function scale(value)
    return python.decimal_scale(check_decimal(value, 'decimal.scale(decimal)'))
end

local function precision(value)
    return python.decimal_precision(check_decimal(value, 'decimal.precision(decimal)'))
end

local function trim(value)
    return of_text(python.decimal_unary('trim', check_decimal(value, 'decimal.trim(decimal)')))
end

local LESS, EQUAL = 0, 1

local function equal(left, right)
    -- `==` itself would come here again.
    if type(left) == 'nil' or type(right) == 'nil' or ffi.istype('void *', left) or ffi.istype('void *', right) then
        return false
    end
    local a, b = operand(left, 1), operand(right, 2)
    return python.decimal_compare(a, b) == EQUAL
end

local function less(left, right)
    local a, b = operand(left, 1), operand(right, 2)
    return python.decimal_compare(a, b) == LESS
end

local function less_or_equal(left, right)
    local a, b = operand(left, 1), operand(right, 2)
    return python.decimal_compare(a, b) <= EQUAL
end

ffi.metatype(decimal_type, {
    __add = binary('add'), __sub = binary('sub'), __mul = binary('mul'), __div = binary('div'), __mod = binary('mod'),
    __pow = binary('pow'), __unm = unary('minus'),
    __eq = equal, __lt = less, __le = less_or_equal,
    __tostring = text_of,
})

msgpack.register(decimal_type, function(number)
    return python.decimal_pack(text_of(number))
end)
msgpack.register_extension(EXTENSION, function(body)
    local text = python.decimal_unpack(body)
    return text and of_text(text) or error('Invalid MsgPack - decimal', 0)
end)

return {
    new = new,
    is_decimal = is_decimal,
    abs = unary('abs'), exp = unary('exp'), ln = unary('ln'), log10 = unary('log10'), sqrt = unary('sqrt'),
    round = scaling('round'), rescale = scaling('rescale'), scale = scale, precision = precision, trim = trim,
}
