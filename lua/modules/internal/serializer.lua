-- Classifies Lua values for the text serializers (yaml, json, the console), and holds the options of
-- their `cfg` tables.
--
-- classify(cfg, value) returns one of the kinds below and what to render:
--
--   NIL, BOOLEAN   the text null, true, false
--   INTEGER        decimal digits; whole doubles below 2^64 are integers too
--   DOUBLE         text of `precision` significant digits
--   STRING         the string itself
--   EXTENSION      the text of a decimal, uuid, datetime or interval
--   ARRAY          table, size, compact      (compact: YAML flow style is asked for)
--   MAP            table, nil, compact
local ffi = require('ffi')
local marks = require('internal.marks')

local floor, format = math.floor, require('internal.string_format').of_luajit
local next, select, type, tostring, tonumber = next, select, type, tostring, tonumber
local rawget, pcall, error = rawget, pcall, error
local getmetatable = debug.getmetatable

-- How often the result of __serialize may have a __serialize of its own.
local MAX_CONVERSIONS = 128

local NIL, BOOLEAN, INTEGER, DOUBLE, STRING, EXTENSION, ARRAY, MAP = 1, 2, 3, 4, 5, 6, 7, 8

local DEFAULTS = {
    encode_sparse_convert = true,
    encode_sparse_ratio = 2,
    encode_sparse_safe = 10,
    encode_max_depth = 128,
    encode_deep_as_nil = false,
    encode_invalid_numbers = true,
    encode_number_precision = 14,
    encode_load_metatables = true,
    encode_use_tostring = false,
    encode_invalid_as_nil = false,
    decode_invalid_numbers = true,
    decode_save_metatables = true,
    decode_max_depth = 128,
}

-- The options in Tarantool's order, which is the order in which a console shows them.
local NAMES = {
    'encode_sparse_convert', 'encode_sparse_ratio', 'encode_sparse_safe', 'encode_max_depth', 'encode_deep_as_nil',
    'encode_invalid_numbers', 'encode_number_precision', 'encode_load_metatables', 'encode_use_tostring',
    'encode_invalid_as_nil', 'decode_invalid_numbers', 'decode_save_metatables', 'decode_max_depth',
}

-- Makes the options that a serializer instance reads. The public `cfg` of a module is a copy: to assign to cfg.key
-- has no effect, to call cfg{key = value} has.
local function options(overrides)
    local result = {}
    for name, value in pairs(DEFAULTS) do
        result[name] = value
    end
    for name, value in pairs(overrides or {}) do
        result[name] = value
    end
    return result
end

local function coerce(name, value)
    if type(DEFAULTS[name]) == 'boolean' then
        return not not value
    end
    local number = tonumber(value) or 0
    return number >= 0 and floor(number) or -floor(-number)
end

-- Returns the options of one call: those of `overrides`, and those of the instance for the rest.
local function with_options(cfg, overrides)
    local result = {}
    for name in pairs(DEFAULTS) do
        local value = overrides[name]
        if type(value) == 'nil' then    -- box.NULL is 0
            result[name] = cfg[name]
        else
            result[name] = coerce(name, value)
        end
    end
    return result
end

-- Makes the table `module.cfg`, which can be read, and called to change `cfg`. `extra` names a switch that has no
-- default and is not among the options until somebody sets it.
local function public_cfg(cfg, extra)
    local public = {}
    for _, name in ipairs(NAMES) do
        public[name] = cfg[name]
    end
    return setmetatable(public, {
        __call = function(self, ...)
            local changes = ...
            if type(changes) ~= 'table' then
                local given = select('#', ...) == 0 and 'no value' or type(changes)
                -- Loaded here: a test runs this module alone in Tarantool.
                require('internal.arguments').bad(2, 'table expected, got ' .. given, 2)
            end
            for name in pairs(DEFAULTS) do
                if changes[name] ~= nil then
                    cfg[name] = coerce(name, changes[name])
                    self[name] = changes[name]
                end
            end
            if extra ~= nil and changes[extra] ~= nil then
                cfg[extra] = not not changes[extra]
                self[extra] = cfg[extra]
            end
        end,
    })
end

-- ---- numbers --------------------------------------------------------------------------------

local NUMBER_FORMATS = {}
for precision = 1, 17 do
    NUMBER_FORMATS[precision] = '%.' .. precision .. 'g'
end

-- Reads the sign bit, which no comparison shows for a NaN.
local function is_negative(number)
    return ffi.cast('const uint8_t *', ffi.new('double[1]', number))[7] >= 128
end

-- Raises an error object of type LuajitError without a place, as Tarantool does here.
local function raise(problem)
    error(require('internal.error').from_serializer(problem), 0)
end

local function double_text(cfg, number)
    if number ~= number then
        return is_negative(number) and '-nan' or 'nan'
    elseif number == math.huge then
        return 'inf'
    elseif number == -math.huge then
        return '-inf'
    end
    return format(NUMBER_FORMATS[cfg.encode_number_precision] or '%.14g', number)
end

local function classify_double(cfg, number)
    local finite = number - number == 0
    if not finite and not cfg.encode_invalid_numbers then
        if not cfg.encode_invalid_as_nil then
            raise('number must not be NaN or Inf')
        end
        return NIL, 'null'
    end
    return DOUBLE, double_text(cfg, number)
end

-- Lua writes whole numbers below it with all their digits, which is compiled; string.format() is not.
local WRITTEN_WHOLE = 1e14

local function classify_number(cfg, number)
    if number == floor(number) and number < 2 ^ 64 and number >= -2 ^ 63 then
        if number > -WRITTEN_WHOLE and number < WRITTEN_WHOLE then
            return INTEGER, number == 0 and '0' or number .. ''
        end
        return INTEGER, format('%.0f', number)
    end
    return classify_double(cfg, number)
end

-- ---- cdata ----------------------------------------------------------------------------------

-- Handlers by the number of the C type. The number is used, not ffi.istype, because to Tarantool too a
-- `const int64_t &` is another type.
local by_ctype = {}

local function ctype_number(ctype)
    return tonumber(ffi.typeof(ctype))
end

local classify_object

-- Returns whether a cdata is a type object such as `ffi.typeof('int')`, not a value of that type. Only its text shows
-- that.
local function is_ctype(value)
    return tostring(value):find('^ctype<') ~= nil
end

local function whole(cfg, value)
    if is_ctype(value) then
        return classify_object(cfg, value)
    end
    return INTEGER, (tostring(value):gsub('[UL]+$', ''))
end

local function small(cfg, value)
    if is_ctype(value) then
        return classify_object(cfg, value)
    end
    return INTEGER, format('%d', tonumber(value))
end

local function pointer(cfg, value, conversions)
    if value == nil then
        return NIL, 'null'
    end
    return classify_object(cfg, value, conversions)
end

by_ctype[ctype_number('int64_t')] = whole
by_ctype[ctype_number('uint64_t')] = whole
for _, name in ipairs{'char', 'int8_t', 'int16_t', 'int32_t', 'uint8_t', 'uint16_t', 'uint32_t'} do
    by_ctype[ctype_number(name)] = small
end
by_ctype[ctype_number('bool')] = function(cfg, value)
    if is_ctype(value) then
        return classify_object(cfg, value)
    end
    return BOOLEAN, tonumber(value) ~= 0 and 'true' or 'false'
end
for _, name in ipairs{'float', 'double'} do
    by_ctype[ctype_number(name)] = function(cfg, value)
        if is_ctype(value) then
            return classify_object(cfg, value)
        end
        return classify_double(cfg, tonumber(value))
    end
end
by_ctype[ctype_number('void *')] = pointer
by_ctype[ctype_number('const void *')] = pointer

local function index_serialize(value)
    return value.__serialize
end

local function extension(cfg, value)
    local text = tostring(value)
    if text:find('^ctype<') then
        return classify_object(cfg, value)
    end
    return EXTENSION, text
end

local TEXT_TYPES = {
    ['ctype<struct tt_uuid>'] = true, ['ctype<struct datetime>'] = true, ['ctype<struct interval>'] = true,
}

-- Finds the handler of a new C type by its first value: uuids, decimals, datetimes and intervals are shown as their
-- text. A decimal is recognised by its module, without which there are no decimals.
local function learn(number, value)
    local decimal = package.loaded.decimal
    local handler = classify_object
    if TEXT_TYPES[tostring(ffi.typeof(value))] then
        handler = extension
    elseif decimal and decimal.is_decimal and decimal.is_decimal(value) then
        handler = extension
    end
    by_ctype[number] = handler
    return handler
end

-- ---- tables ---------------------------------------------------------------------------------

local SERIALIZE_HINTS = {
    seq = {ARRAY, true}, sequence = {ARRAY, false}, array = {ARRAY, false},
    map = {MAP, true}, mapping = {MAP, false},
}

-- Returns the size of a table that is marked as an array: the largest integer key, holes included.
local function array_length(value)
    local max = 0
    for key in next, value do
        if type(key) == 'number' and key > max and floor(key) == key then
            max = key
        end
    end
    return max
end

local classify

-- Classifies the result of a __serialize, which may have a __serialize itself; raises an error if that happens too
-- often.
local function classify_converted(cfg, value, conversions)
    if conversions == MAX_CONVERSIONS then
        error('Too high nest level', 0)
    end
    return classify(cfg, value, conversions + 1)
end

local function classify_hinted(cfg, value, hint, conversions)
    if type(hint) == 'function' then
        local ok, result = pcall(hint, value)
        if not ok then
            raise(result)
        end
        return classify_converted(cfg, result, conversions or 0)
    end
    local kind = SERIALIZE_HINTS[hint]
    if kind == nil then
        raise('invalid __serialize value')
    end
    if kind[1] == ARRAY then
        return ARRAY, value, array_length(value), kind[2]
    end
    return MAP, value, nil, kind[2]
end

local function classify_table(cfg, value, conversions)
    if cfg.encode_load_metatables then
        local meta = getmetatable(value)
        local hint = meta and rawget(meta, '__serialize')
        if hint ~= nil then
            return classify_hinted(cfg, value, hint, conversions)
        end
    end
    local size, max = 0, 0
    for key in next, value do
        size = size + 1
        -- Compares the type first, because a decimal or 1ULL may equal a number.
        if type(key) ~= 'number' or key ~= size and (key < 1 or floor(key) ~= key) then
            return MAP, value, nil, false
        end
        if key > max then
            max = key
        end
    end
    local ratio = cfg.encode_sparse_ratio
    if ratio > 0 and max > size * ratio and max > cfg.encode_sparse_safe then
        if not cfg.encode_sparse_convert then
            raise('excessively sparse array')
        end
        return MAP, value, nil, false
    end
    return ARRAY, value, max, false
end

-- ---- the rest -------------------------------------------------------------------------------

classify_object = function(cfg, value, conversions)
    if cfg.encode_load_metatables then
        local ok, hint = pcall(index_serialize, value)
        -- A type has the methods of its values, but none of their members.
        if ok and hint ~= nil and not (type(value) == 'cdata' and is_ctype(value)) then
            if type(hint) ~= 'function' then
                raise('invalid __serialize value')
            end
            -- If the __serialize of cdata or userdata fails, its message is the value.
            local _, result = pcall(hint, value)
            return classify_converted(cfg, result, conversions or 0)
        end
    end
    if cfg.encode_use_tostring then
        return classify(cfg, tostring(value))
    elseif cfg.encode_invalid_as_nil then
        return NIL, 'null'
    end
    error(format("unsupported Lua type '%s'", type(value)), 0)
end

local function classify_unsupported(cfg, value)
    if cfg.encode_use_tostring then
        return STRING, tostring(value)
    elseif cfg.encode_invalid_as_nil then
        return NIL, 'null'
    end
    error(format("unsupported Lua type '%s'", type(value)), 0)
end

local by_type = {
    ['nil'] = function() return NIL, 'null' end,
    boolean = function(cfg, value) return BOOLEAN, value and 'true' or 'false' end,
    number = classify_number,
    string = function(cfg, value) return STRING, value end,
    table = classify_table,
    ['function'] = classify_unsupported,
    thread = classify_unsupported,
    userdata = function(cfg, value, conversions)
        if value == nil then
            return NIL, 'null'
        end
        return classify_object(cfg, value, conversions)
    end,
    cdata = function(cfg, value, conversions)
        local number = tonumber(ffi.typeof(value))
        return (by_ctype[number] or learn(number, value))(cfg, value, conversions)
    end,
}

classify = function(cfg, value, conversions)
    return by_type[type(value)](cfg, value, conversions)
end

return {
    NIL = NIL, BOOLEAN = BOOLEAN, INTEGER = INTEGER, DOUBLE = DOUBLE,
    STRING = STRING, EXTENSION = EXTENSION, ARRAY = ARRAY, MAP = MAP,
    DEFAULTS = DEFAULTS,
    classify = classify,
    options = options,
    with_options = with_options,
    public_cfg = public_cfg,
    array_mt = marks.array_mt,
    map_mt = marks.map_mt,
    NULL = ffi.cast('void *', 0),
}
