-- Calls functions by name, for CALL requests, stored functions and box.schema.func.call.

local box_error = require('box.error')
local call_wave = require('box.call_wave')
local direct = require('box.direct')
local entry = require('internal.entry')
local finish = require('box.finish')
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local registry = require('internal.registry')
local outermost = require('internal.outermost')
local as_error = require('internal.error').from_value
local encode_error = require('internal.error').encode
local many_tuples, new_tuple = require('internal.tuple').many, require('internal.tuple').new
local set_yield_hook = require('internal.scheduler').set_yield_hook

local M = {find = entry.find}
local find, compile, encode_args, decode_args = entry.find, entry.compile, msgpack.encode_args, msgpack.decode_args

local function call_by_name(name, ...)
    local found, object = find(name)
    if object ~= nil then
        return found(object, ...)
    end
    return found(...)
end
call_wave.call_by_name = call_by_name

local SANDBOX = {
    'assert', 'error', 'ipairs', 'math', 'next', 'pairs', 'pcall', 'print', 'select', 'string', 'table', 'tonumber',
    'tostring', 'type', 'unpack', 'xpcall', 'utf8',
}

local function sandbox()
    local env = {}
    for _, name in ipairs(SANDBOX) do
        local value = _G[name]
        env[name] = type(value) == 'table' and table.deepcopy(value) or value
    end
    return env
end

-- The handles of functions with `takes_raw_args`, which get their arguments as an object of MessagePack.
local takes_raw = {}

local function object_of(packed)
    return require('msgpack').object_from_raw(packed)
end

-- Called by Python: compiles the body of a stored function, an expression whose value is a function; without a body it
-- is the global with this name. Returns its handle.
local function load_body(name, body, is_sandboxed, takes_raw_args)
    local function refuse(reason)
        box_error(box_error.LOAD_FUNCTION, name, reason)
    end
    local function keep(result)
        local handle = registry.ref(result)
        takes_raw[handle] = takes_raw_args or nil
        return handle
    end
    if body == '' then
        return keep(function(...) return call_by_name(name, ...) end)
    end
    local chunk, problem = loadstring('return ' .. body)
    if chunk == nil then
        refuse(problem)
    end
    local ok, result = pcall(setfenv(chunk, {}))
    if not ok then
        refuse(tostring(result))
    elseif type(result) ~= 'function' then
        refuse("given body doesn't define a function")
    end
    return keep(setfenv(result, is_sandboxed and sandbox() or _G))
end

-- Calls a stored function; `handle` is 0 for a function that is a global with this name.
local function call_stored(handle, name, ...)
    if takes_raw[handle] then
        return registry.get(handle)(object_of(encode_args(...)))
    elseif handle ~= 0 then
        return registry.get(handle)(...)
    end
    return call_by_name(name, ...)
end

-- Called by Python: runs a request. Arguments and results are MessagePack arrays.
local function run_call(handle, name, packed)
    if takes_raw[handle] then
        return encode_args(outermost(registry.get(handle), object_of(packed)))
    end
    return encode_args(outermost(call_stored, handle, name, decode_args(packed)))
end

-- A single result that is a tuple stays one, whatever its first field is. In a table it differs from a table of tables.
local function apart_from_tables(...)
    if select('#', ...) == 1 and msgpack.is_tuple((...)) then
        return {(...)}
    end
    return ...
end

-- Called by Python: runs a request of type CALL_16, whose results become a list of tuples.
local function run_call_16(handle, name, packed)
    if takes_raw[handle] then
        return encode_args(apart_from_tables(outermost(registry.get(handle), object_of(packed))))
    end
    return encode_args(apart_from_tables(outermost(call_stored, handle, name, decode_args(packed))))
end

local function without_null(...)
    local values, count = {...}, select('#', ...)
    for i = 1, count do
        if values[i] == nil then
            values[i] = nil
        end
    end
    return unpack(values, 1, count)
end

-- Called by Python: runs a function in a statement of SQL, where NULL is Lua's nil, not box.NULL.
local function run_in_sql(handle, name, packed)
    return encode_args(outermost(call_stored, handle, name, without_null(decode_args(packed))))
end

-- Called by Python: runs an expression.
local function run_eval(expression, packed)
    return encode_args(outermost(compile(expression), decode_args(packed)))
end

-- Returns true and the values; or false and the error, if one of them cannot be in a tuple.
local function encode_results(...)
    local ok, packed = pcall(encode_args, ...)
    return ok, ok and packed or encode_error(packed)
end

local function results_of(handle, tuple)
    return encode_args(call_stored(handle, nil, tuple))
end

-- Called by Python: returns the result of the function of an index for a tuple, as a MessagePack array.
local function make_keys(handle, raw, space_id)
    return encode_results(call_stored(handle, nil, new_tuple(raw, space_id)))
end

-- Called by Python: does the same for tuples that follow each other in `blob`, up to the first one that fails. Returns
-- the number of results, and the results.
local function make_many_keys(handle, blob, space_id)
    local results, count = {}, 0
    for _, tuple in ipairs(many_tuples(blob, space_id)) do
        local ok, packed = pcall(results_of, handle, tuple)
        if not ok then
            break
        end
        count = count + 1
        results[count] = packed
    end
    return count, table.concat(results)
end

-- Called by Python: returns whether the function of a constraint accepts a tuple of a space, or a value without one.
local function check_value(handle, raw, space_id, name)
    local value
    if space_id ~= nil then
        value = new_tuple(raw, space_id)
    else
        value = decode_args(raw)
    end
    return (call_stored(handle, nil, value, name)) == true
end

-- Called by Python: returns the path of a library by its name, and the folder for temporary files.
local function find_c_module(name)
    return package.search(name), os.getenv('TMPDIR') or '/tmp'
end

python.entry('box.find_c_module', registry.ref(find_c_module))
python.entry('box.check_value', registry.ref(check_value))
python.entry('box.make_keys', registry.ref(make_keys))
python.entry('box.make_many_keys', registry.ref(make_many_keys))
python.entry('box.run_call', registry.ref(run_call))
python.entry('box.run_call_16', registry.ref(run_call_16))
python.entry('box.run_in_sql', registry.ref(run_in_sql))
python.entry('box.run_eval', registry.ref(run_eval))
-- Called by Python: runs a request of a stream with an open transaction, which learns of every switch to another fiber.
local function in_transaction(run)
    return function(...)
        set_yield_hook(python.txn_on_yield)
        return run(...)
    end
end

python.entry('box.run_call_in_transaction', registry.ref(in_transaction(run_call)))
python.entry('box.run_call_16_in_transaction', registry.ref(in_transaction(run_call_16)))
python.entry('box.run_eval_in_transaction', registry.ref(in_transaction(run_eval)))
python.entry('box.load_function', registry.ref(load_body))

-- Returns the results, or raises the error as an object, whatever value it was.
local function leave(number, ok, ...)
    if number ~= 0 then
        python.session_su_leave(number)
        direct.forget_fiber()
    end
    if not ok then
        error(as_error((...)), 0)
    end
    return ...
end

-- Runs box.func.name:call{...} with the checks of a request; arguments and results stay Lua values.
function M.schema_call(name, ...)
    if type(name) ~= 'string' and type(name) ~= 'number' then
        error('Use func:call(...)', 0)
    end
    name = tostring(name)
    local handle, su_number = finish.plain(python.function_enter(name))
    direct.forget_fiber()
    return leave(su_number, pcall(call_stored, handle, name, ...))
end

return M
