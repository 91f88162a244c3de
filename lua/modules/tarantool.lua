-- require('tarantool'): what this is. Name and version are Tarantool's, for scripts that look at them.
local clock = require('clock')
local python = require('internal.python')

local started = clock.monotonic()

return {
    package = 'Tarantool',
    version = _TARANTOOL,
    build = {
        target = ('%s-%s-Debug'):format(jit.os, jit.arch == 'x64' and 'x86_64' or jit.arch),
        options = '',
        mod_format = 'so',
        flags = '',
        compiler = jit.version,
    },
    pid = function()
        return python.process_id()
    end,
    uptime = function()
        return clock.monotonic() - started
    end,
}
