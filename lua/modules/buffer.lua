-- require('buffer'): growing buffers of bytes, written at wpos and read at rpos. Pointers into a buffer are valid
-- until it grows or is recycled.
local ffi = require('ffi')

local error, tonumber, type = error, tonumber, type

local READAHEAD = 16320
-- A buffer grows to a power of two less the bytes that the allocator needs for itself.
local OVERHEAD = 48
local LARGEST = 2 ^ 46

ffi.cdef([[
    struct ibuf {
        char *buf;
        char *rpos;
        char *wpos;
        char *epos;
    };
    void *realloc(void *memory, size_t size);
    void free(void *memory);
]])

local ibuf_type = ffi.typeof('struct ibuf')
local char_pointer = ffi.typeof('char *')
local methods = {}

local function check(buffer, method)
    if type(buffer) ~= 'cdata' or not ffi.istype(ibuf_type, buffer) then
        error(('Attempt to call method without object, use ibuf:%s()'):format(method))
    end
end

-- Converts a number of bytes like a C size_t: a fraction is cut off, and a negative number becomes huge. With `position`
-- what cannot be added to a pointer gets LuaJIT's error for that, as in Tarantool.
local function bytes(size, position)
    local number = type(size) == 'number' and size
        or type(size) == 'cdata' and (ffi.istype('int64_t', size) or ffi.istype('uint64_t', size)) and tonumber(size)
    if not number then
        local _ = position and position + size
        error(("bad argument #2 to '?' (cannot convert '%s' to 'size_t')"):format(type(size)), 3)
    elseif number ~= number or number == -math.huge then
        return 2 ^ 63
    end
    return number > -1 and math.max(math.floor(number), 0) or number + 2 ^ 64
end

function methods.size(buffer)
    check(buffer, 'size')
    return tonumber(buffer.wpos - buffer.rpos)
end

function methods.capacity(buffer)
    check(buffer, 'capacity')
    return tonumber(buffer.epos - buffer.buf)
end

-- Offset of the read position.
function methods.pos(buffer)
    check(buffer, 'pos')
    return tonumber(buffer.rpos - buffer.buf)
end

function methods.unused(buffer)
    check(buffer, 'unused')
    return tonumber(buffer.epos - buffer.wpos)
end

local function release(buffer)
    ffi.C.free(buffer.buf)
end

-- Free the memory.
function methods.recycle(buffer)
    check(buffer, 'recycle')
    release(buffer)
    buffer.buf, buffer.rpos, buffer.wpos, buffer.epos = nil, nil, nil, nil
end

-- Discard the contents.
function methods.reset(buffer)
    check(buffer, 'reset')
    buffer.rpos, buffer.wpos = buffer.buf, buffer.buf
end

-- Returns the text of a size as C shows it: numbers that 64 bits do not hold are the least one.
local function shown(size)
    local number = tonumber(size)
    return number > -2 ^ 63 and number < 2 ^ 63 and ('%.0f'):format(number - math.fmod(number, 1))
        or '-9223372036854775808'
end

local function raise_no_memory(size)
    error(('Failed to allocate %s bytes in ibuf'):format(shown(size)))
end

-- Makes room for `size` bytes, of which the user has written `given`.
local function grow(buffer, size, given)
    local used, read = tonumber(buffer.wpos - buffer.buf), tonumber(buffer.rpos - buffer.buf)
    if size > LARGEST then
        raise_no_memory(given)
    end
    local capacity = 16384
    while capacity - OVERHEAD < used + size do
        capacity = capacity * 2
    end
    capacity = capacity - OVERHEAD
    local memory = ffi.cast(char_pointer, ffi.C.realloc(buffer.buf, capacity))
    if memory == nil then
        raise_no_memory(given)
    end
    buffer.buf, buffer.rpos, buffer.wpos, buffer.epos = memory, memory + read, memory + used, memory + capacity
end

-- Make room for `size` more bytes. Returns a pointer to it.
function methods.reserve(buffer, size)
    check(buffer, 'reserve')
    local count = bytes(size, buffer.wpos)
    if buffer.epos - buffer.wpos < count then
        grow(buffer, count, size)
    end
    return buffer.wpos
end

-- Make room for `size` more bytes and count them as written. Returns a pointer to them.
function methods.alloc(buffer, size)
    check(buffer, 'alloc')
    local count = bytes(size, buffer.wpos)
    if buffer.epos - buffer.wpos < count then
        grow(buffer, count, size)
    end
    local position = buffer.wpos
    buffer.wpos = position + count
    return position
end

-- Checks that `count` bytes are there; the user has written `size`.
local function check_size(buffer, count, size)
    local have = tonumber(buffer.wpos - buffer.rpos)
    if count > have then
        error(('Attempt to read out of range bytes: needed=%s size=%d'):format(shown(size), have))
    end
end

-- Returns a pointer to the read position. Raises if fewer than `size` bytes are left.
function methods.checksize(buffer, size)
    check(buffer, 'checksize')
    check_size(buffer, bytes(size, buffer.rpos), size)
    return buffer.rpos
end

-- Counts `size` bytes as read. Returns a pointer to them. Raises if fewer are left.
function methods.read(buffer, size)
    check(buffer, 'read')
    local count = bytes(size, buffer.rpos)
    check_size(buffer, count, size)
    local position = buffer.rpos
    buffer.rpos = position + count
    return position
end

function methods.__serialize(buffer)
    return {ibuf = {rpos = buffer.rpos, wpos = buffer.wpos}}
end

ffi.metatype(ibuf_type, {
    __index = methods,
    __gc = release,
    __tostring = function()
        return '<ibuf>'
    end,
})

local function ibuf(size)
    local buffer = ffi.new(ibuf_type)
    if type(size) == 'number' then
        buffer:reserve(size)
    elseif size ~= nil then
        error('Usage: ibuf([size])')
    end
    return buffer
end

-- A pool of one object of a type, which is taken and put back instead of allocated anew.
local function ffi_stash_new(ctype)
    local item

    local function take()
        local taken = item
        item = nil
        return taken or ffi.new(ctype)
    end

    local function put(object)
        item = object
    end

    return {take = take, put = put}
end

return {ibuf = ibuf, READAHEAD = READAHEAD, ffi_stash_new = ffi_stash_new}
