-- box.cfg: callable before and after the first configuration, readable after it; and the guard that
-- refuses most of `box` before it.

local events = require('box.events')
local fiber = require('fiber')
local finish = require('box.finish')
local python = require('internal.python')
local uuid = require('uuid')
-- Registers with Python what schema_attach() calls.
require('box.schema_objects')

local M = {}

-- What may be used before box.cfg{}.
local ALWAYS = {
    error = true, internal = true, index = true, lib = true, session = true, tuple = true, runtime = true,
    ctl = true, NULL = true, execute = true, watch = true, broadcast = true, iproto = true,
    txn_isolation_level = true,
}

local closed = {}
local is_configured = false
-- {fiber = id, ended = condition} of a first configuration that is under way.
local first

local function refuse()
    error(debug.traceback('Please call box.cfg{} first'))
end

local function refuse_assignment()
    error('Attempt to modify a read-only table')
end

local ACCEPTED = {boolean = true, number = true, string = true, table = true}

-- Always a map: NULL asks for an option's default. The text for what is no table is that of pairs().
local function encode_options(options)
    local copy = {}
    for name, value in pairs(options == nil and {} or options) do
        -- No option takes a function or a cdata: one that MessagePack knows stands for it, and the check of types
        -- refuses it with the option's name.
        if value ~= nil and not ACCEPTED[type(value)] then
            value = uuid.NULL
        end
        copy[name] = value
    end
    return finish.encode(setmetatable(copy, {__serialize = 'map'}))
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

-- Without the tables that box.cfg itself holds: they are as they were even if somebody has changed what is in them.
local function changed(options)
    local result = {}
    for name, value in pairs(options == nil and {} or options) do
        if type(value) ~= 'table' or value ~= rawget(box.cfg, name) then
            result[name] = value
        end
    end
    return result
end

-- Whether the instance is configured, after the end of a first configuration by another fiber, which may fail.
local function wait_configured()
    while first and first.fiber ~= fiber.id() do
        first.ended:wait()
    end
    return is_configured
end

-- Options that were applied before one failed stay applied, and are shown.
local function configure_again(_, options)
    if not wait_configured() then
        return M.configure(options)
    end
    local packed = encode_options(changed(options))
    local ok, problem = pcall(finish.nothing, python.box_configure(packed))
    show_values(finish.value(python.box_config_values()))
    if not ok then
        error(problem, 0)
    elseif type(rawget(box, 'on_reload_configuration')) == 'function' then
        box.on_reload_configuration()
    end
end

local configured_metatable = {__newindex = refuse_assignment, __call = configure_again}

-- Everything of `box` is there while the instance starts: a master's status is looked at in its bootstrap.
local function open_box(values)
    setmetatable(box, nil)
    for name, value in pairs(closed) do
        box[name] = value
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
    members.cfg = M.configure
    setmetatable(members, {__index = refuse})
end

local function start(packed)
    open_box(finish.value(python.box_config_check(packed)))
    is_configured = true
    events.fire('on_schema_init')
    local ok, problem = pcall(finish.nothing, python.box_configure(packed))
    if not ok then
        is_configured = false
        close_box(box)
    end
    return ok, problem
end

local function configure_first(packed, options)
    local ok, problem = start(packed)
    while not ok do
        if not python.box_join_is_undone() then
            error(problem, 0)
        end
        fiber.sleep(type(options) == 'table' and tonumber(options.replication_timeout) or 1)
        ok, problem = start(packed)
    end
    show_values(finish.value(python.box_config_values()))
end

-- A wrong option leaves `box` as it was, and so does an instance that could not start. A join that was undone begins
-- anew. Another fiber that calls box.cfg meanwhile waits for the end.
function M.configure(options)
    if wait_configured() then
        return configure_again(box.cfg, options)
    end
    local packed = encode_options(options)
    first = {fiber = fiber.id(), ended = fiber.cond()}
    local ok, problem = pcall(configure_first, packed, options)
    first.ended:broadcast()
    first = nil
    if not ok then
        error(problem, 0)
    end
end

M.close_box = close_box

return M
