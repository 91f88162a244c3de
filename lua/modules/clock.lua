-- require('clock'): the clocks of the machine, in seconds, and in nanoseconds (uint64_t) with the suffix 64.
local python = require('internal.python')
local ffi = require('ffi')

local error, select = error, select

ffi.cdef([[
    struct lunabox_timespec { long tv_sec; long tv_nsec; };
    int clock_gettime(int clock_id, struct lunabox_timespec *time);
]])

-- Clock ids differ between systems: {Linux, macOS}.
local COLUMN = jit.os == 'OSX' and 2 or 1
local IDS = {realtime = ({0, 0})[COLUMN], monotonic = ({1, 6})[COLUMN]}
IDS.process, IDS.thread = ({2, 12})[COLUMN], ({3, 16})[COLUMN]

local C = ffi.C
local cell = ffi.new('struct lunabox_timespec[1]')

-- Returns two functions that read a clock of the system: in seconds and in nanoseconds.
local function of_system(name)
    local id = IDS[name]
    return function()
        C.clock_gettime(id, cell)
        return tonumber(cell[0].tv_sec) + tonumber(cell[0].tv_nsec) / 1e9
    end, function()
        C.clock_gettime(id, cell)
        return ffi.cast('uint64_t', cell[0].tv_sec) * 1000000000ULL + ffi.cast('uint64_t', cell[0].tv_nsec)
    end
end

-- Returns the two functions of a clock on a simulated machine, which has clocks of its own.
local function of_machine(name)
    return function()
        local seconds, nanoseconds = python.clock_read(name)
        return seconds + nanoseconds / 1e9
    end, function()
        local seconds, nanoseconds = python.clock_read(name)
        return ffi.cast('uint64_t', seconds) * 1000000000ULL + ffi.cast('uint64_t', nanoseconds)
    end
end

-- Returns a function that takes no arguments, like the C functions that Tarantool has here.
local function without_arguments(read)
    return function(...)
        if select('#', ...) > 0 then
            error('wrong number of arguments for function call', 2)
        end
        return read()
    end
end

local clock = {}
local readers = python.clock_read == nil and of_system or of_machine
local NAMES = {time = 'realtime', realtime = 'realtime', monotonic = 'monotonic', proc = 'process', thread = 'thread'}

for name, source in pairs(NAMES) do
    local seconds, nanoseconds = readers(source)
    clock[name], clock[name .. '64'] = without_arguments(seconds), without_arguments(nanoseconds)
end

-- Returns {seconds of processor time that `fun(...)` took, its results...}.
function clock.bench(fun, ...)
    local started = clock.proc()
    local result = {0, fun(...)}
    result[1] = clock.proc() - started
    return result
end

return clock
