-- Members that Tarantool adds to `os`: the environment of the process. os.exit belongs to internal.globals. On a
-- simulated machine `os` tells the time of its clocks.
local python = require('internal.python')
local ffi = require('ffi')

ffi.cdef([[
    extern char **environ;
    int setenv(const char *name, const char *value, int overwrite);
    int unsetenv(const char *name);
]])

local C = ffi.C

-- Iterates over the `name=value` texts of the environment.
local function entries()
    local place = C.environ
    return function()
        if place ~= nil and place[0] ~= nil then
            place = place + 1
            return ffi.string(place[-1])
        end
    end
end

-- Returns all variables by name. A text without '=' is skipped.
function os.environ()
    local variables = {}
    for entry in entries() do
        local separator = entry:find('=', 1, true)
        if separator ~= nil then
            variables[entry:sub(1, separator - 1)] = entry:sub(separator + 1)
        end
    end
    return variables
end

-- Sets a variable; nil removes it. Raises the error of the system for a wrong name.
function os.setenv(name, value)
    local is_refused = value ~= nil and C.setenv(name, value, 1) ~= 0 or value == nil and C.unsetenv(name) ~= 0
    if is_refused then
        error(require('errno').strerror(), 2)
    end
end

if python.clock_read ~= nil then
    local time, date = os.time, os.date

    local function now()
        return (python.clock_read('realtime'))
    end

    function os.time(moment)
        return moment == nil and now() or time(moment)
    end

    function os.date(format, moment)
        return date(format or '%c', moment or now())
    end

    function os.clock()
        local seconds, nanoseconds = python.clock_read('process')
        return seconds + nanoseconds / 1e9
    end
end

return os
