-- Ends the statement that a console runs, from outside: Ctrl-C.
--
--   waiting (a sleep, a request)   Python cancels the fiber; the cancellation ends with the statement
--   running                        a debug hook raises `interrupted`
--
-- Nothing of it costs anything while nobody interrupts. The hook function is given to `debug.sethook` once, so that the
-- library keeps it, and Python takes the hook off at once. It is put on again, by its address and from another thread,
-- when it is needed. Compiled code calls no hooks: a console's statements are not compiled (see `run`).
local debug_library = require('internal.debug_library')
local python = require('internal.python')
local registry = require('internal.registry')
local scheduler = require('internal.scheduler')

local error, getinfo, jit, pcall, select = error, debug.getinfo, jit, pcall, select

local EVERY = 1000              -- instructions between two calls of the hook
local PATIENCE = 200000         -- instructions that a module of our own may go on, to leave nothing half done
local CAUGHT, CLOSE = 3, 5      -- after so many errors that the statement caught, the hook comes that much more often:
                                -- so that one is raised where nobody catches it
local INTERRUPTED = 2           -- levels of the stack: the hook is 1
-- Modules that must not be left in the middle at all.
local DELICATE = {}
local NAMES = {
    'scheduler', 'strand', 'parking', 'finalization', 'fiber_channel', 'fiber_cond', 'wait_queue', 'coroutine', 'registry',
    'interruption',
}
for _, name in ipairs(NAMES) do
    DELICATE['@builtin/internal/' .. name .. '.lua'] = true
end

local statement                 -- the fiber of the statement that runs, or nil
local is_interrupted = false
local put_off, raised, every = 0, 0, EVERY

-- In the coroutine that is running. Python says whether anybody may be ended (the loop stands still) or the statement only.
local function hook()
    local fiber = scheduler.current_fiber()
    local is_own = fiber ~= nil and fiber == statement
    if not is_own and not python.console_ends_anybody() then
        return python.console_unhook()
    end
    local place = getinfo(INTERRUPTED, 'S')
    if fiber == nil or place == nil or DELICATE[place.source] then
        return
    end
    if place.source:sub(1, 9) == '@builtin/' and put_off < PATIENCE then
        put_off = put_off + every
        return
    end
    put_off = 0
    if is_own then
        is_interrupted = true   -- the hook stays: the statement may catch its errors and go on
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

-- The end of a statement: what it returned, or why it failed.
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

-- Run a function of a console's fiber so that Ctrl-C ends it: as `pcall`.
local function run(call, chunk, ...)
    local fiber = scheduler.current_fiber()
    statement, is_interrupted, put_off, raised, every = fiber, false, 0, 0, EVERY
    python.console_begin_statement(fiber.id)
    return ended(fiber, call(chunk, ...))
end

-- Statements and the functions that are written in them stay with the interpreter, which calls hooks.
local function prepare(chunk)
    jit.off(chunk, true)
    return chunk
end

-- From Python: the statement waits, or goes on without noticing.
local function cancel()
    local fiber = statement
    if fiber ~= nil and not fiber.finished then
        fiber.cancelled_by_console = true
        scheduler.cancel(fiber)
    end
end

-- From Python: where the statement stands, as a stack.
local function stack()
    local strand = statement and statement.strand
    local co = strand and strand.co
    return co and debug.traceback(co) or ''
end

local anchor = coroutine.create(function() end)

-- The address of a coroutine of this state, which hooks are set by.
local function state_address()
    return (tostring(anchor):gsub('^thread: ', ''))
end

-- Give the hook to the library. Python takes it off before anything else runs.
local function install()
    debug_library.sethook(hook, '', EVERY)
    return python.console_take_hook(state_address(), EVERY)
end

python.entry('interruption.cancel', registry.ref(cancel))
python.entry('interruption.stack', registry.ref(stack))

return {run = run, prepare = prepare, install = install}
