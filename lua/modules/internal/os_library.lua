-- Members of `os` that the peer adds: the environment. os.exit belongs to internal.globals.
local ffi = require('ffi')

ffi.cdef([[
    extern char **environ;
    int setenv(const char *name, const char *value, int overwrite);
    int unsetenv(const char *name);
]])

-- All environment variables in a table.
function os.environ()
    local result, list, i = {}, ffi.C.environ, 0
    while list[i] ~= nil do
        local name, value = ffi.string(list[i]):match('^([^=]*)=(.*)$')
        if name then
            result[name] = value
        end
        i = i + 1
    end
    return result
end

-- Set an environment variable; nil removes it.
function os.setenv(name, value)
    local status
    if value == nil then
        status = ffi.C.unsetenv(name)
    else
        status = ffi.C.setenv(name, value, 1)
    end
    if status ~= 0 then
        error(require('errno').strerror(), 2)
    end
end

return os
