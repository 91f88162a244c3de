-- Cells of memory that Lua and Python share, and functions that read and write them. Code that switches coroutines is
-- always interpreted, and the interpreter takes ten times as long for a store; these small functions are compiled.
local shared = require('internal.shared')

-- In order: the id of the running fiber; whether a tick is wanted; the id of the next fiber; the number of tokens in
-- `internal.woken` that have ended without a value; 1 once there will be no other tick; 1 if the tick shall end after
-- the running fiber; 1 while the clocks of the turn are valid; 1 once the process has ended, which a simulated process
-- does while its state still exists; the id of the fiber whose context is made when it is first needed, or 0; 1 if there
-- are replies of functions that have waited; the number of the wave of the fiber without a context. See box.call_wave.
local RUNNING_FIBER, TICK_WANTED, NEXT_ID, WOKEN, CLOSED, STOP, CLOCKS_READ, DEAD, LAZY = 0, 1, 2, 3, 4, 5, 6, 7, 8
local ANSWERED, WAVE = 9, 10
local FIRST_ID = 101

shared[NEXT_ID] = FIRST_ID

local cells = {}

-- Shows which fiber is running; 0 stands for none.
function cells.show_running(id)
    shared[RUNNING_FIBER] = id
end

function cells.want_tick()
    shared[TICK_WANTED] = 1
end

function cells.want_no_tick()
    shared[TICK_WANTED] = 0
end

-- Takes the id of the next fiber.
function cells.take_id()
    local id = shared[NEXT_ID]
    shared[NEXT_ID] = id + 1
    return id
end

function cells.count_woken()
    return shared[WOKEN]
end

function cells.forget_woken()
    shared[WOKEN] = 0
end

-- Returns whether the tick shall end now, and resets the request.
function cells.is_stopped()
    local stop = shared[STOP]
    if stop == 0 then
        return false
    end
    shared[STOP] = 0
    return true
end

-- Notes that there will be no other tick.
function cells.close()
    shared[CLOSED] = 1
end

function cells.is_closed()
    return shared[CLOSED] ~= 0
end

-- Returns whether the process has ended, so that no code of the user may run any more.
function cells.is_dead()
    return shared[DEAD] ~= 0
end

-- Forgets the clocks, because another round of fibers begins, for which time has passed.
function cells.forget_clocks()
    shared[CLOCKS_READ] = 0
end

-- Shows whose context is made when it is first needed. Python resets that with the context.
function cells.show_lazy(id)
    shared[LAZY] = id
end

-- Shows a fiber without a context, and the wave of its function, which has waited.
function cells.show_lazy_again(id, wave)
    shared[LAZY], shared[WAVE] = id, wave
end

-- Returns whether the context of the fiber with this id, given to `show_lazy` before, has still to be made.
function cells.lacks_context(id)
    return shared[LAZY] == id
end

-- Notes that there are replies, which Python takes behind this round.
function cells.show_answered()
    shared[ANSWERED] = 1
end

function cells.clocks_hold()
    return shared[CLOCKS_READ] ~= 0
end

return cells
