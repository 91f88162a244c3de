-- Futures: the replies of requests that have been sent.
local ffi = require('ffi')
local fiber = require('fiber')
local errors = require('internal.error')
local codec = require('net.box.codec')
local gc = require('internal.finalizers').raw_gc
local python = require('internal.python')
local wait = require('internal.wait')

local error, pcall, setmetatable, type = error, pcall, setmetatable, type

local PUSH, REPLY = 1, 2
local results, raw_results = codec.results, codec.raw_results

-- Numbers of requests whose futures were collected. Finalizers must not call Python, so the next request gives them up.
local abandoned = {}
ffi.cdef('struct lunabox_request { double number; };')
local ticket_type = ffi.typeof('struct lunabox_request')

local function collect(ticket)
    if ticket.number > 0 then
        abandoned[#abandoned + 1] = ticket.number
    end
end

local methods = {}
local future_mt = {__index = methods}

local function new(number, method, options)
    for i = #abandoned, 1, -1 do
        python.netbox_discard(abandoned[i])
        abandoned[i] = nil
    end
    return setmetatable({
        _ticket = gc(ticket_type(number), collect),
        method = method,
        _format = options.format,
        _buffer = options.buffer,
        _skip_header = options.skip_header,
        _results = options.return_raw and raw_results or results,
        on_push = options.on_push,
        on_push_ctx = options.on_push_ctx,
        _channel = options.channel,
        _pushes = 0,
    }, future_mt)
end

local function store(self, body)
    local bytes, buffer = self._skip_header and results.without_header(body) or body, self._buffer
    ffi.copy(buffer:alloc(#bytes), bytes, #bytes)
    return #bytes
end

local function finish(self, value, problem)
    self._is_done, self._value, self._error = true, value, problem
    python.netbox_discard(self._ticket.number)
    self._ticket.number = 0
end

local function hand_out(self, message)
    self.on_push(self.on_push_ctx, message)
end

local function is_cancellation(problem)
    return errors.is(problem) and problem.type == 'FiberIsCancelled'
end

-- Returns the error of requests that end because a function or a buffer of the user has failed.
local function error_of(reason)
    return errors.is(reason) and reason or box.error.new({code = box.error.UNKNOWN, reason = reason})
end

-- Ends the connection, because a function or a buffer of the user has failed.
local function fail(self, problem)
    if is_cancellation(problem) then
        error(problem, 0)
    end
    self._channel():fail(problem)
    finish(self, nil, error_of(problem))
end

-- Passes a pushed message to `on_push`.
local function take_push(self, body)
    self._pushes = self._pushes + 1
    local ok, message = true, nil
    if self._buffer then
        ok, message = pcall(store, self, body)
    else
        message = self._results.push(body)
    end
    if ok and self.on_push ~= nil then
        ok, message = pcall(hand_out, self, message)
    end
    if not ok then
        fail(self, message)
    end
end

local function take_reply(self, body)
    if self._buffer then
        local stored, size = pcall(store, self, body)
        if not stored then
            fail(self, size)
            return
        end
        finish(self, self.method == 'select_page' and {size, results.position(body)} or size)
        return
    end
    local ok, value = pcall(self._results[self.method], body, self._format)
    if ok then
        finish(self, value)
    else
        finish(self, nil, value)
    end
end

-- Takes one pushed message or the reply. Returns false after the timeout.
local function advance(self, timeout)
    local known = self._pushes
    local ok, kind, body = pcall(wait, python.netbox_next(self._ticket.number, known, timeout))
    if self._is_done or self._pushes > known then
        -- Another fiber has waited for this reply as well, and has taken it first.
        return true
    elseif not ok then
        if is_cancellation(kind) then
            error(kind, 0)
        end
        local failure = self._channel and self._channel().failure
        finish(self, nil, failure and error_of(failure.reason) or errors.count(errors.from_value(kind)))
    elseif kind == PUSH then
        take_push(self, body)
    elseif kind == REPLY then
        take_reply(self, body)
    else
        return false
    end
    return true
end

local function drain(self)
    while not self._is_done and advance(self, 0) do end
end

function methods.is_ready(self)
    drain(self)
    return self._is_done == true
end

-- Returns the value of the reply, or nil and an error.
function methods.result(self)
    drain(self)
    if not self._is_done then
        return nil, box.error.new(box.error.PROC_LUA, 'Response is not ready')
    elseif self._error ~= nil then
        return nil, self._error
    end
    return self._value
end

local function check_timeout(timeout, usage)
    if timeout and (type(timeout) ~= 'number' or not (timeout >= 0)) then
        error('Usage: ' .. usage)
    end
end

-- Waits at most `timeout` seconds. Returns the value, or nil and an error, which may be ER_TIMEOUT.
function methods.wait_result(self, timeout)
    check_timeout(timeout, 'future:wait_result(timeout)')
    local deadline = timeout and fiber.clock() + timeout
    while not self._is_done do
        local left = deadline and math.max(deadline - fiber.clock(), 0)
        if not advance(self, left) then
            fiber.testcancel()
            if not deadline or fiber.clock() >= deadline then
                return nil, box.error.new(box.error.TIMEOUT)
            end
        end
    end
    return methods.result(self)
end

-- Returns the number of a request that has no reply yet.
function methods.number(self)
    return self._ticket.number
end

function methods.discard(self)
    if not self._is_done then
        finish(self, nil, box.error.new(box.error.PROC_LUA, 'Response is discarded'))
    end
end

-- Returns the next message. The state is the number of the message, or box.NULL after an error, which ends the loop at
-- the next step.
local function next_message(iterator, i)
    if i == nil then
        return nil, nil
    end
    local self, messages = iterator.future, iterator.future.on_push_ctx
    i = i + 1
    local deadline = iterator.timeout and fiber.clock() + iterator.timeout
    drain(self)
    while i > #messages and not self._is_done do
        local left = deadline and math.max(deadline - fiber.clock(), 0)
        if not advance(self, left) then
            fiber.testcancel()
            return box.NULL, box.error.new(box.error.TIMEOUT)
        end
    end
    if i <= #messages then
        return i, messages[i]
    elseif i > #messages + 1 then
        return nil, nil
    end
    local value, problem = methods.result(self)
    if problem ~= nil then
        return box.NULL, problem
    end
    return i, value
end

-- Loops over the pushed messages and then the reply, waiting for each at most `timeout` seconds.
function methods.pairs(self, timeout)
    check_timeout(timeout, 'future:pairs(timeout)')
    return next_message, {future = self, timeout = timeout}, 0
end

return {new = new}
