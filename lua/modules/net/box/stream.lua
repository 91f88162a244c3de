-- conn:new_stream(): requests that may share one transaction.
--
-- A stream offers all members of its connection, but adds its own number to each request.
local isolation = require('box.isolation')
local schema = require('net.box.schema')

local error, pairs, rawset, setmetatable, type = error, pairs, rawset, setmetatable, type

local M = {}

local function wrapped(object, fields, methods)
    return setmetatable(fields, {
        __index = function(_, name)
            local method = methods[name]
            if method ~= nil then
                return method
            end
            return object[name]
        end,
        __serialize = function() return object end,
        __metatable = false,
    })
end

-- Returns a table that makes each member from the same member of another table, when it is first read.
local function view(members, make)
    local made = setmetatable({}, {__mode = 'k'})
    return setmetatable({}, {
        __index = function(_, key)
            local member = (members() or {})[key]
            if member == nil then
                return nil
            end
            made[member] = made[member] or make(member)
            return made[member]
        end,
        __serialize = function() return members() end,
    })
end

local function spaces_of(stream, conn)
    local space_methods = schema.space_metatable(stream).__index
    local index_methods = schema.index_metatable(stream).__index
    return view(function() return conn.space end, function(space)
        local own = wrapped(space, {}, space_methods)
        rawset(own, 'index', view(function() return space.index end, function(index)
            return wrapped(index, {space = own}, index_methods)
        end))
        return own
    end)
end

local methods = {}

function methods.begin(stream, txn_options, options)
    local timeout, level
    if txn_options ~= nil then
        if type(txn_options) ~= 'table' then
            error('txn_opts should be a table')
        end
        timeout, level = txn_options.timeout, txn_options.txn_isolation
        if timeout ~= nil and (type(timeout) ~= 'number' or timeout <= 0) then
            error('timeout must be a number greater than 0')
        end
        level = level ~= nil and isolation.number_of(level) or nil
    end
    return stream:_request('begin', options, nil, timeout, level)
end

function methods.commit(stream, options)
    return stream:_request('commit', options)
end

function methods.rollback(stream, options)
    return stream:_request('rollback', options)
end

-- Returns the stream number `id` of a connection. `check(stream, method)` raises if a method was called with a dot.
function M.new(conn, id, check, shown)
    local stream = {_conn = conn, _stream_id = id}
    for name, method in pairs(methods) do
        stream[name] = function(self, ...)
            check(self, name)
            local result = method(self, ...)
            if result ~= nil then
                return result
            end
        end
    end
    function stream.new_stream(self)
        check(self, 'new_stream')
        return conn:new_stream()
    end
    stream.space = spaces_of(stream, conn)
    return setmetatable(stream, {__index = conn, __serialize = shown, __metatable = false})
end

return M
