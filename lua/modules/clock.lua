-- require('clock'): the clocks of the system, in seconds, and in nanoseconds (uint64_t) with the suffix 64.
local ffi = require('ffi')

ffi.cdef([[
    struct lunabox_timespec { long tv_sec; long tv_nsec; };
    int clock_gettime(int clock_id, struct lunabox_timespec *time);
]])

-- Clock ids differ between systems: {Linux, macOS}.
local COLUMN = jit.os == 'OSX' and 2 or 1
local REALTIME, MONOTONIC = ({0, 0})[COLUMN], ({1, 6})[COLUMN]
local PROCESS, THREAD = ({2, 12})[COLUMN], ({3, 16})[COLUMN]

local C = ffi.C
local cell = ffi.new('struct lunabox_timespec[1]')

local function seconds(id)
    return function()
        C.clock_gettime(id, cell)
        return tonumber(cell[0].tv_sec) + tonumber(cell[0].tv_nsec) / 1e9
    end
end

local function nanoseconds(id)
    return function()
        C.clock_gettime(id, cell)
        return ffi.cast('uint64_t', cell[0].tv_sec) * 1000000000ULL + ffi.cast('uint64_t', cell[0].tv_nsec)
    end
end

local clock = {}
for name, id in pairs({time = REALTIME, realtime = REALTIME, monotonic = MONOTONIC, proc = PROCESS, thread = THREAD}) do
    clock[name] = seconds(id)
    clock[name .. '64'] = nanoseconds(id)
end

-- {seconds of process time that `run(...)` took, its results...}
function clock.bench(run, ...)
    local started = clock.proc()
    local result = {0, run(...)}
    result[1] = clock.proc() - started
    return result
end

return clock
