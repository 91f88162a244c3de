-- require('errno'): the last error number, its constants and texts.
--
-- What a call of ours has failed with is also kept here: calls into Python reset the C library's number to 0, so that a
-- mere print() between a failure and errno() would hide it. Another number of the C library is that of a later call
-- through the FFI, and counts.
local ffi = require('ffi')
local msgpack = require('internal.msgpack')
local python = require('internal.python')

ffi.cdef('char *strerror(int number);')

local constants = setmetatable(msgpack.decode(python.errno_constants()), nil)

local kept = 0

-- errno(): the number; errno(number) sets it and returns the one before.
local function last(...)
    local number = ffi.errno()
    if number == 0 then
        number = kept
    end
    if select('#', ...) > 0 then
        ffi.errno((...))
        kept = ffi.errno()
    end
    return number
end

local function strerror(number)
    if number == nil then
        number = last()
    end
    return ffi.string(ffi.C.strerror(tonumber(number)))
end

return setmetatable({strerror = strerror}, {
    __index = constants,
    __newindex = function()
        error("Can't create new errno constants")
    end,
    __call = function(_, ...)
        return last(...)
    end,
})
