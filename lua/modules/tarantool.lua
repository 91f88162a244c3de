-- require('tarantool'): the name and the version of the product. They are Tarantool's, for scripts that check them.
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
