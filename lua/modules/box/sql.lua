-- box.execute, box.prepare and box.unprepare. They return nil and the error instead of raising it.

local ffi = require('ffi')
local box_error = require('box.error')
local changes = require('box.changes')
local decoder = require('internal.msgpack_decode')
local finish = require('box.finish')
local errors = require('internal.error')
local forget_fiber = require('box.direct').forget_fiber
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local sql_column = require('box.sql_columns')
local set_yield_hook = require('internal.scheduler').set_yield_hook
local tuple_from_memory, is_tuple = require('internal.tuple').from_memory, require('internal.tuple').is

local M = {}

local EXECUTE_USAGE = 'Usage: box.execute(sqlstring[, params]) or box.execute(stmt_id[, params])'
local UNPREPARE_USAGE = 'Usage: statement:unprepare() or box.unprepare(stmt_id)'
local txn_id = python.txn_id

-- Updates what depends on the state of the fiber: the statement may have opened or ended its transaction, and changed
-- any space.
local function after(before)
    changes.count = changes.count + 1
    local now = txn_id()
    if now ~= before then
        forget_fiber()
        set_yield_hook(now ~= 0 and python.txn_on_yield or nil)
    end
end

local function columns_of(list)
    for number, column in ipairs(list) do
        if column.span ~= nil then
            list[number] = sql_column(column)
        end
    end
end

-- Adds tuples to `rows`, which has `count`, of all rows that follow each other in `packed` from `pos` on.
local function add_tuples(rows, count, packed, pos)
    local p = ffi.cast(decoder.byte_pointer, packed)
    while pos < #packed do
        local stop = decoder.skip(p, pos)
        count = count + 1
        rows[count] = tuple_from_memory(p + pos, stop - pos)
        pos = stop
    end
    return count
end

-- Adds the rest of many rows, whose pieces Python keeps under `id`; others have a turn between them.
local function add_rest(rows, count, id)
    local piece = finish.plain(python.sql_rest(id))
    while piece ~= nil do
        count = add_tuples(rows, count, piece, 0)
        piece = finish.plain(python.sql_rest(id))
    end
end

-- Decodes the result of a statement. The first rows of a query follow it.
local function result_of(packed)
    local result, pos = finish.decode_at(packed)
    if result.metadata ~= nil then
        local rows, rest = {}, result.rest
        columns_of(result.metadata)
        result.rows, result.rest = rows, nil
        local count = add_tuples(rows, 0, packed, pos)
        if rest ~= nil then
            add_rest(rows, count, rest)
        end
    end
    return result
end

local UNKNOWN = {['function'] = true, thread = true, userdata = true}

-- Returns whether a value may be a parameter, or the value of a named one.
local function is_bindable(value)
    if type(value) == 'cdata' then
        return value == nil or not (is_tuple(value) or errors.is(value)) and (pcall(finish.encode, {value}))
    end
    return not UNKNOWN[type(value)]
end

-- Tables that Python refuses: without a key of the right type, and with several keys. They stand for tables that may
-- have metamethods.
local NO_KEY, MANY_KEYS = {}, {1, 2}

-- Returns a parameter as it is sent to Python, and the name for errors of one that may not be bound.
local function parameter(number, value)
    if type(value) == 'table' then
        local name, inner = next(value)
        if type(name) ~= 'string' and type(name) ~= 'number' then
            return NO_KEY
        elseif next(value, name) ~= nil then
            return MANY_KEYS
        elseif not is_bindable(inner) then
            return nil, ("'%s'"):format(tostring(name))
        end
        return {[tostring(name)] = inner}    -- a named parameter: a table with one key
    elseif not is_bindable(value) then
        return nil, tostring(number)
    end
    return value == nil and msgpack.NULL or value
end

-- Encodes parameters as a MessagePack array. Returns nil and an error if that fails.
local function encode_params(params)
    local list = setmetatable({}, {__serialize = 'seq'})
    for number = 1, params == nil and 0 or #params do
        local value, wrong = parameter(number, params[number])
        if wrong ~= nil then
            return nil, box_error.new(box_error.SQL_BIND_TYPE, 'USERDATA', wrong)
        end
        list[number] = value
    end
    local ok, packed = pcall(finish.encode, list)
    if not ok then
        return nil, errors.from_value(packed)
    end
    return packed
end

local function run(call, statement, params)
    local before = txn_id()
    local packed, problem = encode_params(params)
    if packed == nil then
        box_error.set(problem)
        return nil, problem
    end
    local ok, result = pcall(function()
        return finish.plain(call(statement, packed))
    end)
    after(before)
    if ok then
        ok, result = pcall(result_of, result)
    end
    if not ok then
        return nil, result
    end
    return result
end

-- Returns the id of a prepared statement, which has 32 bits, from a number.
local function checked_id(number)
    local id = number < 0 and math.ceil(number) or math.floor(number)
    if id < 0 then
        error("Statement id can't be negative", 3)
    end
    return id % 2^32
end

function M.execute(...)
    local statement, params = ...
    local count = select('#', ...)
    local kind = type(statement)
    if count < 1 or count > 2 or kind ~= 'string' and kind ~= 'number' then
        error(EXECUTE_USAGE, 2)
    end
    if type(box.cfg) == 'function' then
        box.cfg{}
    end
    if count == 2 and type(params) ~= 'table' then
        error('Second argument must be a table', 2)
    end
    if kind == 'string' then
        return run(python.sql_execute, statement, params)
    end
    return run(python.sql_execute_prepared, checked_id(statement), params)
end

function M.unprepare(...)
    local statement = ...
    if select('#', ...) ~= 1 then
        error(UNPREPARE_USAGE, 2)
    end
    if type(statement) == 'table' then
        statement = statement.stmt_id
        if type(statement) ~= 'number' then
            error('Statement id is expected to be numeric', 2)
        end
    elseif type(statement) ~= 'number' then
        error(UNPREPARE_USAGE, 2)
    end
    local ok, problem = pcall(finish.nothing, python.sql_unprepare(checked_id(statement)))
    if not ok then
        return nil, problem
    end
end

local methods = {unprepare = M.unprepare}

function methods.execute(...)
    local prepared = ...
    if select('#', ...) > 2 or type(prepared) ~= 'table' then
        error('Usage: statement:execute([, params])', 2)
    elseif type(prepared.stmt_id) ~= 'number' then
        error('Query id is expected to be numeric', 2)
    end
    return M.execute(prepared.stmt_id, select(2, ...))
end

function M.prepare(...)
    local statement = ...
    local count = select('#', ...)
    if count < 1 or count > 2 or not (type(statement) == 'string' or type(statement) == 'number') then
        error('Usage: box.prepare(sqlstring)', 2)
    end
    local ok, result = pcall(function(text)
        return finish.value(python.sql_prepare(text))
    end, tostring(statement))
    if not ok then
        return nil, result
    end
    columns_of(result.metadata or {})
    for name, method in pairs(methods) do
        result[name] = method
    end
    return result
end

return M
