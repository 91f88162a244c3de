-- require('log'): writes messages to the log of the node, with the file and the line of the caller.
local json = require('json').new()
local lua_error = require('internal.error')
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local wait = require('internal.wait')

json.cfg{encode_use_tostring = true, encode_invalid_as_nil = true}

local error, ipairs, pairs, pcall, select, tostring, type = error, ipairs, pairs, pcall, select, tostring, type
local getinfo, format = debug.getinfo, string.format

local LEVELS = {fatal = 0, syserror = 1, error = 2, crit = 3, warn = 4, info = 5, verbose = 6, debug = 7}
local FORMATS = {plain = true, json = true}
-- Option of log.cfg -> option of box.cfg.
local BOX_OPTIONS = {log = 'log', level = 'log_level', format = 'log_format', nonblock = 'log_nonblock'}

local state = msgpack.decode(python.log_state())

local function level_number(value)
    if type(value) == 'string' then
        return LEVELS[value]
    end
    -- With NaN, and with what is no 32-bit number, only fatal messages are written.
    return value > -2 ^ 31 - 1 and value < 2 ^ 31 and math.max(0, math.min(value, LEVELS.debug)) or 0
end

local function expected(names)
    local list = {}
    for name in pairs(names) do
        list[#list + 1] = name
    end
    return 'expected ' .. table.concat(list, ',')
end

local function message_text(message, ...)
    if select('#', ...) > 0 then
        local ok, text = pcall(format, message, ...)
        return ok and text or error(text, 4)
    elseif type(message) == 'table' then
        return json.encode(message)
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

local function say(level, ...)
    if level > python.log_level() then
        return
    end
    local text = message_text(...)
    python.log_say(level, caller(), text)
end

-- Name of a module -> the level of its messages, see log.new().
local module_levels

local function say_for_module(module, level, ...)
    local own = module_levels and module_levels[module]
    if level > (own and level_number(own) or python.log_level()) then
        return
    end
    local text = message_text(...)
    python.log_say_for_module(level, caller(), text, module)
end

local function speaker(name)
    local level = LEVELS[name]
    return function(...)
        say(level, ...)
    end
end

local log = {cfg = {}, box_api = {}}
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

local function check_nonblock(value)
    if type(value) ~= 'boolean' then
        return "option must be 'true' or 'false'"
    end
end

local function check_log(value)
    if type(value) ~= 'string' then
        return 'must be a string'
    end
end

local CHECKS = {level = check_level, format = check_format, nonblock = check_nonblock, log = check_log}

local function set(option, value)
    wait(python.log_set(option, value))
    state[option] = value
end

-- Shows the new value in box.cfg, once that is a table.
local function mirror(option, value)
    local box = rawget(_G, 'box')
    if type(box) == 'table' and type(rawget(box, 'cfg')) == 'table' then
        rawset(box.cfg, BOX_OPTIONS[option], value)
    end
end

function log.level(value)
    local problem = check_level(value)
    if problem then
        error(problem)
    end
    set('level', level_number(value))
    mirror('level', value)
end

function log.log_format(value)
    local problem = check_format(value)
    if problem then
        error(problem)
    end
    set('format', value)
    mirror('format', value)
end

function log.rotate()
    wait(python.log_rotate())
end

-- Returns the process id of the command of `log = '|command'`, 0 without one.
function log.pid()
    return python.log_pid()
end

local function refresh()
    local now = msgpack.decode(python.log_state())
    for name in pairs(BOX_OPTIONS) do
        state[name] = now[name] ~= msgpack.NULL and now[name] or nil
    end
    return state
end

local is_started = false
-- The names of options that log.cfg has set -> true.
local was_set = {}

-- Checks an option that cannot change after the log was opened, by the first log.cfg{} or box.cfg{}.
local function check_static(name, value)
    if (name ~= 'log' and name ~= 'nonblock') or refresh()[name] == value then
        return nil
    end
    local box = rawget(_G, 'box')
    if is_started or (type(box) == 'table' and type(rawget(box, 'cfg')) == 'table') then
        return "can't be set dynamically"
    end
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

-- Checks the options of log.cfg. As in Tarantool, unknown options are ignored.
local function check_options(cfg)
    for _, name in ipairs({'log', 'nonblock', 'level', 'format'}) do
        local value = cfg[name]
        local problem = value ~= nil and (CHECKS[name](value) or check_static(name, value))
        if problem then
            error(("log.cfg: '%s' %s"):format(name, problem))
        end
    end
end

-- Applies log.cfg{log =, level =, format =, nonblock =, modules =}. The options can be read as log.cfg.level and so on.
local function configure(_, options)
    options = options or {}
    check_options(options)
    check_modules(options.modules)
    is_started = true
    for name in pairs(BOX_OPTIONS) do
        was_set[name] = was_set[name] or options[name] ~= nil
    end
    if options.modules ~= nil then
        module_levels = table.copy(options.modules)
    end
    if options.log ~= nil then
        set('log', options.log)
    end
    for _, name in ipairs({'level', 'format', 'nonblock'}) do
        if options[name] ~= nil then
            local value = name == 'level' and level_number(options.level) or options[name]
            set(name, value)
        end
    end
    for name in pairs(BOX_OPTIONS) do
        if options[name] ~= nil then
            mirror(name, options[name])
        end
    end
end

-- Returns the name of the format that is shown: before box.cfg{} the node writes bare lines, a format without a name.
local function shown()
    local result = {}
    for name, value in pairs(refresh()) do
        result[name] = value == 'bare' and 'plain' or value
    end
    result.modules = module_levels
    return result
end

setmetatable(log.cfg, {
    __call = configure,
    __index = function(_, name)
        if name == 'modules' then
            return module_levels
        end
        return refresh()[name]
    end,
    __serialize = shown,
})

-- Returns the options that log.cfg has set, by their names in box.cfg, or nil.
function log.box_api.options()
    if not is_started then
        return nil
    end
    local options, now = {}, refresh()
    for name, box_name in pairs(BOX_OPTIONS) do
        options[box_name] = was_set[name] and now[name] or nil
    end
    return options
end

-- Returns an option of the log. In Tarantool box.cfg passes its options to these functions; here both read the options
-- of the node's log.
function log.box_api.cfg_get(name)
    return refresh()[name]
end

function log.box_api.cfg_set_log_level()
    refresh()
    return true
end

function log.box_api.cfg_set_log_format()
    refresh()
    return true
end

function log.box_api.cfg_set(_, name, value)
    return CHECKS[name] == nil or CHECKS[name](value) == nil
end

local loggers = {}

-- Returns the log of a module, as in 2.11: its lines name the module, and log.cfg{modules = {[name] = level}} sets its
-- level.
function log.new(name)
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
    loggers[name] = logger
    return logger
end

-- Obsolete name of log.pid.
log.logger_pid = log.pid

return log
