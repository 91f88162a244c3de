-- Lets Ctrl-C end a running statement of a console.
--
--   waiting (a sleep, a request)   Python cancels the fiber; the cancellation ends with the statement
--   running                        a debug hook raises `interrupted`
--
-- Without an interruption this costs nothing. `debug.sethook` gets the hook function once, so that the library keeps
-- it, and Python removes the hook at once. When it is needed, Python sets it again by its address, from another thread.
-- Compiled code calls no hooks, so statements of a console are not compiled (see `run`).
local debug_library = require('internal.debug_library')
local python = require('internal.python')
local registry = require('internal.registry')
local scheduler = require('internal.scheduler')

local error, getinfo, jit, pcall, select = error, debug.getinfo, jit, pcall, select

local EVERY = 1000              -- instructions between two calls of the hook
local PATIENCE = 200000         -- instructions that one of our own modules may still run, to leave nothing half done
local CAUGHT, CLOSE = 3, 5      -- once the statement has caught this many errors, the hook runs that much more often:
                                -- sooner or later it raises where nothing catches the error
local INTERRUPTED = 2           -- levels of the stack: the hook is 1
-- Modules that must never be interrupted.
local DELICATE = {}
local NAMES = {
    'scheduler', 'strand', 'parking', 'finalization', 'fiber_channel', 'fiber_cond', 'wait_queue', 'coroutine', 'registry',
    'interruption',
}
for _, name in ipairs(NAMES) do
    DELICATE['@builtin/internal/' .. name .. '.lua'] = true
end

local statement                 -- the fiber of the running statement, or nil
local is_interrupted = false
local put_off, raised, every = 0, 0, EVERY

-- Returns the innermost function in Lua below the hook: one of our own modules may be inside a C function.
local function interrupted_place()
    local level = INTERRUPTED + 1    -- one deeper, inside this function
    local place = getinfo(level, 'S')
    while place ~= nil and place.what == 'C' do
        level = level + 1
        place = getinfo(level, 'S')
    end
    return place
end

-- The debug hook, which runs in the running coroutine. Python says whether any fiber may be ended (the loop is blocked)
-- or only the statement.
local function hook()
    local fiber = scheduler.current_fiber()
    local is_own = fiber ~= nil and fiber == statement
    if not is_own and not python.console_ends_anybody() then
        return python.console_unhook()
    end
    local place = interrupted_place()
    if fiber == nil or place == nil or DELICATE[place.source] then
        return
    end
    if place.source:sub(1, 9) == '@builtin/' and put_off < PATIENCE then
        put_off = put_off + every
        return
    end
    put_off = 0
    if is_own then
        is_interrupted = true   -- the hook stays, as the statement may catch the error and continue
        raised = raised + 1
        if raised > CAUGHT then
            every = 2 + raised % CLOSE
            python.console_hook_every(every)
        end
    else
        python.console_unhook()
    end
    error('interrupted', 2)
end

-- Ends a statement. Returns its results, or the reason why it has failed.
local function ended(fiber, ok, ...)
    python.console_end_statement()
    statement, put_off = nil, 0
    if fiber.cancelled and fiber.cancelled_by_console then
        fiber.cancelled, fiber.cancelled_by_console = nil, nil
        is_interrupted = true
    end
    if not ok and is_interrupted and require('internal.error').is((...)) and (...).type == 'FiberIsCancelled' then
        return false, 'interrupted'
    end
    return ok, ...
end

-- Like pcall, for a function in the fiber of a console that Ctrl-C can end.
local function run(call, chunk, ...)
    local fiber = scheduler.current_fiber()
    statement, is_interrupted, put_off, raised, every = fiber, false, 0, 0, EVERY
    python.console_begin_statement(fiber.id)
    return ended(fiber, call(chunk, ...))
end

-- Turns the compiler off for a statement and for the functions in it, because only the interpreter calls hooks.
local function prepare(chunk)
    jit.off(chunk, true)
    return chunk
end

-- Called by Python when the statement waits, or runs without an effect of the hook.
local function cancel()
    local fiber = statement
    if fiber ~= nil and not fiber.finished then
        fiber.cancelled_by_console = true
        scheduler.cancel(fiber)
    end
end

-- Called by Python: returns the stack of the statement.
local function stack()
    local strand = statement and statement.strand
    local co = strand and strand.co
    return co and debug.traceback(co) or ''
end

local anchor = coroutine.create(function() end)

-- Returns the address of a coroutine of this state, which is needed to set a hook.
local function state_address()
    return (tostring(anchor):gsub('^thread: ', ''))
end

-- Gives the hook to the library. Python removes it before anything else runs.
local function install()
    debug_library.sethook(hook, '', EVERY)
    return python.console_take_hook(state_address(), EVERY)
end

python.entry('interruption.cancel', registry.ref(cancel))
python.entry('interruption.stack', registry.ref(stack))

return {run = run, prepare = prepare, install = install}
