-- require('errno'): the last error number, its constants and texts.
--
-- The error number of our own last failed call is also kept here, because calls into Python reset that of the C library
-- to 0: a mere print() between a failure and errno() would hide it. If the C library has another number than 0, a later
-- call through the FFI has set it, and it counts.
local ffi = require('ffi')
local arguments = require('internal.arguments')
local msgpack = require('internal.msgpack')
local python = require('internal.python')

ffi.cdef('char *strerror(int number);')

local constants = setmetatable(msgpack.decode(python.errno_constants()), nil)

local kept = 0

-- errno() returns the number; errno(number) sets it and returns the previous one.
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
        local ok, result = pcall(last, ...)
        if not ok then
            arguments.bad(1, result:match('%((cannot convert.*)%)$'), 2)
        end
        return result
    end,
})
