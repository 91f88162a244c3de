-- require('errno'): the last error number of the C library, its constants and texts.
local ffi = require('ffi')
local msgpack = require('internal.msgpack')
local python = require('internal.python')

ffi.cdef('char *strerror(int number);')

local constants = setmetatable(msgpack.decode(python.errno_constants()), nil)

local function strerror(number)
    if number == nil then
        number = ffi.errno()
    end
    return ffi.string(ffi.C.strerror(tonumber(number)))
end

return setmetatable({strerror = strerror}, {
    __index = constants,
    __newindex = function()
        error("Can't create new errno constants")
    end,
    __call = function(_, ...)
        return ffi.errno(...)
    end,
})
