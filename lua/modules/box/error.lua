-- box.error: codes by name, constructors, the last error of the fiber, error injections.

local arguments = require('internal.arguments')
local decode = require('internal.msgpack').decode
local encode = require('internal.msgpack').encode
local errors = require('internal.error')
local python = require('internal.python')
local wait = require('internal.wait')

local M = {}
local templates = {}

local functions = {}

-- The greatest code of 2.8.1. Names of later codes are found but not listed by pairs(box.error).
local LAST_CODE = 224

for _, entry in ipairs((decode(python.error_codes()))) do
    local name, code, template = unpack(entry)
    -- Names with this word are unused numbers in Tarantool's list of errors.
    if not name:find('RESERVED', 1, true) then
        local holder = code <= LAST_CODE and M or functions
        holder[name] = code
    end
    templates[code] = template
end

-- Python keeps the last error of the fiber. An error that Lua has set keeps its identity.
local last_bytes, last_error

local function set_last(err)
    last_bytes, last_error = errors.encode(err), err
    python.error_set(last_bytes)
end

local function last()
    local bytes = python.error_last()
    if bytes == nil then
        return nil
    elseif bytes ~= last_bytes then
        last_bytes, last_error = bytes, bytes == errors.decoded_bytes and errors.decoded or errors.decode(bytes)
    end
    return last_error
end

local function where(level)
    local info = debug.getinfo(level + 1, 'Sl')
    if info == nil then
        return '', 0
    end
    -- Unsigned, as in Tarantool: the line of a C function is -1.
    return info.short_src ~= '' and info.short_src or 'eval', info.currentline % 2 ^ 32
end

-- Converts a number like C: its whole part as 64 bits, of which a code takes the 32 lower ones.
local function as_int(number)
    local whole = number - math.fmod(number, 1)
    return whole >= -2 ^ 63 and whole < 2 ^ 63 and bit.tobit(math.fmod(whole, 2 ^ 32)) or 0
end

-- Texts of errors end with the first zero byte, as strings of C do.
local cut = errors.cut

-- Marks a zero byte in an argument: string.format of LuaJIT 2.0 drops it, but the text must end there.
local MARK = '\27\1\27'

local function ends_at_zero(...)
    local values, count = {...}, select('#', ...)
    for i = 1, count do
        if type(values[i]) == 'string' and values[i]:find('%z') then
            values[i] = cut(values[i]) .. MARK
        end
    end
    return unpack(values, 1, count)
end

-- Fills a template. Its error has no place and no function name, because Tarantool calls string.format from C.
local function filled(template, ...)
    local ok, text = pcall(string.format, template, ends_at_zero(...))
    return ok and text or error(text, 0)
end

-- Returns the code and the reason from the template of the code, which is only formatted if there are arguments.
local function by_code(code, ...)
    local template = templates[code] or 'Unknown error'
    if select('#', ...) > 0 then
        return {code = code, message = filled(template, ...)}
    elseif not template:find('%', 1, true) then
        return {code = code, message = template}
    end
end

local CUSTOM_TYPE_SIZE = 63

local function by_type(custom_type, template, ...)
    if type(template) ~= 'string' then
        return nil
    end
    return {type = 'CustomError', custom_type = cut(custom_type):sub(1, CUSTOM_TYPE_SIZE), code = 0, message = filled(template, ...)}
end

-- Converts a text or a number to a text; returns nil for any other value.
local function text_of(value)
    return (type(value) == 'string' or type(value) == 'number') and tostring(value) or nil
end

local function by_table(given)
    -- A 64-bit integer becomes 0, as in Tarantool.
    local code = type(given.code) ~= 'cdata' and tonumber(given.code) or 0
    local facts = {code = as_int(code), message = text_of(given.reason) or ''}
    local custom_type = text_of(given.type)
    if custom_type ~= nil then
        facts.type, facts.custom_type = 'CustomError', cut(custom_type):sub(1, CUSTOM_TYPE_SIZE)
    end
    return facts
end

-- Makes an error object; nil for wrong arguments. `level` is that of the caller whose place the trace shows.
local function create(level, first, ...)
    local facts
    local kind = type(first)
    if kind == 'number' then
        facts = by_code(as_int(first), ...)
    elseif kind == 'string' then
        facts = by_type(first, ...)
    elseif kind == 'table' and select('#', ...) == 0 then
        facts = by_table(first)
    end
    if facts == nil then
        return nil
    end
    local marked = facts.message:find(MARK, 1, true)
    facts.message = cut(marked and facts.message:sub(1, marked - 1) or facts.message)
    facts.file, facts.line = where(level + 1)
    return errors.count(errors.new(facts))
end

local function call(_, ...)
    if select('#', ...) == 0 then
        local err = last()
        if err ~= nil then
            error(err, 0)
        end
        return
    end
    local first = ...
    local err
    if select('#', ...) == 1 and errors.is(first) then
        err = first
    else
        err = create(2, ...)
    end
    if err == nil then
        error('box.error(): bad arguments', 2)
    end
    set_last(err)
    error(err, 0)
end

function functions.last(...)
    if select('#', ...) > 0 then
        error('box.error.last(): bad arguments', 2)
    end
    return last()
end

function functions.clear(...)
    if select('#', ...) > 0 then
        error('box.error.clear(): bad arguments', 2)
    end
    last_bytes, last_error = nil, nil
    python.error_set()
end

function functions.new(...)
    local err = select('#', ...) > 0 and create(2, ...)
    if not err then
        error('Usage: box.error.new(code, args) or box.error.new(type, args)', 2)
    end
    return err
end

function functions.set(...)
    local err = ...
    if select('#', ...) == 0 then
        error('Usage: box.error.set(error)', 2)
    elseif not errors.is(err) then
        error('Invalid argument #1 (error expected, got ' .. type(err) .. ')', 2)
    end
    set_last(err)
end

M.injection = {}

local function name_in(...)
    return arguments.text((...)) or arguments.bad(1, arguments.expected('string', ...), 3)
end

function M.injection.info()
    local result = {}
    for _, entry in ipairs((decode(python.errinj_info()))) do
        result[entry[1]] = {state = entry[2]}
    end
    return result
end

function M.injection.set(...)
    local name, value = name_in(...), select(2, ...)
    if type(value) == 'string' then
        value = tonumber(value) or true
    elseif type(value) ~= 'number' and type(value) ~= 'cdata' then
        value = value and true    -- what is no number counts as true or false
    end
    local ok, outcome = pcall(wait, python.errinj_set(name, encode(value)))
    if not ok then
        error(outcome.message, 0)
    end
    return outcome
end

function M.injection.get(...)
    local name = name_in(...)
    return (decode(wait(python.errinj_get(name))))
end

return setmetatable(M, {__call = call, __index = functions})
