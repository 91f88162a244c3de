-- require('iconv'): converts texts between encodings, by iconv(3) of the system.
--     local convert = require('iconv').new('UTF-16LE', 'UTF-8')
--     convert('text')
local ffi = require('ffi')
local errno = require('errno')

local error, pcall, type = error, pcall, type

ffi.cdef([[
    struct iconv;
    struct iconv *iconv_open(const char *to, const char *from);
    int iconv_close(struct iconv *converter);
    size_t iconv(struct iconv *converter, const char **data, size_t *left, char **room, size_t *room_left);
]])

-- The functions are part of the C library, except on macOS.
local function library()
    local function has_functions()
        return ffi.C.iconv_open
    end
    return pcall(has_functions) and ffi.C or ffi.load('iconv')
end

local C = library()
local iconv_type = ffi.typeof('struct iconv')
-- With -1LL: LuaJIT 2.0 converts the number -1 to another one.
local FAILED, NO_CONVERTER = ffi.cast('size_t', -1LL), ffi.cast('struct iconv *', ffi.cast('intptr_t', -1LL))
-- The least room for the bytes of one call.
local ROOM = 64

-- As in Tarantool, the two texts are swapped.
local PROBLEMS = {[errno.EINVAL] = 'Invalid multibyte sequence', [errno.EILSEQ] = 'Incomplete multibyte sequence'}

-- Returns the text of a failure, nil if only the room was too small.
local function problem_of(number)
    if number == errno.E2BIG then
        return nil
    end
    return PROBLEMS[number] or 'Unknown conversion error: ' .. errno.strerror(number)
end

local function convert(converter, data)
    if not ffi.istype(iconv_type, converter) then
        error('Usage: iconv:convert(data: string)')
    end
    local size = data:len()
    local from, left = ffi.new('const char *[1]', ffi.cast('const char *', data)), ffi.new('size_t[1]', size)
    local capacity, parts = size > ROOM and size or ROOM, {}
    local room, to, room_left = ffi.new('char[?]', capacity), ffi.new('char *[1]'), ffi.new('size_t[1]')
    while left[0] > 0 do
        to[0], room_left[0] = room, capacity
        local failed = C.iconv(converter, from, left, to, room_left) == FAILED
        local problem = failed and problem_of(ffi.errno())
        if problem then
            C.iconv(converter, nil, nil, nil, nil)
            error(problem)
        end
        parts[#parts + 1] = ffi.string(room, capacity - tonumber(room_left[0]))
    end
    C.iconv(converter, nil, nil, nil, nil)    -- back to the state of the beginning
    return table.concat(parts)
end

ffi.metatype(iconv_type, {
    __call = convert,
    __gc = function(converter)
        C.iconv_close(converter)
    end,
    __tostring = function(converter)
        return ('iconv: %p'):format(converter)
    end,
})

local function new(to, from)
    if type(to) ~= 'string' or type(from) ~= 'string' then
        error('Usage: iconv.new("CP1251", "KOI8-R")')
    end
    local converter = C.iconv_open(to, from)
    if converter == NO_CONVERTER then
        error('iconv: ' .. errno.strerror(ffi.errno()))
    end
    return converter
end

return {new = new}
