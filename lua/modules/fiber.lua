-- require('fiber'): fibers, conditions, channels. Texts and cancellation points are Tarantool's.
local ffi = require('ffi')
local arguments = require('internal.arguments')
local fiber_times = require('internal.fiber_times')
local lua_error = require('internal.error')
local opaque = require('internal.opaque')
local python = require('internal.python')
local scheduler = require('internal.scheduler')
local wait_queue = require('internal.wait_queue')

local type, error, select, unpack, setmetatable = type, error, select, unpack, setmetatable

local NAME_LIMIT = 255
local ETIMEDOUT = require('errno').ETIMEDOUT
local monotonic = python.seconds or require('clock').monotonic
local fibers = scheduler.fibers

local fiber = {}
local methods = {}
local new_object, id_of

-- Keeps one object for each living fiber, so that fiber.self() == fiber.self(). A fiber whose identity a program has
-- seen is marked with `is_seen`, so that box.call_wave does not reuse it for another call.
local objects = setmetatable({}, {__mode = 'v'})

local function object_of(record)
    record.is_seen = true
    local object = objects[record.id]
    if object == nil then
        object = new_object(record.id)
        objects[record.id] = object
    end
    return object
end

local function type_name(count, value)
    return count == 0 and 'no value' or type(value)
end

-- Returns the id of the fiber in the first argument of a method. `level` is that of the method, as for error().
local function checked_id(level, ...)
    local object = ...
    local id = type(object) == 'userdata' and id_of(object)
    if not id then
        arguments.bad(1, ('fiber expected, got %s'):format(type_name(select('#', ...), object)), level + 1)
    end
    return id
end

-- Returns the living fiber with an id, or raises an error; without a level the error has no place.
local function living(id, level)
    local record = fibers[id] or error('the fiber is dead', level and level + 1 or 0)
    record.is_seen = true
    return record
end

-- Returns the living fiber that a fiber object or a number means. A method calls this directly, so that errors have the
-- place of its caller.
local function check(...)
    local object = ...
    return (living(type(object) == 'number' and object or checked_id(3, ...), 3))
end

local function current()
    local record = scheduler.current_fiber() or error('no fiber is running', 0)
    record.is_seen = true
    return record
end

-- ---- life -----------------------------------------------------------------------------------------------

-- Returns whether an error is the cancellation of the fiber; the end of a cancelled fiber is not an error, so it is not
-- logged.
local function is_cancellation(problem)
    return lua_error.is(problem) and problem.type == 'FiberIsCancelled'
end

local strands = require('internal.strand')

function strands.on_failure(record, problem)
    if not record.joinable and not record.started_by_python and not is_cancellation(problem) then
        python.log_error(lua_error.encode(problem))
    end
end

function strands.on_end(record, ok, ...)
    if record.joinable then
        record.ok, record.count, record.results = ok, select('#', ...), {...}
    end
    local joiners = record.joiners
    while joiners and joiners.count > 0 do
        scheduler.make_ready(joiners:pop())
    end
end

function fiber.create(run, ...)
    if type(run) ~= 'function' then
        error('fiber.create(function, ...): bad arguments', 2)
    end
    return object_of(scheduler.create('lua', run, ...))
end

function fiber.new(run, ...)
    if type(run) ~= 'function' then
        error('fiber.new(function, ...): bad arguments', 2)
    end
    return object_of(scheduler.new('lua', run, ...))
end

function fiber.self()
    return object_of(current())
end

function fiber.find(...)
    local id = tonumber((...))
    if select('#', ...) ~= 1 then
        error('fiber.find(id): bad arguments', 2)
    end
    local record = fibers[id]
    return record and object_of(record) or nil
end

function methods.id(...)
    if select('#', ...) == 0 then
        return current().id
    end
    return (checked_id(2, ...))
end

function methods.status(...)
    local running = scheduler.current_fiber()
    local record = running
    if select('#', ...) > 0 then
        record = fibers[checked_id(2, ...)]
    end
    if record == nil then
        return 'dead'
    end
    return record == running and 'running' or 'suspended'
end

-- Sets the name of a fiber. `position` is the position of the argument `name`, for errors.
local function set_name(position, record, name, options)
    if type(name) == 'number' then
        name = tostring(name)
    elseif type(name) ~= 'string' then
        local is_method = debug.getinfo(2, 'n').namewhat == 'method'
        arguments.bad(is_method and position - 1 or position, ('string expected, got %s'):format(type(name)), 3)
    end
    name = name:match('^%Z*') -- up to a zero byte, where a string of C ends
    if #name > NAME_LIMIT then
        if type(options) ~= 'table' or options.truncate ~= true then
            error('Fiber name is too long', 3)
        end
        name = name:sub(1, NAME_LIMIT)
    end
    record.name = name
end

-- Reads the name of a fiber, name([fiber]), or sets it, name([fiber,] text[, {truncate = true}]).
function methods.name(...)
    local count = select('#', ...)
    if type((...)) == 'userdata' then
        local record = check(...)
        if count == 1 or count > 3 then
            return record.name
        end
        set_name(2, record, select(2, ...))
        return
    end
    if count == 0 or count > 2 then
        return current().name
    end
    set_name(1, current(), ...)
end

-- Id -> name of the appliers and relays that fiber.info() has shown last. They run in Python, so to cancel or wake them
-- from Lua has no effect.
local background_fibers = {}

local function is_background(...)
    return type((...)) == 'number' and background_fibers[(...)] ~= nil
end

function methods.cancel(...)
    if not is_background(...) then
        scheduler.cancel(check(...))
    end
    scheduler.test_cancel()
end

function methods.wakeup(...)
    if not is_background(...) then
        scheduler.wakeup(check(...))
    end
end

function methods.set_joinable(...)
    if select('#', ...) ~= 2 then
        error('fiber.set_joinable(id, yesno): bad arguments', 2)
    end
    local record = check(...)
    record.joinable = not not select(2, ...)
end

-- Waits for the end of a joinable fiber, as of 2.11 for some seconds at most. Returns true and its results, or false and
-- its error.
function methods.join(...)
    local record = check(...)
    local timeout = select(2, ...)
    local deadline = type(timeout) == 'number' and timeout >= 0 and timeout + monotonic() or nil
    if not record.joinable then
        error('the fiber is not joinable', 2)
    end
    local strand = scheduler.current_strand()
    while not record.finished do
        record.joiners = record.joiners or wait_queue.new()
        local place = record.joiners:push(strand)
        local ok, is_late = pcall(scheduler.suspend, deadline and math.max(0, deadline - monotonic()))
        record.joiners:remove(place, strand)
        if not ok then
            error(is_late, 0)
        elseif is_late and not record.finished then
            return false, lua_error.new_here({type = 'TimedOut', message = 'timed out', errno = ETIMEDOUT})
        end
    end
    fibers[record.id] = nil
    if not record.ok then
        return false, lua_error.from_value(record.results[1])
    end
    return true, unpack(record.results, 1, record.count)
end

function methods.testcancel(...)
    if select('#', ...) ~= 0 then
        error('fiber.testcancel(): bad arguments', 2)
    end
    scheduler.test_cancel()
end

-- Loaded at the first use, as few programs set slices.
local function slices()
    return require('internal.fiber_slices')
end

local function slice_argument(usage, most, ...)
    local count = select('#', ...)
    if count < 1 or count > most then
        error(usage .. ': bad arguments', 3)
    end
    return count, ...
end

-- set_max_slice([fiber,] slice): without a fiber it is that of all fibers that have none of their own.
function methods.set_max_slice(...)
    local count, first, second = slice_argument('fiber.set_max_slice([id,] slice)', 2, ...)
    if count == 1 then
        return slices().set_max_slice(first)
    end
    return slices().set_max_slice(second, check(first))
end

function fiber.set_slice(...)
    return slices().set_slice(select(2, slice_argument('fiber.set_slice(slice)', 1, ...)))
end

function fiber.extend_slice(...)
    return slices().extend_slice(select(2, slice_argument('fiber.extend_slice(slice)', 1, ...)))
end

function fiber.check_slice(...)
    if select('#', ...) ~= 0 then
        error('fiber.check_slice(): bad arguments', 2)
    end
    slices().check_slice()
end

function methods.__serialize(object)
    return {id = id_of(object), name = living(id_of(object)).name, status = methods.status(object)}
end

function methods.__tostring(object)
    return ('fiber: %d'):format(living(id_of(object), 2).id)
end

function methods.__index(object, key)
    if key == 'storage' then
        local record = check(object)
        if record.storage == nil then
            record.storage = {}
        end
        return record.storage
    end
    return methods[key]
end

new_object, id_of = opaque('fiber', methods)

-- ---- waiting --------------------------------------------------------------------------------------------

function fiber.sleep(...)
    local delay = arguments.number((...))
    if delay == nil or select('#', ...) ~= 1 then
        error('fiber.sleep(delay): bad arguments', 2)
    end
    if delay > 0 then
        scheduler.suspend(delay)
    else
        scheduler.yield()
    end
    scheduler.test_cancel()
end

fiber['yield'] = function()
    scheduler.yield()
    scheduler.test_cancel()
end

-- ---- the rest -------------------------------------------------------------------------------------------

for _, name in ipairs({
    'id', 'name', 'status', 'cancel', 'wakeup', 'set_joinable', 'join', 'testcancel', 'set_max_slice',
}) do
    fiber[name] = methods[name]
end
fiber.kill = methods.cancel
fiber.cond = require('internal.fiber_cond')
fiber.channel = require('internal.fiber_channel')

local function find_background_fibers()
    local ids, found = {}, {}
    for id, name in pairs(background_fibers) do
        ids[name] = id
    end
    for name in (python.box_fibers and python.box_fibers() or ''):gmatch('[^\n]+') do
        found[ids[name] or scheduler.take_id()] = name
    end
    background_fibers = found
    return found
end

-- Options of info() with backtrace = false, or bt = false, leave the backtrace out.
local function wants_backtrace(options)
    if type(options) ~= 'table' then
        return true
    end
    local value = options.backtrace
    if type(value) == 'nil' then
        value = options.bt
    end
    return type(value) == 'nil' or value
end

local function described(id, name, csw, time, has_backtrace)
    -- One by one: the order of pairs() is then Tarantool's.
    local memory, result = {}, {}
    memory.used = 0
    memory.total = 0
    result.name = name
    result.fid = id
    result.csw = csw
    result.time = time
    result.memory = memory
    result.backtrace = has_backtrace and {} or nil
    return result
end

-- Returns the fiber of an argument, without one the running fiber: these methods of 2.11 are called as functions, too.
local function given_or_current(...)
    if select('#', ...) == 0 then
        return current()
    end
    return check(...)
end

function methods.info(...)
    local record = given_or_current(...)
    local time = fiber_times.seconds(record.meter)
    return described(record.id, record.name, record.csw, time, wants_backtrace((select(2, ...))))
end

function methods.csw(...)
    return given_or_current(...).csw
end

-- Returns a description of every living fiber, by id.
function fiber.info(options)
    local result, has_backtrace = {}, wants_backtrace(options)
    for id, record in pairs(fibers) do
        result[id] = described(id, record.name, record.csw, fiber_times.seconds(record.meter), has_backtrace)
    end
    for id, name in pairs(find_background_fibers()) do
        result[id] = described(id, name, 0, 0, has_backtrace)
    end
    return setmetatable(result, {__serialize = 'mapping'})
end

local is_measured = false

function fiber.top()
    if not is_measured then
        error('fiber.top() is disabled. Enable it with fiber.top_enable() first', 2)
    end
    return fiber_times.top(fibers)
end

function fiber.top_enable()
    if not is_measured then
        is_measured = true
        fiber_times.reset(fibers)
        scheduler.set_measured(fiber_times.measured)
    end
end

-- Stops measuring times of fibers; the measured ones remain in fiber.info().
function fiber.top_disable()
    if is_measured then
        is_measured = false
        fiber_times.stop()
        scheduler.set_measured(nil)
    end
end

-- The wall clock and the monotonic clock in seconds; the variants with 64 are in microseconds. Like Tarantool's, both
-- stand still until the next turn of the loop (lua/turn_clock.py).
local clocks, clocks_hold = require('internal.clocks'), require('internal.cells').clocks_hold
local WALL, MONOTONIC = 0, 1

local function read(clock)
    if not clocks_hold() then
        python.read_clocks()
    end
    return clocks[clock]
end

function fiber.time()
    return read(WALL)
end

function fiber.clock()
    return read(MONOTONIC)
end

local function microseconds(seconds)
    return ffi.cast('uint64_t', seconds * 1e6 + 0.5)
end

function fiber.time64()
    return microseconds(read(WALL))
end

function fiber.clock64()
    return microseconds(read(MONOTONIC))
end

-- ---- delayed work ---------------------------------------------------------------------------------------

local tasks = wait_queue.new()
local worker

local function work_off()
    while tasks.count > 0 do
        local task = tasks:pop()
        local ok, problem = pcall(task.run, task.argument)
        if not ok then
            python.log_error(lua_error.encode(problem))
        end
    end
    worker = nil
end

-- Runs a function soon, on a worker fiber: for code that must not wait, such as a finalizer.
fiber._internal = {schedule_task = function(run, argument)
    tasks:push({run = run, argument = argument})
    worker = worker or scheduler.new('lua', work_off)
end}

return setmetatable(fiber, {__serialize = function(self)
    local visible = {}
    for key, value in pairs(self) do
        if key ~= '_internal' then
            visible[key] = value
        end
    end
    return visible
end})
