-- require('console'): evaluation of commands, their output, the text protocol's sessions, the
-- interactive session, and connections to other nodes.
--
-- One session is one fiber that reads a command, evaluates it and writes the answer, so that a
-- transaction, fiber.self().storage and the session survive from one command to the next. Functions
-- of Python named console_* (console/bindings.py) read and write the bytes.
local fiber = require('fiber')
local completion_handler = require('internal.completion')
local console_help = require('internal.console_help')
local console_remote = require('internal.console_remote')
local serializer = require('internal.serializer')
local yaml_emitter = require('internal.yaml_emitter')
local lua_output = require('internal.lua_output')
local python = require('internal.python')
local scheduler = require('internal.scheduler')
local wait = require('internal.wait')

local CFG = serializer.options({encode_use_tostring = true, encode_invalid_as_nil = true})
-- Tables with holes are arrays with nil in Lua output, up to a million elements.
local LUA_CFG = serializer.with_options(CFG, {encode_sparse_safe = 1e6})
local PUSH_HANDLE, PUSH_PREFIX = '!push!', 'tag:tarantool.io/push,2018'
local DEFAULT_SOCKET = '/tmp/tarantool-console.sock'

-- Loads the module on first use, because a script without a terminal does not need it.
local function console_terminal()
    return require('internal.console_terminal')
end

-- ---- settings of sessions ---------------------------------------------------------------------

-- The storage table of a session -> its {language, format, option}, for sessions without a console: those that
-- call console.eval over the binary protocol.
local foreign_settings = setmetatable({}, {__mode = 'k'})
local default_output = {fmt = 'yaml', opts = nil}

local function new_settings()
    return {language = 'lua', fmt = 'yaml', opts = nil}
end

local function current_console()
    return fiber.self().storage.console
end

local function current_settings()
    local console = current_console()
    if console then
        return console.settings
    end
    local storage = rawget(_G, 'box') and box.session and box.session.storage or _G
    foreign_settings[storage] = foreign_settings[storage] or new_settings()
    return foreign_settings[storage]
end

-- Returns the session, in which the tutorial keeps its progress.
console_help.session = function()
    return current_console() or current_settings()
end

-- ---- output ---------------------------------------------------------------------------------

local formats = {}

-- The text after an answer that marks its end for a client of the text protocol. yaml has its own end mark.
local end_of_stream = {yaml = '\n...\n', lua = ';', table = '\n...\n'}

-- Returns the text of the value that a failed __serialize raised; nil if it is not a text.
local function shown(problem)
    local kind = type(problem)
    return (kind == 'string' or kind == 'number' or kind == 'cdata') and tostring(problem) or ''
end

-- Makes the document of a list of values. A value whose __serialize fails is replaced by the reason.
local function yaml_text(values)
    local formatted, text = pcall(yaml_emitter.encode, CFG, values)
    if formatted then
        return text
    end
    return yaml_emitter.encode(CFG, {
        {error = 'console: an exception occurred when formatting the output: ' .. shown(text)},
    })
end

-- Returns whether an answer is a screen of the tutorial for the terminal, which shows it as plain text.
local function is_screen(count, value)
    local console = current_console()
    return console and console.is_terminal and count == 1 and console_help.is_screen(value)
end

function formats.yaml(_, ok, count, ...)
    if not ok then
        local reason = ...
        return yaml_text({{error = reason == nil and serializer.NULL or reason}})
    elseif count == 0 then
        return '---\n...\n'
    elseif is_screen(count, ...) then
        return (...)
    end
    local values = {...}
    for i = 1, count do
        if type(values[i]) == 'nil' then
            values[i] = serializer.NULL
        end
    end
    return yaml_text(values)
end

local function lua_text(block, value)
    local formatted, text = pcall(lua_output.encode, LUA_CFG, value, block)
    if formatted then
        return text
    end
    return lua_output.encode(LUA_CFG, {
        error = ('console: exception while formatting output: "%s"'):format(tostring(text)),
    }, block)
end

function formats.lua(option, ok, count, ...)
    local block = option == 'block'
    if not ok then
        local reason = ...
        return lua_text(block, {error = reason == nil and serializer.NULL or reason}) .. end_of_stream.lua
    elseif is_screen(count, ...) then
        return (...)
    end
    local texts = {}
    for i = 1, count do
        texts[i] = lua_text(block, (select(i, ...)))
    end
    return table.concat(texts, ', ') .. end_of_stream.lua
end

-- Shows rows as a table. Rows that the terminal would not show are not described.
function formats.table(_, ok, count, ...)
    if not ok then
        local reason = ...
        return 'error: ' .. shown(reason) .. '\n'
    end
    local text = count == 1 and console_help.text_of(...)
    if text then
        return text
    end
    local console = current_console()
    return console_terminal().table_text(console and console.is_terminal, console and console.source or '', ...)
end

local function format_output(ok, ...)
    local settings = current_settings()
    return formats[settings.fmt](settings.opts, ok, select('#', ...), ...)
end

-- Returns the text that a console shows for box.session.push(value).
local function format_push(value)
    local settings = current_settings()
    if settings.fmt == 'yaml' then
        return yaml_emitter.encode(CFG, value, PUSH_HANDLE, PUSH_PREFIX)
    end
    return '-- Push\n' .. lua_text(settings.opts == 'block', value) .. ';'
end

local function parse_output(value)
    if not value then
        return 'Specify output format: lua or yaml.'
    end
    local fmt, opts = value:match('^([^,]+),([^,]+)')
    fmt = fmt or value
    if not formats[fmt] then
        return ('Invalid format "%s", supported languages: lua and yaml.'):format(value)
    elseif fmt == 'lua' and opts and opts ~= 'line' and opts ~= 'block' then
        return ('Wrong option "%s", expecting: line or block.'):format(opts)
    end
    return nil, fmt, opts
end

local function set_default_output(value)
    if value == nil then
        error('Nil output value passed')
    end
    local reason, fmt, opts = parse_output(value)
    if reason then
        error(reason)
    end
    default_output.fmt, default_output.opts = fmt, opts
end

local function get_default_output(...)
    if (...) ~= nil then
        error('Arguments provided while prohibited')
    end
    return default_output
end

local function eos(value)
    local fmt = current_settings().fmt
    if not value then
        return end_of_stream[fmt]
    elseif fmt == 'yaml' then
        error('console.eos(): is immutable for output ' .. fmt)
    end
    end_of_stream[fmt] = value
end

-- ---- backslash commands ---------------------------------------------------------------------

local function delimiter(value)
    local console = current_console()
    if console == nil then
        error('console.delimiter(): need existing console')
    elseif value == nil then
        return console.delimiter
    elseif type(value) ~= 'string' then
        error('invalid delimiter')
    end
    console.delimiter = value
end

local parameters = {}

function parameters.delimiter(value)
    local console = current_console()
    if console and console.delimiter == console_remote.DELIMITER then
        error('Can not install delimiter for net box sessions', 0)
    end
    return delimiter(value or '')
end

function parameters.language(value)
    local settings = current_settings()
    if value == nil then
        return {language = settings.language}
    elseif value ~= 'lua' and value ~= 'sql' then
        error(('Invalid language "%s", supported languages: lua and sql.'):format(value), 0)
    end
    settings.language = value
    return true
end

function parameters.output(value)
    local reason, fmt, opts = parse_output(value)
    if reason then
        error(reason, 0)
    end
    local settings = current_settings()
    settings.fmt, settings.opts = fmt, opts
    return true
end

parameters.d, parameters.delim = parameters.delimiter, parameters.delimiter
parameters.l, parameters.lang = parameters.language, parameters.language
parameters.o = parameters.output

local commands = {}

function commands.help()
    return format_output(true, console_help.help)
end

function commands.set(name, value)
    if name == nil then
        return format_output(false, 'Invalid set syntax, type \\help for help')
    elseif parameters[name] == nil then
        return format_output(false, 'Unknown parameter: ' .. name)
    end
    return format_output(pcall(parameters[name], value))
end

function commands.quit()
    local console = current_console()
    if console then
        console.running = false
    end
end

commands.h, commands.s, commands.q = commands.help, commands.set, commands.quit

local function split_words(line)
    local words = {}
    for word in line:gmatch('[^%s]+') do
        words[#words + 1] = word
    end
    return words
end

local function run_command(line)
    local words = split_words(line)
    if #words == 0 then
        return commands.help()
    elseif not commands[words[1]] then
        return format_output(false, ('Invalid command \\%s. Type \\help for help.'):format(line))
    end
    return commands[words[1]](words[2], words[3])
end

-- ---- evaluation -----------------------------------------------------------------------------

-- Runs a line of SQL. As in Tarantool, an error is a second value after nil, except in a table, which has no place for
-- it.
local function eval_sql(line)
    local ok, result, problem = pcall(box.execute, line)
    if current_settings().fmt == 'table' and ok and problem ~= nil then
        return format_output(false, problem)
    elseif ok and problem == nil then
        return format_output(true, result)
    end
    return format_output(ok, result, problem)
end

-- Evaluates a line: as an expression if it compiles after `return `, else as a statement. The name of the
-- chunk is the source itself. Returns the text of the answer; nil ends the session.
local function eval(line)
    if not line then
        return nil
    elseif line:sub(1, 1) == '\\' then
        return run_command(line:sub(2))
    elseif current_settings().language == 'sql' then
        return eval_sql(line)
    end
    local chunk, reason = loadstring('return ' .. line)
    if not chunk then
        chunk, reason = loadstring(line)
    end
    if not chunk then
        return format_output(false, reason)
    end
    local console = current_console()
    if console and console.is_terminal then
        console.source = line
        return format_output(console_terminal().run(chunk, line))
    end
    return format_output(pcall(chunk))
end

-- ---- the read-evaluate-print loop -----------------------------------------------------------

local hooks = {on_start = nil, on_client_disconnect = nil}

local console_mt = {}
console_mt.__index = {
    delimiter = '',
    prompt = 'lunabox',
    ac = true,
    running = false,
    eval = function(_, line) return eval(line) end,
    completion = completion_handler,
}

local function new_console(fields)
    fields.running = true
    fields.settings = new_settings()
    fields.on_client_disconnect = hooks.on_client_disconnect
    return setmetatable(fields, console_mt)
end

local function repl(self)
    fiber.self().storage.console = self
    if hooks.on_start then
        hooks.on_start(self)
    end
    while self.running do
        self:print(self:eval(self:read()))
    end
    fiber.self().storage.console = nil
end

local function on_start(hook)
    if hook ~= nil and type(hook) ~= 'function' then
        error('Wrong type of on_start hook: ' .. type(hook))
    end
    hooks.on_start = hook
end

local function on_client_disconnect(hook)
    if hook ~= nil and type(hook) ~= 'function' then
        error('Wrong type of on_client_disconnect hook: ' .. type(hook))
    end
    hooks.on_client_disconnect = hook
end

local function ac(enabled)
    local console = current_console()
    if console == nil then
        error('console.ac(): need existing console')
    end
    console.ac = not not enabled
end

-- ---- text protocol: the server's side -------------------------------------------------------

local function read_client(self)
    local line = wait(python.console_read(self.connection, self.delimiter .. '\n', self.delimiter .. '\r'))
    if line == nil or line == '~.' then
        return nil
    end
    return line
end

local function print_client(self, output)
    if output == nil then
        self.running = false
        return
    end
    if self.settings.fmt == 'table' then
        output = output .. end_of_stream.table  -- answers in other formats end with a mark of their own
    end
    if not wait(python.console_write(self.connection, output)) then
        self.running = false    -- the client is gone, so the commands that it has already sent are dropped
    end
end

-- The body of the fiber of a session. Python starts it with the number of the connection.
local function serve(connection)
    fiber.self():name(python.console_fiber_name(connection), {truncate = true})
    local self = new_console({connection = connection, read = read_client, print = print_client})
    local ok, reason = pcall(repl, self)
    python.console_close(connection)
    if not ok then
        error(reason, 0)
    end
end

local function listen(uri)
    local address = uri == nil and 'unix/:' .. DEFAULT_SOCKET or tostring(uri)
    local id, fd, name = wait(python.console_listen(address))
    if not id then
        if fd == 'usage' then
            error('Usage: console.listen("[host:]port")')
        end
        error(fd)
    end
    return require('internal.console_server').new(id, fd, require('msgpack').decode(name))
end

-- ---- the interactive session ----------------------------------------------------------------

local started, terminal = false, nil

local function read_terminal(self)
    local line = wait(python.console_prompt(self.prompt, self.delimiter, self.settings.language, self.ac))
    if line == nil then
        return nil
    end
    if self.delimiter ~= '' and line:sub(1, 1) ~= '\\' and line:sub(-#self.delimiter) == self.delimiter then
        line = line:sub(1, -#self.delimiter - 1)
    end
    return line
end

local function print_terminal(self, output)
    if output == nil then
        self.running = false
        return
    end
    wait(python.console_print(output .. (self.settings.fmt == 'table' and '' or '\n')))
end

local function start()
    if started then
        error('console is already started')
    end
    if not python.console_begin_repl then
        box.error(box.error.UNSUPPORTED, 'A node without a terminal', 'console.start()')
    end
    started = true
    python.console_begin_repl()
    local self = new_console({read = read_terminal, print = print_terminal, is_terminal = true})
    self.settings.fmt = python.console_output()
    console_mt.__index.prompt = python.console_name()
    terminal = self
    local ok, reason = pcall(repl, self)
    started, terminal = false, nil
    if not ok then
        error(reason, 0)
    end
end

-- ---- connections to other nodes -------------------------------------------------------------

-- Returns the output format that a command for a remote node sets, nil if it sets none.
local function new_format(text)
    local words = text:sub(1, 1) == '\\' and split_words(text:sub(2)) or {}
    if #words == 3 and commands[words[1]] == commands.set and parameters[words[2]] == parameters.output then
        local _, fmt = parse_output(words[3])
        return fmt
    end
end

local function remote_eval(self, line)
    local remote = self.remote
    if line and remote.state == 'active' then
        local ok, result = (self.is_terminal and console_terminal().call or pcall)(remote.eval, remote, line)
        if not ok and result == 'interrupted' then
            remote:interrupted()
        end
        if remote.state == 'active' then
            return ok and result or format_output(false, result)
        end
    end
    local reason = remote.error
    remote:close()
    self.remote, self.eval, self.prompt, self.completion = nil, nil, nil, nil
    if hooks.on_client_disconnect then
        pcall(hooks.on_client_disconnect, self)
    end
    return reason and format_output(false, reason) or ''
end

local function connect(uri, options)
    local self = current_console()
    if self == nil then
        error('console.connect() need existing console')
    end
    local timeout = options and options.timeout
    local connection, protocol, host, port = wait(python.console_dial(tostring(uri), timeout))
    if not connection then
        if protocol == 'usage' then
            error('Usage: console.connect("[login:password@][host:]port")')
        end
        require('log').verbose(protocol)
        box.error(box.error.NO_CONNECTION)
    end
    local remote
    if protocol == 'text' then
        remote = console_remote.wrap_text(connection, host, port, {
            end_of_stream = end_of_stream,
            new_format = new_format,
            print_push = function(text) self:print(text) end,
        })
    else
        python.console_close(connection)
        remote = console_remote.wrap_binary(tostring(uri), timeout, self.is_terminal)
    end
    local ok, reason = pcall(remote.eval, remote, 'return true')
    if not ok then
        remote:close()
        error(reason)
    end
    self.remote, self.eval = remote, remote_eval
    self.prompt = ('%s:%s'):format(remote.host, remote.port)
    require('log').info('connected to %s:%s', remote.host, remote.port)
    return true
end

-- Called by Python: answers questions of the terminal about the node that its statements go to.
local function ask(name, ...)
    local remote = terminal and terminal.remote
    if remote then
        return remote:ask(name, ...)
    end
    return require('internal.console_names')[name](...)
end
python.entry('console.ask', require('internal.registry').ref(ask))

return {
    start = start,
    eval = eval,
    delimiter = delimiter,
    set_default_output = set_default_output,
    get_default_output = get_default_output,
    eos = eos,
    ac = ac,
    connect = connect,
    listen = listen,
    on_start = on_start,
    on_client_disconnect = on_client_disconnect,
    completion_handler = completion_handler,
    _serve = serve,
    _push = format_push,
}
