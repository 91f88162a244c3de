-- `net_box.self`: requests to this instance, which look like those to others.
local msgpack = require('internal.msgpack')

local error, loadstring, pcall, select = error, loadstring, pcall, select
local setmetatable, tostring, type, unpack = setmetatable, tostring, type, unpack

local function rollback()
    if rawget(box, 'rollback') ~= nil then
        box.rollback()
    end
end

-- Converts the result of a local call as if it came over the network: errors become those of procedures, and tuples and
-- other objects plain values.
local function local_result(ok, ...)
    if not ok then
        rollback()
        local problem = ...
        box.error(box.error.PROC_LUA, tostring(problem))
    end
    local values = {...}
    for i = 1, select('#', ...) do
        if type(values[i]) == 'cdata' then
            values[i] = (msgpack.decode(msgpack.encode_value(values[i])))
        end
    end
    return unpack(values) -- without trailing nils, as in Tarantool
end

-- Makes the object. The arguments check the receiver and the arguments of a request, and raise Tarantool's errors.
return function(check_remote, check_arguments)
    local itself = {}

    function itself.ping()
        return true
    end

    function itself.reload_schema()
    end

    function itself.close()
    end

    function itself.timeout(remote)
        return remote
    end

    function itself.wait_connected()
        return true
    end

    function itself.is_connected()
        return true
    end

    function itself.call(remote, name, args)
        check_remote(remote, 'call')
        check_arguments('call', 'func_name', args)
        local ok, found, object = pcall(box.internal.call_loadproc, tostring(name))
        if not ok then
            rollback()
            error(found, 0)
        end
        if object ~= nil then
            return local_result(pcall(found, object, unpack(args or {})))
        end
        return local_result(pcall(found, unpack(args or {})))
    end

    function itself.eval(remote, expression, args)
        check_remote(remote, 'eval')
        check_arguments('eval', 'expression', args)
        local chunk, problem = loadstring(expression)
        if chunk == nil then
            chunk, problem = loadstring('return ' .. expression)
        end
        if chunk == nil then
            rollback()
            box.error(box.error.PROC_LUA, problem)
        end
        return local_result(pcall(chunk, unpack(args or {})))
    end

    setmetatable(itself, {__index = function(_, name)
        if name == 'space' then
            return box.space
        end
    end})

    return itself
end
