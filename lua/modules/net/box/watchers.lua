-- conn:watch(key, function): values under keys of the server.
--
-- One fiber follows each key. The server answers WATCH by the next event, so WATCH is sent again after each event. A
-- watcher runs in a fiber of its own. While it is busy only the newest value is kept for it.
local fiber = require('fiber')
local log = require('log')

local getmetatable, next, pairs, pcall, setmetatable, tostring = getmetatable, next, pairs, pcall, setmetatable, tostring
local type = type

local M = {}

local function name_of()
    return 'net.box.watcher'
end

local watcher_methods = {}
local watcher_mt = {__index = watcher_methods, __tostring = name_of, __serialize = name_of}

-- Watcher -> {entry = state of its key, run = function, is_busy, is_late}. Kept out of the object, which the user sees.
local registered = setmetatable({}, {__mode = 'k'})

local function run_until_up_to_date(state)
    repeat
        state.is_late = false
        local ok, problem = pcall(state.run, state.entry.key, state.entry.value)
        if not ok then
            log.error('net.box watcher: %s', tostring(problem))
        end
    until not state.is_late or state.is_over
    state.is_busy = false
end

local function notify(state)
    if state.is_busy then
        state.is_late = true
    else
        state.is_busy = true
        fiber.new(run_until_up_to_date, state)
    end
end

local function follow(entry)
    local conn = entry.conn
    local _, features = conn:_protocol()
    while features and features.watchers and next(entry.states) ~= nil do
        entry.request = conn._transport:send('watch', {}, entry.key)
        if entry.request == nil then
            break
        end
        local event, problem = entry.request:wait_result()
        if problem ~= nil then
            break
        end
        entry.is_known, entry.value = true, event[1]
        for state in pairs(entry.states) do
            notify(state)
        end
    end
    entry.request, entry.is_followed = nil, false
end

local function start(entry)
    if entry.is_followed then
        return
    end
    entry.is_followed = true
    fiber.new(function()
        local ok, problem = pcall(follow, entry)
        if not ok then
            entry.request, entry.is_followed = nil, false
            log.error('net.box: %s', tostring(problem))
        end
    end)
end

-- Called when the connection becomes active: starts to follow the watched keys.
function M.resume(conn)
    for _, entry in pairs(conn._watched) do
        start(entry)
    end
end

-- Calls `run` once when the server begins to shut down.
function M.watch_shutdown(conn, run)
    if not conn._is_graceful then
        conn._is_graceful = true
        M.watch(conn, 'box.shutdown', function(_, is_ending)
            if is_ending then
                run(conn)
            end
        end)
    end
end

function M.watch(conn, key, run)
    if type(key) ~= 'string' then
        box.error(box.error.PROC_LUA, 'key must be a string')
    elseif type(run) ~= 'function' then
        box.error(box.error.PROC_LUA, 'func must be a function')
    end
    local entry = conn._watched[key]
    if entry == nil then
        entry = {conn = conn, key = key, states = {}}
        conn._watched[key] = entry
    end
    local watcher, state = setmetatable({}, watcher_mt), {entry = entry, run = run}
    registered[watcher], entry.states[state] = state, true
    if entry.is_known and entry.is_followed then
        notify(state)
    elseif conn.state == 'active' then
        start(entry)
    end
    return watcher
end

function watcher_methods.unregister(watcher)
    if getmetatable(watcher) ~= watcher_mt then
        box.error(box.error.PROC_LUA, 'Use watcher:unregister() instead of watcher.unregister()')
    end
    local state = registered[watcher]
    if state == nil then
        box.error(box.error.PROC_LUA, 'Watcher is already unregistered')
    end
    local entry = state.entry
    registered[watcher], entry.states[state], state.is_over = nil, nil, true
    if next(entry.states) == nil then
        entry.conn._watched[entry.key] = nil
        if entry.request ~= nil then
            entry.conn._transport:unwatch(entry.request, entry.key)
        end
    end
end

return M
