-- Entry points for Python: evaluation of a source text, a call by name or by handle. Arguments and results are
-- MessagePack arrays.
local msgpack = require('internal.msgpack')
local registry = require('internal.registry')
local python = require('internal.python')

local decode_args, encode_args = msgpack.decode_args, msgpack.encode_args
local getmetatable = debug.getmetatable
local error, rawget, type, tostring, loadstring = error, rawget, type, tostring, loadstring

local NO_SUCH_PROC = 33

local function compile(source, chunk_name)
    local chunk, problem = loadstring(source, chunk_name or '=eval')
    return chunk or error(problem, 0)
end

local function undefined(name)
    name = name:match('^[^%z]*') -- C ends the text there
    local errors = require('internal.error')
    error(errors.count(errors.new_here({
        type = 'ClientError', code = NO_SUCH_PROC, message = "Procedure '" .. name .. "' is not defined",
    })), 0)
end

-- Reads a member like C code: `__index` is called by a C function, which require('strict') checks.
local function member(container, key)
    local value = type(container) == 'table' and rawget(container, key) or nil
    if value ~= nil then
        return value
    end
    local metatable = getmetatable(container)
    local index = metatable ~= nil and metatable.__index or nil
    if type(index) == 'function' then
        local ok, found = pcall(index, container, key)
        return ok and found or (not ok and error(found, 0)) or nil
    end
    return index ~= nil and member(index, key) or nil
end

-- Returns the function of 'a.b.c' or 'a.b:method', and the object of the method. All parts are keys of type string, also
-- empty ones and numbers. Containers are tables; the object of a method may be a userdata, but no cdata such as a tuple.
local function find(name)
    local container, from = _G, 1
    local dot = name:find('.', from, true)
    while dot do
        container = member(container, name:sub(from, dot - 1))
        if type(container) ~= 'table' then
            undefined(name)
        end
        from = dot + 1
        dot = name:find('.', from, true)
    end
    local object
    local colon = name:find(':', from, true)
    if colon then
        object = member(container, name:sub(from, colon - 1))
        if type(object) ~= 'table' and type(object) ~= 'userdata' then
            undefined(name)
        end
        container, from = object, colon + 1
    end
    local value = member(container, name:sub(from))
    local kind = type(value)
    if kind ~= 'function' and kind ~= 'table' then
        undefined(name)
    elseif kind == 'table' and type((getmetatable(value) or {}).__call) ~= 'function' then
        error('attempt to call a table value', 0)
    end
    return value, object
end

local entry = {find = find, compile = compile}

function entry.eval(source, args, chunk_name)
    return encode_args(compile(source, chunk_name)(decode_args(args)))
end

-- Like eval, but `serializer(...)` makes the bytes of the results, in the same fiber.
function entry.eval_with(serializer, source, args, chunk_name)
    return registry.get(serializer)(compile(source, chunk_name)(decode_args(args)))
end

function entry.call(name, args)
    local target, object = find(name)
    if object ~= nil then
        return encode_args(target(object, decode_args(args)))
    end
    return encode_args(target(decode_args(args)))
end

function entry.call_handle(handle, args)
    return encode_args(registry.get(handle)(decode_args(args)))
end

-- Compiles a function that Python will call repeatedly. Returns the handle of the value that `source` returns.
function entry.compile_handle(source, chunk_name)
    return registry.ref(compile(source, chunk_name)())
end

for _, name in ipairs({'eval', 'eval_with', 'call', 'call_handle', 'compile_handle'}) do
    python.entry(name, registry.ref(entry[name]))
end

return entry
