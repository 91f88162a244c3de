-- The cells that Lua and Python share, with what is done to them. Each is a function of its own because such a one is
-- compiled: the interpreter takes ten times as long for a store, and what switches coroutines is always interpreted.
local shared = require('internal.shared')

-- The id of the running fiber, whether a tick is wanted, the next fiber's id, how many tokens in `internal.woken` have
-- ended without a value, 1 once there will be no other tick, 1 when the tick is to end behind the running fiber, 1
-- while the clocks of the turn hold, and 1 when the process has ended, as a simulated one does while its state is there.
local RUNNING_FIBER, TICK_WANTED, NEXT_ID, WOKEN, CLOSED, STOP, CLOCKS_READ, DEAD = 0, 1, 2, 3, 4, 5, 6, 7
local FIRST_ID = 101

shared[NEXT_ID] = FIRST_ID

local cells = {}

-- `id`: of the fiber that runs, 0: none does.
function cells.show_running(id)
    shared[RUNNING_FIBER] = id
end

function cells.want_tick()
    shared[TICK_WANTED] = 1
end

function cells.want_no_tick()
    shared[TICK_WANTED] = 0
end

-- The id of the next fiber, which is taken by that.
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

-- Whether the tick was to end; asked once.
function cells.is_stopped()
    local stop = shared[STOP]
    if stop == 0 then
        return false
    end
    shared[STOP] = 0
    return true
end

-- There will be no other tick.
function cells.close()
    shared[CLOSED] = 1
end

function cells.is_closed()
    return shared[CLOSED] ~= 0
end

-- No code of the user runs any more.
function cells.is_dead()
    return shared[DEAD] ~= 0
end

-- Another round of fibers begins, for which time has passed.
function cells.forget_clocks()
    shared[CLOCKS_READ] = 0
end

function cells.clocks_hold()
    return shared[CLOCKS_READ] ~= 0
end

return cells
