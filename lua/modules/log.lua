-- require('log'): writes messages to the log of the node, with the file and the line of the caller.
local json = require('json').new()
local lua_error = require('internal.error')
local python = require('internal.python')
local scheduler = require('internal.scheduler')
local wait = require('internal.wait')

json.cfg{
    encode_use_tostring = true, encode_invalid_as_nil = true, encode_invalid_numbers = true,
    encode_load_metatables = true,
}

local error, ipairs, pairs, pcall, rawget, rawset, select = error, ipairs, pairs, pcall, rawget, rawset, select
local tostring, type = tostring, type
local getinfo, format = debug.getinfo, string.format

local LEVELS = {fatal = 0, syserror = 1, error = 2, crit = 3, warn = 4, info = 5, verbose = 6, debug = 7}
local FORMATS = {plain = true, json = true}
-- Option of log.cfg -> option of box.cfg.
local BOX_OPTIONS = {log = 'log', level = 'log_level', format = 'log_format', nonblock = 'log_nonblock'}
-- Members of a record in JSON that a message in form of a table cannot have.
local RESERVED = {'file', 'level', 'pid', 'line', 'cord_name', 'fiber_name', 'fiber_id', 'error_msg'}

-- The options, which log.cfg shows. A level is a number, or a name if box.cfg has it.
local state = {level = LEVELS.info, format = 'plain'}

local function expected(names)
    local list = {}
    for name in pairs(names) do
        list[#list + 1] = name
    end
    return 'expected ' .. table.concat(list, ',')
end

-- Encodes a table without its reserved members. They are put back: a copy would have its members in another order.
local function encode(message)
    local kept = {}
    for _, name in ipairs(RESERVED) do
        kept[name], message[name] = message[name], nil
    end
    local ok, text = pcall(json.encode, message)
    for name, value in pairs(kept) do
        message[name] = value
    end
    return ok and text or error(text)
end

-- Returns the text of a message, and the members of a record in JSON if it is a table.
local function message_text(message, ...)
    if select('#', ...) > 0 then
        -- Tarantool calls string.format from C, so that the error has no name of a function.
        local ok, text = pcall(format, message, ...)
        return ok and text or error(text, 4)
    elseif type(message) == 'table' then
        local text = encode(message)
        return text, text:sub(2, -2)
    end
    return tostring(message)
end

-- Returns 'file:line' of the code that called `log.level(...)`.
local function caller()
    local info = getinfo(4, 'Sl')
    if info == nil then
        return ''
    end
    return info.short_src .. ':' .. info.currentline
end

-- Returns the id and the name of the running fiber as the log shows them; Python would have to ask for them.
local function running_fiber()
    local record = scheduler.current_fiber()
    return record and record.id .. '/' .. record.name
end

local function say(level, ...)
    if level > python.log_level() then
        return
    end
    local text, fields = message_text(...)
    python.log_say(level, caller(), text, fields, running_fiber())
end

-- Name of a module -> the level of its messages, see log.new().
local module_levels

local function say_for_module(module, level, ...)
    local own = module_levels and module_levels[module]
    if level > (own and (LEVELS[own] or own) or python.log_level()) then
        return
    end
    local text, fields = message_text(...)
    python.log_say_for_module(level, caller(), text, module, fields)
end

local function speaker(name)
    local level = LEVELS[name]
    return function(...)
        say(level, ...)
    end
end

-- What says how the log was set up has no place in Tarantool's plain log.
local function say_debug(text)
    if python.log_level() >= LEVELS.debug then
        python.log_say(LEVELS.debug, '', text)
    end
end

local log = {box_api = {}}
for _, name in ipairs({'debug', 'error', 'info', 'verbose', 'warn'}) do
    log[name] = speaker(name)
end

-- Returns why a level is wrong, or nil; log.cfg, log.level and log.log_format share these checks and their error texts.
local function check_level(value)
    if type(value) ~= 'number' and type(value) ~= 'string' then
        return 'must be a number or a string'
    elseif type(value) == 'string' and LEVELS[value] == nil then
        return expected(LEVELS)
    end
end

local function check_format(value)
    if type(value) ~= 'string' or not FORMATS[value] then
        return expected(FORMATS)
    end
end

-- Shows the new value of an option in box.cfg, if that is a table which has it.
local function mirror(option)
    local box, name = rawget(_G, 'box'), BOX_OPTIONS[option]
    if type(box) == 'table' and type(rawget(box, 'cfg')) == 'table' and rawget(box.cfg, name) ~= nil then
        rawset(box.cfg, name, state[option])
        python.log_show(name, state[option])
    end
end

local function set_level(level)
    python.log_set_level(level)
    state.level = level
    mirror('level')
    say_debug(('log: level set to %s'):format(level))
end

local function set_format(name)
    python.log_set_format(name)
    state.format = name
    mirror('format')
    say_debug(("log: format set to '%s'"):format(name))
end

function log.level(value)
    local problem = check_level(value)
    if problem then
        error(problem)
    end
    set_level(LEVELS[value] or value)
end

function log.log_format(value)
    local problem = check_format(value)
    if problem then
        error(problem)
    end
    set_format(value)
end

function log.rotate()
    python.log_rotate()
end

-- Returns the process id of the command of `log = '|command'`, 0 without one.
function log.pid()
    return python.log_pid()
end

local CFG = 59

local function bad_option(name, problem)
    error(lua_error.new_here({
        code = CFG, message = ("Incorrect value for option '%s': %s"):format(name, problem),
    }), 0)
end

-- The option `modules`, its checks and their texts are those of 2.11.
local function check_modules(modules)
    if modules == nil then
        return
    elseif type(modules) ~= 'table' then
        bad_option('modules', 'should be of type table')
    end
    for name, level in pairs(modules) do
        if type(name) ~= 'string' then
            bad_option('module name', 'should be of type string')
        elseif type(level) ~= 'number' and type(level) ~= 'string' then
            bad_option('log_modules.' .. name, 'should be one of types number, string')
        end
        local problem = check_level(level)
        if problem then
            bad_option('log_modules.' .. name, problem)
        end
    end
end

local function refuse(name, problem)
    error(("log.cfg: '%s' %s"):format(name, problem))
end

local function check_options(options)
    if options.format ~= nil then
        local problem = check_format(options.format)
        if not problem and options.format == 'json' and wait(python.log_is_syslog(options.log)) == 1 then
            problem = "json can't be used with syslog logger"
        end
        if problem then
            refuse('format', problem)
        end
    end
    local problem = options.level ~= nil and check_level(options.level)
    if problem then
        refuse('level', problem)
    end
    if options.nonblock ~= nil and type(options.nonblock) ~= 'boolean' then
        error("log.cfg: 'nonblock' option must be 'true' or 'false'")
    end
    check_modules(options.modules)
end

-- Changes the options of a log that is open.
local function reconfigure(options)
    for _, name in ipairs({'log', 'nonblock'}) do
        if options[name] ~= nil and options[name] ~= state[name] then
            refuse(name, "can't be set dynamically")
        end
    end
    if options.level ~= nil then
        log.level(options.level)
    end
    if options.format ~= nil then
        log.log_format(options.format)
    end
end

-- Opens the log.
local function open(options)
    local level, name, nonblock = options.level or state.level, options.format or state.format, options.nonblock
    if type(level) ~= 'number' then
        -- Here Tarantool takes no name of a level.
        error("bad argument #2 to 'say_logger_init' (cannot convert 'string' to 'int')")
    end
    wait(python.log_is_syslog(options.log))
    wait(python.log_open(options.log or '', nonblock, level, name))
    state.log, state.level, state.format, state.nonblock = options.log, level, name, nonblock or nil
    for option in pairs(BOX_OPTIONS) do
        mirror(option)
    end
    say_debug(("log.cfg({log=%s,level=%s,nonblock=%s,format='%s'})"):format(options.log, level, nonblock, name))
end

-- Applies log.cfg{log =, level =, format =, nonblock =, modules =}. The options can be read as log.cfg.level and so on.
-- As in Tarantool, unknown ones are ignored.
local function configure(_, cfg)
    cfg = cfg or {}
    local given = {log = cfg.log, level = cfg.level, format = cfg.format, nonblock = cfg.nonblock, modules = cfg.modules}
    if type(given.log) ~= 'string' or given.log == '' then
        given.log = nil
    end
    check_options(given)
    if given.modules ~= nil then
        module_levels = table.copy(given.modules)
        state.modules = module_levels
    end
    if python.log_is_open() then
        reconfigure(given)
    else
        open(given)
    end
end

log.cfg = setmetatable(state, {__call = configure})

-- Returns those options of the log that the options of a first box.cfg do not name: they keep their values.
function log.box_api.first_options(options)
    local result = {}
    for option, name in pairs(BOX_OPTIONS) do
        local given = options[name]
        if (option == 'log' or option == 'nonblock') and python.log_is_open() then
            if given ~= nil and given ~= '' and given ~= state[option] then
                bad_option(name, "can't be set dynamically")
            end
        end
        if given == nil or given == '' then
            result[name] = state[option]
        end
    end
    return result
end

-- Takes over the options of the log from box.cfg, after a start or a change. The level is a number then.
function log.box_api.accept(values)
    for option, name in pairs(BOX_OPTIONS) do
        state[option] = values[name]
    end
    state.level = LEVELS[state.level] or state.level
end

-- Returns an option of the log. In Tarantool box.cfg passes its options to these functions; here both read the options
-- of the node's log.
function log.box_api.cfg_get(name)
    for option, box_name in pairs(BOX_OPTIONS) do
        if box_name == name then
            return state[option]
        end
    end
end

function log.box_api.cfg_set_log_level()
    return true
end

function log.box_api.cfg_set_log_format()
    return true
end

local CHECKS = {log_level = check_level, log_format = check_format}

function log.box_api.cfg_set(_, name, value)
    local problem = CHECKS[name] ~= nil and CHECKS[name](value) or nil
    return problem == nil, problem
end

-- A module that is loaded after the start shows the options of box.cfg.
if type(rawget(_G, 'box')) == 'table' and type(rawget(_G.box, 'cfg')) == 'table' then
    log.box_api.accept(_G.box.cfg)
end

local loggers = {}

-- Returns the log of a module, as in 2.11: its lines name the module, and log.cfg{modules = {[name] = level}} sets its
-- level.
local function new(name)
    if type(name) ~= 'string' then
        error('Illegal parameters, name should be a string')
    elseif loggers[name] then
        return loggers[name]
    end
    local logger = table.copy(log)
    logger.name = name
    for _, level_name in ipairs({'debug', 'error', 'info', 'verbose', 'warn'}) do
        local level = LEVELS[level_name]
        logger[level_name] = function(...)
            say_for_module(name, level, ...)
        end
    end
    loggers[name] = setmetatable(logger, getmetatable(log))
    return logger
end

local is_deprecated = false

-- Obsolete name of log.pid.
local function logger_pid()
    if not is_deprecated then
        is_deprecated = true
        say(LEVELS.warn, 'logger_pid() is deprecated, please use pid() instead')
    end
    return log.pid()
end

-- What 2.8.1 does not list is found by its name.
return setmetatable(log, {
    __index = {logger_pid = logger_pid, new = new},
    __serialize = function(self)
        local shown = table.copy(self)
        shown.box_api = nil
        return setmetatable(shown, nil)
    end,
})
