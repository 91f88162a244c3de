-- Slices: how long a fiber may run without giving way, as of Tarantool 2.11. A slice has two limits in seconds: after
-- `warn` there is a warning in the log, after `err` requests to the database raise FiberSliceIsExceeded.
--
-- Nothing is measured until a program sets a slice. From then on the scheduler resumes fibers through `limited` below,
-- and methods of spaces and indexes are replaced with ones that check the time first.
local lua_error = require('internal.error')
local python = require('internal.python')
local scheduler = require('internal.scheduler')

local running = scheduler.running
local seconds = python.seconds or require('clock').monotonic
local huge, type, ipairs, error = math.huge, type, ipairs, error

local M = {}

-- The slice of fibers that have none of their own in `max_slice`.
local default = {warn = huge, err = huge}
-- When the running fiber got the processor, and its limits until it gives way.
local begun, warn, err = 0, huge, huge

local function begin(fiber)
    local slice = fiber and fiber.max_slice or default
    begun, warn, err = seconds(), slice.warn, slice.err
end

local function restore(old_begun, old_warn, old_err, ...)
    begun, warn, err = old_begun, old_warn, old_err
    return ...
end

-- Wraps the function that resumes strands. For the fiber in which another one runs, such as one for a trigger, the time
-- goes on.
local function limited(resume)
    return function(co, first)
        local old_begun, old_warn, old_err = begun, warn, err
        begin(running.fiber)
        return restore(old_begun, old_warn, old_err, resume(co, first))
    end
end

local function raise()
    error(lua_error.new_here({type = 'FiberSliceIsExceeded', message = 'fiber slice is exceeded'}), 0)
end

-- Raises an error if the running fiber has taken longer than its slice.
local function check()
    local used = seconds() - begun
    if used > warn then
        python.log('warn', ('fiber has not yielded for more than %.3f seconds'):format(warn))
        warn = huge
    end
    if used > err then
        raise()
    end
end

-- ---- the requests that check it --------------------------------------------------------------------------

local CHECKED = {
    'get', 'select', 'pairs', 'count', 'min', 'max', 'random', 'insert', 'replace', 'put', 'update', 'upsert', 'delete',
}

-- As in Tarantool, only every thousandth tuple that is read or changed looks at the clock.
local EVERY, counted = 1000, 0

local function count(tuples)
    counted = counted + tuples
    if counted >= EVERY then
        counted = 0
        check()
    end
end

local function count_rows(rows, ...)
    count(#rows)
    return rows, ...
end

local function wrap(methods)
    for _, name in ipairs(CHECKED) do
        local method = methods[name]
        if method then
            methods[name] = function(...)
                count(1)
                return method(...)
            end
        end
    end
    local select_rows = methods.select
    function methods.select(...)
        return count_rows(select_rows(...))
    end
end

local is_on = false

-- Begins to measure. The running fiber counts from now.
local function switch_on()
    if not is_on then
        is_on = true
        begin(running.fiber)
        scheduler.set_limited(limited)
        local create = scheduler.create
        -- In Tarantool a fiber that makes another one goes on with a new slice.
        function scheduler.create(...)
            local fiber = create(...)
            begin(running.fiber)
            return fiber
        end
        local classes = require('box.schema_objects').metatables
        for _, class in ipairs({classes.space_mt, classes.memtx_index_mt, classes.vinyl_index_mt}) do
            wrap(class)
        end
        require('box.iterator').on_chunk = count
    end
end

-- ---- what programs call ------------------------------------------------------------------------------------

-- Returns the slice that a program gives: a number is the limit `err`.
local function parse(value)
    local slice = type(value) == 'number' and {warn = huge, err = value} or value
    if type(slice) ~= 'table' or type(slice.warn) ~= 'number' or type(slice.err) ~= 'number' then
        error('slice must be a number or a table {warn = <number>, err = <number>}', 3)
    elseif not (slice.err >= 0 and slice.warn >= 0) then
        error('slice value must be >= 0', 3)
    end
    return {warn = slice.warn, err = slice.err}
end

-- Sets the slice of a fiber, or without one that of all fibers that have none. It holds at once if that fiber runs.
function M.set_max_slice(value, fiber)
    local slice = parse(value)
    switch_on()
    local current = running.fiber
    if fiber then
        fiber.max_slice = slice
    else
        default = slice
    end
    if fiber == current or (fiber == nil and not (current and current.max_slice)) then
        warn, err = slice.warn, slice.err
    end
end

-- Sets the limits until the running fiber gives way.
function M.set_slice(value)
    local slice = parse(value)
    switch_on()
    warn, err = slice.warn, slice.err
end

-- Adds to them.
function M.extend_slice(value)
    local slice = parse(value)
    switch_on()
    warn, err = warn + slice.warn, err + slice.err
end

function M.check_slice()
    if is_on then
        check()
    end
end

return M
