-- box.session: the session of the running code.

local arguments = require('internal.arguments')
local direct = require('box.direct')
local errors = require('internal.error')
local finish = require('box.finish')
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local events = require('box.events')
local registry = require('internal.registry')
local wait = require('internal.wait')

local M = {}

for _, name in ipairs({'id', 'sync', 'uid', 'euid'}) do
    local read = python['session_' .. name]
    M[name] = function()
        return read()
    end
end

function M.type()
    return finish.value(python.session_strings())[1]
end

function M.user()
    return finish.value(python.session_strings())[2]
end

function M.effective_user()
    return finish.value(python.session_strings())[3]
end

local function check_session_id(name, ...)
    if select('#', ...) > 1 then
        error('session.' .. name .. '(sid): bad arguments', 3)
    end
    local id = ...
    if select('#', ...) == 0 then
        return nil
    elseif name == 'peer' then
        return arguments.number(id) or arguments.bad(1, 'number expected, got ' .. type(id), 3)
    end
    local number = tonumber64(id)
    if number == nil then
        error('expected int64_t as -1 argument', 0)
    end
    return tonumber(number)
end

function M.exists(...)
    return finish.value(python.session_exists(check_session_id('exists', ...)))
end

function M.fd(...)
    local fd = finish.value(python.session_fd(check_session_id('fd', ...)))
    if fd == nil then
        error('session.fd(): session does not exist', 2)
    end
    return fd
end

function M.peer(...)
    local found = finish.value(python.session_peer(check_session_id('peer', ...)))
    if not found[1] then
        error('session.peer(): session does not exist', 2)
    end
    return found[2] ~= nil and found[2] or nil
end

local function leave(number, ok, ...)
    python.session_su_leave(number)
    direct.forget_fiber()
    if not ok then
        error((...), 0)
    end
    return ...
end

-- Converts an argument to a user. Ids have 32 bits; a value that is neither a name nor a number means the user 0, the
-- guest, as in Tarantool.
local function user_of(value)
    if type(value) == 'string' then
        return value
    elseif type(value) ~= 'number' or not (math.abs(value) < 2 ^ 63) then
        return 0
    end
    local whole = value < 0 and math.ceil(value) or math.floor(value)
    return whole % 2 ^ 32
end

-- su(user) changes the user of the session; su(user, function, ...) runs a function as that user.
function M.su(...)
    if rawget(box, 'space') == nil then
        error('Please call box.cfg{} first', 0)
    elseif select('#', ...) < 1 then
        error('session.su(): bad arguments', 2)
    end
    local user, func = user_of((...)), select(2, ...)
    if select('#', ...) == 1 then
        finish.nothing(python.session_su(user))
        direct.forget_fiber()
        return
    end
    local number = finish.plain(python.session_su_enter(user))
    direct.forget_fiber()
    if type(func) ~= 'function' then
        leave(number, true)
        arguments.bad(2, 'function expected, got ' .. type(func), 2)
    end
    return leave(number, pcall(func, select(3, ...)))
end

-- How each kind of session encodes a pushed value. A kind that is missing refuses every value.
local encoders = {
    [0] = function() return '' end,
    msgpack.encode_value,
    function(value) return require('console')._push(value) end,
}

function M.push(...)
    if select('#', ...) ~= 1 then
        error('Usage: box.session.push(data)', 2)
    end
    local ok, data = pcall(encoders[python.session_push_kind()], (...))
    if not ok then
        -- Like the error of Tarantool's encoder, this one shows the place of our caller.
        local _, text = pcall(error, data, 3)
        return nil, errors.from_value(text)
    end
    local problem
    ok, problem = python.session_push(data)
    if not ok then
        return nil, finish.error(problem)
    end
    wait(ok)
    return true
end

for _, name in ipairs({'on_connect', 'on_disconnect', 'on_auth', 'on_access_denied'}) do
    M[name] = function(...)
        return events.reset(name, ...)
    end
end

-- The settings of the session, read and assigned like fields.
M.settings = setmetatable({}, {
    __serialize = function()
        return finish.value(python.session_settings())[1]
    end,
    __index = function(_, name)
        local shown, later = unpack(finish.value(python.session_settings()))
        local value = shown[name]
        if value == nil then
            value = later[name]
        end
        if value == nil then
            local raise = require('box.error')
            raise(raise.PROC_LUA, 'Session setting ' .. tostring(name) .. " doesn't exist")
        end
        return value
    end,
    __newindex = function(_, name, value)
        finish.nothing(python.session_setting_set(tostring(name), msgpack.encode(value)))
    end,
})

-- One table for each session.
local storages = {}

-- Called by Python when the session ends.
python.entry('box.forget_session', registry.ref(function(id)
    storages[id] = nil
end))

return setmetatable(M, {
    aggregate_storage = storages,
    __index = function(_, name)
        if name ~= 'storage' then
            return
        end
        local id = M.id()
        storages[id] = storages[id] or {}
        return storages[id]
    end,
})
