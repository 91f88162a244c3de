-- Other nodes that a console is connected to. `eval` sends a command and returns the text of the answer. Both kinds,
-- of the text and of the binary protocol, have host, port, state, eval, ask and close.
local python = require('internal.python')
local wait = require('internal.wait')

local REMOTE_DELIMITER = '$EOF$'
-- Seconds: between attempts to reconnect, how long a statement waits for that, how long the terminal waits for an
-- answer.
local RECONNECT_AFTER, RECONNECT_TIMEOUT, ASK_TIMEOUT = 0.2, 3, 2

local text_remote_mt = {}
text_remote_mt.__index = text_remote_mt

-- Makes a remote that speaks the text protocol. `hooks.end_of_stream` has the end mark of each output format,
-- `hooks.new_format(command)` returns the format that a command sets, `hooks.print_push(text)` shows a message that
-- is pushed before an answer.
local function wrap_text(connection, host, port, hooks)
    local self = setmetatable({
        connection = connection, host = host, port = port, state = 'active', fmt = 'yaml',
        end_of_stream = hooks.end_of_stream, new_format = hooks.new_format, print_push = hooks.print_push,
    }, text_remote_mt)
    self:send('require("console").delimiter("' .. REMOTE_DELIMITER .. '")\n')
    self:receive()
    return self
end

function text_remote_mt:fail(reason)
    self.state = 'error'
    self.error = reason or 'Peer closed'
    error(self.error, 0)
end

function text_remote_mt:send(text)
    if not wait(python.console_write(self.connection, text)) then
        self:fail()
    end
end

function text_remote_mt:receive()
    local mark = self.end_of_stream[self.fmt]
    local text = wait(python.console_read(self.connection, mark))
    if text == nil then
        self:fail()
    end
    return self.fmt == 'table' and text or text .. mark
end

function text_remote_mt:eval(text)
    self.fmt = self.new_format(text) or self.fmt
    self:send(text .. REMOTE_DELIMITER .. '\n')
    while true do
        local answer = self:receive()
        if not answer:find('^%%TAG !push!') and not answer:find('^%-%- Push') then
            return answer
        end
        self.print_push(answer)
    end
end

function text_remote_mt:close()
    python.console_close(self.connection)
end

-- Marks the connection as lost after Ctrl-C, because the late answer could not be told from the next one.
function text_remote_mt:interrupted()
    self.state, self.error = 'error', 'interrupted, and no longer connected'
end

-- Answers nothing: in the text protocol answers to questions of the terminal could not be told from others.
function text_remote_mt:ask()
    return nil
end

-- Makes a remote that speaks the binary protocol. With `reconnects` the connection is restored after a restart of the
-- other side; a statement waits a little for it.
local function wrap_binary(address, timeout, reconnects)
    local connection = require('net.box').connect(address, {
        connect_timeout = timeout, reconnect_after = reconnects and RECONNECT_AFTER or nil,
    })
    if connection.state ~= 'active' then
        connection:close()
        box.error(box.error.NO_CONNECTION)
    end
    local names
    return {
        host = connection.host or 'localhost',
        port = connection.port,
        state = 'active',
        eval = function(_, line)
            if reconnects and connection.state ~= 'active' then
                connection:wait_connected(RECONNECT_TIMEOUT)
            end
            return connection:eval('return require("console").eval(...)', {line})
        end,
        interrupted = function() end,
        ask = function(_, ...)
            names = names or 'return (function() ' .. python.console_source('console_names')
                .. '\nend)()[...](select(2, ...))'
            return (connection:eval(names, {...}, {timeout = ASK_TIMEOUT}))
        end,
        close = function()
            connection:close()
        end,
    }
end

return {wrap_text = wrap_text, wrap_binary = wrap_binary, DELIMITER = REMOTE_DELIMITER}
