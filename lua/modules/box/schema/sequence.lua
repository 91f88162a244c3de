-- box.schema.sequence and the objects of box.sequence.

local ffi = require('ffi')

local box_error = require('box.error')
local catalog = require('box.schema.catalog')
local check = require('box.check')
local python = require('internal.python')
local session = require('box.session')
local finish = require('box.finish')

local M = {}

local INT64_MIN = tonumber64('-9223372036854775808')
local INT64_MAX = tonumber64('9223372036854775807')

local OPTIONS = {step = 'number', min = 'number', max = 'number', start = 'number', cache = 'number', cycle = 'boolean'}
local CREATE_OPTIONS = check.with_defaults(OPTIONS, {if_not_exists = 'boolean'})
local ALTER_OPTIONS = check.with_defaults(OPTIONS, {name = 'string'})

-- Order of the fields of _sequence after id and owner.
local FIELDS = {'name', 'step', 'min', 'max', 'start', 'cache', 'cycle'}

local function row(id, owner, values)
    local tuple = {id, owner}
    for i, name in ipairs(FIELDS) do
        tuple[i + 2] = values[name]
    end
    return tuple
end

local function defaults(opts)
    if not opts.step or opts.step > 0 then
        return {step = 1, min = 1, max = INT64_MAX, start = opts.min or 1, cache = 0, cycle = false}
    end
    return {step = 1, min = INT64_MIN, max = -1, start = opts.max or -1, cache = 0, cycle = false}
end

function M.create(name, opts)
    opts = opts or {}
    check.param(name, 'name', 'string')
    check.options(opts, CREATE_OPTIONS)
    if catalog.sequence(name) ~= nil then
        if not opts.if_not_exists then
            box_error(box_error.SEQUENCE_EXISTS, name)
        end
        return box.sequence[name], 'not created'
    end
    local values = check.with_defaults(opts, defaults(opts))
    values.name = name
    local tuple = row(nil, session.euid(), values)
    table.remove(tuple, 1)
    box.space._sequence:auto_increment(tuple)
    return box.sequence[name]
end

function M.alter(name, opts)
    check.options(opts, ALTER_OPTIONS)
    local id, tuple = catalog.sequence(name)
    if id == nil then
        box_error(box_error.NO_SUCH_SEQUENCE, name)
    end
    if opts == nil then
        return
    end
    local current = {}
    for i, field in ipairs(FIELDS) do
        current[field] = tuple[i + 2]
    end
    box.space._sequence:replace(row(id, tuple[2], check.with_defaults(opts, current)))
end

function M.drop(name, opts)
    opts = opts or {}
    check.options(opts, {if_exists = 'boolean'})
    local id = catalog.sequence(name)
    if id == nil then
        if not opts.if_exists then
            box_error(box_error.NO_SUCH_SEQUENCE, name)
        end
        return
    end
    catalog.revoke_object_privileges('sequence', id)
    box.space._sequence_data:delete{id}
    box.space._sequence:delete{id}
end

local methods = {}

-- Returns the number of a sequence; raises the error of Tarantool's C functions for anything else.
local function checked(id)
    if type(id) ~= 'number' then
        error(("bad argument #1 to '?' (number expected, got %s)"):format(type(id)), 0)
    end
    return id
end

function methods.next(self)
    return finish.value(python.sequence_next(checked(self.id)))
end

-- Returns the last value, always as a 64-bit integer.
function methods.current(self)
    if type(self.id) ~= 'number' then
        error(("bad argument #1 to 'box_sequence_current' (cannot convert '%s' to 'unsigned int')"):format(type(self.id)))
    end
    return ffi.cast('int64_t', finish.value(python.sequence_current(self.id)))
end

-- Sets the last value. A double becomes an integer as C converts it: towards zero, and INT64_MIN if it is too large.
function methods.set(self, value)
    local id = checked(self.id)
    -- Of a text only the digits at its beginning count.
    local number = tonumber64(type(value) == 'string' and value:match('^%s*[+-]?%d+') or value)
    if number == nil then
        error('expected int64_t as 2 argument', 0)
    end
    return finish.value(python.sequence_set(id, finish.encode(ffi.cast('int64_t', number))))
end

function methods.reset(self)
    return finish.value(python.sequence_reset(checked(self.id)))
end

function methods.alter(self, opts)
    M.alter(self.id, opts)
end

function methods.drop(self)
    M.drop(self.id)
end

function M.bless(sequence)
    return setmetatable(sequence, {__index = methods})
end

return M
