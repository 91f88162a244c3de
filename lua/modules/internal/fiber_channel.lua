-- fiber.channel(size): a bounded queue of values between fibers.
--
-- A waiter is {strand, role, value}. To serve a waiter takes it out of the queue, sets `role` to DONE or CLOSED and
-- wakes it. A waiter that wakes with its role unchanged was woken by something else, and tries again.
local arguments = require('internal.arguments')
local opaque = require('internal.opaque')
local python = require('internal.python')
local scheduler = require('internal.scheduler')
local wait_queue = require('internal.wait_queue')

local type, error, select = type, error, select

-- The greatest number of values, which one userdata of Tarantool can hold.
local SIZE_LIMIT = 268435424
local READER, WRITER, DONE, CLOSED = 1, 2, 3, 4

local methods = {}
local new, state_of

-- Checks the object and the call of a method. Both errors have the place of the method's caller.
local function check(usage, ...)
    local object = ...
    local channel = object ~= nil and state_of(object)
    if channel then
        return channel
    elseif select('#', ...) == 0 then
        error('usage: ' .. usage, 3)
    end
    arguments.bad(1, arguments.expected('fiber.channel', ...), 3)
end

local function check_timeout(timeout, usage)
    if type(timeout) == 'nil' then
        return nil
    end
    local seconds = arguments.number(timeout)
    if seconds == nil or seconds < 0 then
        error('usage: ' .. usage, 3)
    end
    return seconds
end

local function first_waiter(channel, role)
    local waiter = channel.waiters:peek()
    return waiter and waiter.role == role and waiter or nil
end

local function serve(channel, role)
    local waiter = channel.waiters:pop()
    waiter.role = role
    scheduler.make_ready(waiter.strand)
    return waiter
end

local function push(channel, value)
    channel.last = channel.last + 1
    channel.count = channel.count + 1
    channel.values[channel.last] = value
end

local function pop(channel)
    local place = channel.last - channel.count + 1
    local value = channel.values[place]
    channel.values[place] = nil
    channel.count = channel.count - 1
    if channel.count == 0 then
        channel.last = 0
    end
    return value
end

-- Waits in `role` until served, closed, cancelled or past the deadline. Calls `attempt` after any other wake-up.
-- Returns whether it was served, and the waiter or the result of `attempt`.
local function wait(channel, role, value, timeout, attempt)
    local deadline = timeout and timeout < scheduler.FOREVER and python.monotonic_time() + timeout
    local again = false
    while true do
        if channel.closed or timeout == 0 or scheduler.is_cancelled() then
            return false
        end
        local waiter = {strand = scheduler.current_strand(), role = role, value = value}
        local waiters = channel.waiters
        local place = again and waiters:push_front(waiter) or waiters:push(waiter)
        local ok, problem = pcall(scheduler.suspend, timeout)
        waiters:remove(place, waiter)
        if not ok then
            error(problem, 0)
        end
        if waiter.role == DONE then
            return true, waiter
        elseif waiter.role == CLOSED then
            return false
        end
        local done, result = attempt(channel, value)
        if done then
            return true, result
        end
        again = true
        if deadline then
            timeout = math.max(deadline - python.monotonic_time(), 0)
        end
    end
end

local function try_put(channel, value)
    if first_waiter(channel, READER) then
        serve(channel, DONE).value = value
        return true
    elseif channel.count < channel.size and not channel.closed then
        push(channel, value)
        return true
    end
    return false
end

local function try_get(channel)
    if channel.count > 0 then
        local value = pop(channel)
        if first_waiter(channel, WRITER) then
            push(channel, serve(channel, DONE).value)
        end
        return true, {value = value}
    elseif first_waiter(channel, WRITER) then
        return true, serve(channel, DONE)
    end
    return false
end

-- Puts a value. Returns true once it is taken or stored; false after `timeout` seconds or on a closed channel.
function methods.put(...)
    local usage = 'channel:put(var [, timeout])'
    local channel = check(usage, ...)
    if select('#', ...) < 2 then
        error('usage: ' .. usage, 2)
    end
    local _, value, timeout = ...
    timeout = check_timeout(timeout, usage)
    if try_put(channel, value) or wait(channel, WRITER, value, timeout, try_put) then
        return true
    end
    scheduler.test_cancel()
    return false
end

-- Takes the next value; nil after `timeout` seconds or on a closed channel.
function methods.get(...)
    local usage = 'channel:get([timeout])'
    local channel = check(usage, ...)
    local _, timeout = ...
    timeout = check_timeout(timeout, usage)
    local done, carrier = try_get(channel)
    if not done then
        done, carrier = wait(channel, READER, nil, timeout, try_get)
    end
    if done then
        return carrier.value
    end
    scheduler.test_cancel()
    return nil
end

function methods.close(...)
    local channel = check('channel:close()', ...)
    if channel.closed then
        return
    end
    channel.values, channel.count, channel.last = {}, 0, 0
    while channel.waiters.count > 0 do
        serve(channel, CLOSED)
    end
    channel.closed = true
end

function methods.is_closed(...)
    return check('channel:is_closed()', ...).closed
end

function methods.size(...)
    return check('channel:size()', ...).size
end

function methods.count(...)
    return check('channel:count()', ...).count
end

function methods.is_full(...)
    local channel = check('channel:is_full()', ...)
    return channel.count >= channel.size
end

function methods.is_empty(...)
    return check('channel:is_empty()', ...).count == 0
end

function methods.has_readers(...)
    return first_waiter(check('channel:has_readers()', ...), READER) ~= nil
end

function methods.has_writers(...)
    return first_waiter(check('channel:has_writers()', ...), WRITER) ~= nil
end

function methods.__tostring(object)
    local channel = state_of(object)
    return channel.closed and 'channel: closed' or ('channel: %d'):format(channel.count)
end

new, state_of = opaque('fiber.channel', methods)

-- Makes a channel. As in Tarantool, the first argument must be a number, but the last one counts, cut to a whole number
-- of 32 bits.
return function(...)
    local count, size = select('#', ...), 0
    if type((...)) ~= 'nil' then
        if arguments.number((...)) == nil then
            error('fiber.channel(size): bad arguments', 2)
        end
        size = arguments.number((select(count, ...))) or 0
        if size <= -1 or size >= 2^63 or size ~= size then
            error('fiber.channel(size): negative size', 2)
        end
        size = math.floor(math.max(size, 0)) % 2^32
        if size > SIZE_LIMIT then
            error('userdata length overflow', 0)
        end
    end
    return new({size = size, count = 0, last = 0, values = {}, closed = false, waiters = wait_queue.new()})
end
