-- box.cfg: callable before and after the first configuration, readable after it; and the guard that
-- refuses most of `box` before it.

local direct = require('box.direct')
local events = require('box.events')
local fiber = require('fiber')
local finish = require('box.finish')
local python = require('internal.python')
local scheduler = require('internal.scheduler')

local M = {}

-- The members of `box` that may be used before box.cfg{}.
local ALWAYS = {
    error = true, internal = true, index = true, lib = true, session = true, tuple = true, runtime = true,
    ctl = true, NULL = true, execute = true, watch = true, broadcast = true, iproto = true,
    txn_isolation_level = true,
}

-- The members that 2.8.1 has not. They are found by name but not listed by pairs(box).
local LATER = {'broadcast', 'iproto', 'txn_id', 'txn_isolation_level', 'watch'}
local later = {}

-- The number of fibers of a configured instance of Tarantool that wait with a timer.
local DAEMONS = 13

local closed = {}
local is_configured = false
-- {fiber = id, ended = condition} while a first configuration is in progress.
local first

local function refuse()
    error(debug.traceback('Please call box.cfg{} first'))
end

local function refuse_assignment()
    error('Attempt to modify a read-only table')
end

local ACCEPTED = {boolean = true, number = true, string = true, table = true}

-- Encodes options as names and values in turn, in the order of pairs(), in which warnings and errors come. A NULL asks for
-- the default of the option. `more` are others, which replace those of the same name.
local function encode_options(options, more)
    local items = {}
    for _, part in ipairs({options == nil and {} or options, more}) do
        for name, value in pairs(part) do
            -- No option accepts a function or a cdata. It is replaced by a value that MessagePack can hold, which the
            -- check of types refuses with the name of the option.
            if value ~= nil and not ACCEPTED[type(value)] then
                value = require('uuid').NULL
            end
            items[#items + 1] = type(name) == 'number' and name or tostring(name)
            items[#items + 1] = value
        end
    end
    return finish.encode(items)
end

-- Returns the options of the log for the first box.cfg, as log.cfg and the module's functions set them, where the options
-- of the user do not.
local function log_options(options)
    local log = rawget(package.loaded, 'log')
    return log and log.box_api.first_options(options == nil and {} or options) or {}
end

-- Shows the options of the log in log.cfg.
local function show_log_options(values)
    local log = rawget(package.loaded, 'log')
    if log then
        log.box_api.accept(values)
    end
end

-- Raises an error for a value that is not a table. As in Tarantool, its text has the position twice.
local function check_table(options)
    local ok, problem = pcall(function()
        local step = pairs(options == nil and {} or options)
        return step
    end)
    if not ok then
        error(problem)
    end
end

local function show_values(values)
    for name in pairs(box.cfg) do
        if values[name] == nil then
            rawset(box.cfg, name, nil)
        end
    end
    for name, value in pairs(values) do
        rawset(box.cfg, name, value)
    end
end

-- Returns the values without those tables that box.cfg itself holds: they are not new, even if their contents were
-- changed.
local function changed(options)
    local result = {}
    for name, value in pairs(options == nil and {} or options) do
        if type(value) ~= 'table' or value ~= rawget(box.cfg, name) then
            result[name] = value
        end
    end
    return result
end

-- Waits for a first configuration by another fiber. Returns whether the instance is configured then.
local function wait_configured()
    while first and first.fiber ~= fiber.id() do
        first.ended:wait()
    end
    return is_configured
end

-- Shows the title of the options for the process; an empty one changes nothing.
local function show_title(options)
    local text = type(options) == 'table' and options.custom_proc_title
    if type(text) == 'string' and text ~= '' then
        require('title').update(text)
    end
end

-- Returns the error of wrong options, with the text of Lua if a formula is wrong.
local function explained(problem, options)
    local formula = type(options) == 'table' and options.replication_synchro_quorum
    if type(formula) ~= 'string' or not tostring(problem):find('failed to evaluate the formula', 1, true) then
        return problem
    end
    local text = require('box.quorum_formula')(formula)
    return text and require('internal.error').new_here({
        code = box.error.CFG, message = ("Incorrect value for option 'replication_synchro_quorum': %s"):format(text),
    }) or problem
end

-- Changes options of a configured instance. If one fails, those applied before it stay, and box.cfg shows them.
local function configure_again(_, options)
    if not wait_configured() then
        return M.configure(options)
    end
    check_table(options)
    local packed = encode_options(changed(options))
    local ok, problem = pcall(finish.nothing, python.box_configure(packed))
    local values = finish.value(python.box_config_values())
    show_values(values)
    show_log_options(values)
    if not ok then
        error(explained(problem, options), 0)
    end
    show_title(options)
    if type(rawget(box, 'on_reload_configuration')) == 'function' then
        box.on_reload_configuration()
    end
end

local configured_metatable = {__newindex = refuse_assignment, __call = configure_again}

-- Makes all of `box` usable. This happens before the instance has started, because programs ask a master for its status
-- during its bootstrap.
local function open_box(values)
    local opened = require('box.opened')
    setmetatable(box, {__index = setmetatable(later, nil)})
    for name, value in pairs(opened) do
        box[name] = value
    end
    for name, value in pairs(closed) do
        box[name] = value
    end
    for _, name in ipairs(LATER) do
        later[name] = rawget(box, name) or later[name]
        box[name] = nil
    end
    box.cfg = setmetatable(values, configured_metatable)
    finish.nothing(python.schema_attach())
    finish.nothing(python.tuple_formats_attach())
end

local function close_box(members)
    for name, value in pairs(members) do
        if name ~= 'cfg' then
            closed[name] = value
        end
        if not ALWAYS[name] then
            members[name] = nil
        end
    end
    for _, name in ipairs(LATER) do
        if ALWAYS[name] then
            later[name], members[name] = closed[name] or later[name], nil
        else
            later[name] = nil
        end
    end
    members.cfg = M.configure
    setmetatable(members, {__index = setmetatable(later, {__index = refuse})})
end

-- Numbers the fibers from now on as Tarantool does, which has made some for the start.
local function number_fibers()
    local highest = 0
    for id in pairs(fiber.info()) do
        highest = math.max(highest, id)
    end
    python.box_number_fibers(highest)
end

-- Counts as SELECT the reads of the schema version after a start: one for the automatic upgrade, which only an instance
-- without masters tries that may write, and one for the warning.
local function count_version_reads()
    local tries_upgrade = not box.cfg.read_only and not box.cfg.replication
    direct.reads = direct.reads + (tries_upgrade and 2 or 1)
end

local function start(packed, options)
    open_box(require('box.cfg_order')(options == nil and {} or options, finish.value(python.box_config_check(packed))))
    is_configured = true
    -- As in Tarantool, an error of a trigger does not stop the start; here the log tells of it.
    local is_done, failure = pcall(events.fire, 'on_schema_init')
    if not is_done then
        python.log_error(require('internal.error').encode(failure))
    end
    local ok, problem = pcall(finish.nothing, python.box_configure(packed))
    if not ok then
        is_configured = false
        close_box(box)
    end
    return ok, problem
end

local function configure_first(packed, options)
    local ok, problem = start(packed, options)
    while not ok do
        if not python.box_join_is_undone() then
            error(problem, 0)
        end
        fiber.sleep(type(options) == 'table' and tonumber(options.replication_timeout) or 1)
        ok, problem = start(packed, options)
    end
    show_values(finish.value(python.box_config_values()))
    show_log_options(box.cfg)
    number_fibers()
    show_title(box.cfg)
    count_version_reads()
    scheduler.daemon_timers = scheduler.daemon_timers + DAEMONS
end

-- Applies options. After a wrong option or a failed start `box` is as before. A join that was undone starts again.
-- Another fiber that calls box.cfg meanwhile waits for the end.
function M.configure(options)
    if wait_configured() then
        return configure_again(box.cfg, options)
    end
    check_table(options)
    local packed = encode_options(options, log_options(options))
    first = {fiber = fiber.id(), ended = fiber.cond()}
    local ok, problem = pcall(configure_first, packed, options)
    first.ended:broadcast()
    first = nil
    if not ok then
        error(explained(problem, options), 0)
    end
end

M.close_box = close_box

return M
