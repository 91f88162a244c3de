-- The first chunk of a Lua state. It hides the globals of the embedding library, opens the built-in modules and returns
-- the two functions that Python needs next: `bind(name, function, is_direct)` and `start()`.
--
-- Arguments: `read_module(name)` -> source text, nil, or nil and why it cannot be read; `bind_missing(name)` binds the
-- function of a name if Python has one; the addresses of the cells shared with Python, of the tokens that have ended
-- without a value, and of the clocks of a turn.
local read_module, bind_missing, shared_address, woken_address, clocks_address = ...

_G.python = nil
package.loaded.python = nil

local bound = {}
package.loaded['internal.python'] = bound
package.loaded['internal.shared'] = require('ffi').cast('int32_t *', shared_address)
package.loaded['internal.woken'] = require('ffi').cast('double *', woken_address)
package.loaded['internal.clocks'] = require('ffi').cast('double *', clocks_address)

-- Errors show a file name to users: for these modules it is that of Tarantool's modules.
local SHOWN_AS = {
    console = 'box/console', xlog = 'box/xlog', ['net.box'] = 'box/net_box', ['internal.cipher'] = 'crypto',
    ['internal.trigger'] = 'internal.trigger', ['internal.argparse'] = 'internal.argparse', ['http.client'] = 'http.client',
    ['internal.debug_library'] = 'debug', ['internal.error'] = 'error', ['internal.os_library'] = 'env',
    ['internal.socket_object'] = 'socket', ['internal.socket_input'] = 'socket', ['internal.luasocket'] = 'socket',
    ['internal.file_trees'] = 'fio', ['internal.loader'] = 'tarantool', ['internal.globals'] = 'tarantool',
    ['internal.string_library'] = 'string', ['internal.tuple'] = 'box/tuple', ['internal.console_server'] = 'socket',
}
for _, name in ipairs({'codec', 'console_client', 'future', 'schema', 'transport'}) do
    SHOWN_AS['net.box.' .. name] = 'box/net_box'
end
for _, name in ipairs({'iterator', 'lazy', 'eager'}) do
    SHOWN_AS['internal.fun_' .. name] = 'fun'
end
for _, name in ipairs({'index', 'iterator', 'iterator_type', 'schema_objects', 'space', 'usage'}) do
    SHOWN_AS['box.' .. name] = 'box/schema'
end

local function chunk_name(name)
    local shown = SHOWN_AS[name] or name:match('^box%.schema%.') and 'box/schema' or name:gsub('%.', '/')
    return '@builtin/' .. shown .. '.lua'
end

local function load_builtin(name)
    local source, problem = read_module(name)
    if source == nil then
        return problem and error(problem, 0)
    end
    local chunk, mistake = loadstring(source, chunk_name(name))
    return chunk or error(mistake, 0)
end

-- A `require` for the time before internal.loader replaces it: nothing may wait while these modules load.
table.insert(package.loaders, 2, function(name)
    return load_builtin(name) or ''
end)

local raw_pcall, rawget, error, select, type = pcall, rawget, error, select, type

-- Returns the results of a bound function. If it raises, its error is a Python object, which users must not see.
local function converted(ok, ...)
    if ok then
        return ...
    end
    error(require('internal.error').from_value((...)), 0)
end

local CROSSES = {['nil'] = true, boolean = true, number = true, string = true}

-- Raises an error for a Lua object: Python must keep none, because with one it cannot close the state.
local function check_arguments(name, ...)
    for i = 1, select('#', ...) do
        local kind = type((select(i, ...)))
        if not CROSSES[kind] then
            error(("bad argument #%d to '%s' (string or number expected, got %s)"):format(i, name, kind), 3)
        end
    end
end

-- Binds a function for Lua. `is_direct` means that its arguments are checked already, because it is called too often.
local function bind(name, callable, is_direct)
    bound[name] = is_direct and callable or function(...)
        check_arguments(name, ...)
        return converted(raw_pcall(callable, ...))
    end
end

-- The Python halves of most modules are imported and bound when one of their functions is used for the first time.
setmetatable(bound, {
    __index = function(_, name)
        converted(raw_pcall(bind_missing, name))
        return rawget(bound, name)
    end,
})

local function start()
    require('internal.standard_functions')
    local scheduler = require('internal.scheduler')
    require('internal.coroutine')
    require('internal.finalizers')
    require('internal.loader')
    require('internal.globals')
    require('internal.debug_library')
    require('internal.protected_call')
    require('internal.tuple')
    require('fiber')
    require('internal.entry')
    local registry = require('internal.registry')
    return scheduler.start, scheduler.run, scheduler.deliver, scheduler.deliver_error, scheduler.fire,
        scheduler.keep_context, scheduler.cancel_id, scheduler.is_in_python, registry.release, scheduler.start_wave,
        scheduler.finalize_all, scheduler.is_alone, require('internal.standard_output').flush
end

return bind, start
