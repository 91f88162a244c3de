-- net.box, sockets, consoles, the log.
local scenario, directory, given = ...
local values, with_space = given.values, given.with_space
local fio = require('fio')

local connection

local function connected()
    if not connection then
        local path = fio.pathjoin(directory, 'socket')
        box.cfg{listen = path}
        box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
        rawset(_G, 'echo', function(...) return ... end)
        rawset(_G, 'made', {})
        rawset(_G, 'give', function(kind) return made[kind] end)
        rawset(_G, 'pushes', function(n) for i = 1, n do box.session.push(i) end end)
        connection = require('net.box').connect(path)
    end
    return connection
end

for _, kind in ipairs({'integers', 'strings', 'tuples', 'decimals', 'uuids', 'maps', 'objects', 'word'}) do
    scenario('net_box.send.' .. kind, 100, function(n)
        local remote, value = connected(), values[kind](n)
        return function() remote:call('give', {'none', value}) end
    end)
    scenario('net_box.receive.' .. kind, 100, function(n)
        local remote = connected()
        made[kind] = values[kind](n)
        return function() remote:call('give', {kind}) end
    end)
end
scenario('net_box.arguments', 10, function(n)
    local remote, numbers = connected(), values.integers(math.min(n, 5000))
    return function() remote:call('echo', numbers) end
end)
scenario('net_box.eval', 100, function(n)
    local remote, numbers = connected(), values.integers(n)
    return function() remote:eval('return #(...)', {numbers}) end
end)
scenario('net_box.select', 100, function(n)
    local remote = connected()
    local body, finish = with_space(n, function() remote.space.growth:select() end)
    remote:reload_schema()
    return body, finish
end)
scenario('net_box.async', 100, function(n)
    local remote = connected()
    return function()
        local futures = {}
        for i = 1, n do futures[i] = remote:call('echo', {i}, {is_async = true}) end
        for i = 1, n do futures[i]:wait_result(10) end
    end
end)
scenario('net_box.pushes', 100, function(n)
    local remote = connected()
    return function()
        local got = {}
        remote:call('pushes', {n}, {on_push = table.insert, on_push_ctx = got})
    end
end)
scenario('net_box.push_futures', 100, function(n)
    local remote = connected()
    return function()
        local future = remote:call('pushes', {n}, {is_async = true})
        future:wait_result(10)
        for _, message in future:pairs() do local _ = message end
    end
end)
scenario('socket.lines', 100, function(n)
    local socket = require('socket')
    local path = fio.pathjoin(directory, 'lines' .. n)
    local text = ('a line of text\n'):rep(n)
    local server = socket.tcp_server('unix/', path, function(peer) peer:write(text) end)
    return function()
        local client = socket.tcp_connect('unix/', path)
        for _ = 1, n do client:read('\n') end
        client:close()
    end, function() server:close() end
end)
scenario('socket.bytes', 100, function(n)
    local socket = require('socket')
    local path = fio.pathjoin(directory, 'bytes' .. n)
    local text = ('a line of text\n'):rep(n)
    local server = socket.tcp_server('unix/', path, function(peer) peer:write(text) end)
    return function()
        local client = socket.tcp_connect('unix/', path)
        client:read(#text)
        client:close()
    end, function() server:close() end
end)
scenario('socket.far_delimiter', 100, function(n)
    local socket = require('socket')
    local path = fio.pathjoin(directory, 'far' .. n)
    local text = ('a line of text '):rep(n) .. '\n'
    local server = socket.tcp_server('unix/', path, function(peer) peer:write(text) end)
    return function()
        local client = socket.tcp_connect('unix/', path)
        client:read('\n')
        client:close()
    end, function() server:close() end
end)
scenario('console.answer', 100, function(n)
    local path = fio.pathjoin(directory, 'console')
    if not rawget(_G, 'console_server') then rawset(_G, 'console_server', require('console').listen(path)) end
    rawset(_G, 'shown', values.lines(n))
    return function()
        local client = require('socket').tcp_connect('unix/', path)
        client:read('\n') client:read('\n')
        client:write('shown\n')
        client:read('\n...\n')
        client:close()
    end
end)
scenario('console.command', 100, function(n)
    local path = fio.pathjoin(directory, 'console')
    if not rawget(_G, 'console_server') then rawset(_G, 'console_server', require('console').listen(path)) end
    local command = 'return {' .. ('1,'):rep(n) .. '}\n'
    return function()
        local client = require('socket').tcp_connect('unix/', path)
        client:read('\n') client:read('\n')
        client:write(command)
        client:read('\n...\n')
        client:close()
    end
end)
scenario('log.info', 100, function(n)
    local log, text = require('log'), ('words '):rep(n)
    return function() log.info(text) end
end)
