-- connect(uri, {console = true}): a connection to the console of another instance, obsolete since Tarantool 1.10. Its only
-- request is eval(line), which returns the text that the console shows. The server speaks the text protocol or the
-- binary one; the greeting tells which.
local errors = require('internal.error')
local fiber = require('fiber')
local log = require('log')
local python = require('internal.python')
local wait = require('internal.wait')
local transport = require('net.box.transport')

local DELIMITER = '$EOF$'
local END = '\n...\n'
local NO_UUID = '00000000-0000-0000-0000-000000000000' -- the greeting of a console has none
local VERSION_ID = 2 * 0x10000 + 8 * 0x100 + 1 -- of 2.8.1, whose greeting every console of ours sends
local INFINITY = 100 * 365 * 86400

local function fail(code, reason)
    error(errors.new_here({code = code, message = reason}), 0)
end

-- Reads the text of the next answer, without what is pushed before it.
local function read_answer(channel)
    while true do
        local text = wait(python.console_read(channel.id, END))
        if text == nil then
            fail(box.error.NO_CONNECTION, 'Peer closed')
        elseif not text:find('^%%TAG !push!') then
            return text .. END
        end
    end
end

-- Serves one connection of the text protocol: hands each answer to the request that waits for it. Answers come in the
-- order of the requests.
local function serve_text(channel)
    log.warn("Netbox text protocol support is deprecated since 1.10, please use require('console').connect() instead")
    wait(python.console_write(channel.id, ('require("console").delimiter("%s")\n'):format(DELIMITER)))
    local answer = read_answer(channel)
    if answer ~= '---\n...\n' then
        fail(box.error.NO_CONNECTION, 'Unexpected response')
    end
    transport.set_state(channel, 'active')
    while channel.id ~= nil do
        answer = read_answer(channel)
        local request = table.remove(channel.requests, 1)
        if request ~= nil then
            request.answer = answer
            request.is_ended:signal()
        end
    end
end

local function hang_up(id)
    python.console_close(id)
end

local function fail_all(channel, problem)
    local requests = channel.requests
    channel.requests = {}
    for _, request in ipairs(requests) do
        request.problem = channel.reason or errors.is(problem) and problem.message
        request.is_ended:signal()
    end
end

-- Connects, finds out the protocol, and serves the connection until its end.
local function serve(channel)
    local remote, serve_binary = channel.remote, channel.serve_binary
    local host, port = channel.address()
    local address = ('%s:%s'):format(host or 'localhost', port)
    local id, protocol = wait(python.console_dial(address, channel.events.connect_timeout()))
    if not id then
        fail(box.error.NO_CONNECTION, protocol)
    elseif protocol ~= 'text' then
        python.console_close(id)
        channel.hang_up = python.netbox_close
        return serve_binary(channel)
    end
    channel.id, channel.hang_up = id, hang_up
    remote.protocol, remote.peer_uuid, remote.peer_version_id = 'Lua console', NO_UUID, VERSION_ID
    local ok, problem = pcall(serve_text, channel)
    fail_all(channel, problem)
    if not ok then
        error(problem, 0)
    end
end

-- Sends a line and waits for its answer. An answer that comes after the timeout is thrown away.
local function ask(channel, text, timeout)
    if channel.state ~= 'active' then
        fail(box.error.NO_CONNECTION, channel.reason or ('Connection is not established, state is "%s"')
            :format(channel.state))
    end
    local request = {is_ended = fiber.cond()}
    table.insert(channel.requests, request)
    wait(python.console_write(channel.id, text))
    if not (request.answer or request.problem) then
        request.is_ended:wait(timeout)
    end
    if request.problem then
        fail(box.error.NO_CONNECTION, request.problem)
    elseif request.answer == nil then
        fail(box.error.TIMEOUT, 'Timeout exceeded')
    end
    return request.answer
end

local function eval(remote, line, timeout)
    if timeout ~= nil and (type(timeout) ~= 'number' or timeout < 0) then
        error('Usage: future:wait_result(timeout)')
    end
    local channel, deadline = remote._transport, fiber.clock() + (timeout or INFINITY)
    if channel.state ~= 'active' then
        channel:wait_state('active', timeout)
    end
    local left = math.max(0, deadline - fiber.clock())
    if remote.protocol ~= 'Binary' then
        return ask(channel, line .. DELIMITER .. '\n', left)
    end
    local request, problem = channel:send('eval', {}, 'return require("console").eval(...)', {line})
    local values
    if request ~= nil then
        values, problem = request:wait_result(left)
    end
    if problem ~= nil then
        error(problem, 0)
    end
    return values[1]
end

-- Makes the channel of `remote` one to a console.
local function adopt(remote)
    local channel = remote._transport
    log.warn("Netbox console API is deprecated since 1.10, please use require('console').connect() instead")
    channel.remote, channel.requests, channel.serve_binary, channel.serve = remote, {}, channel.serve, serve
    channel.events.schema = nil
end

return {adopt = adopt, eval = eval}
