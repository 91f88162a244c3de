-- box.schema.func, and the objects of box.func.

local box_error = require('box.error')
local catalog = require('box.schema.catalog')
local check = require('box.check')
local arguments = require('internal.arguments')
local finish = require('box.finish')
local python = require('internal.python')
local session = require('box.session')
local usage = require('box.usage')

local M = {}

-- ---- functions in _func ----------------------------------------------------------------------

local function now()
    return os.date('%Y-%m-%d %H:%M:%S')
end

-- The fields of a _func tuple after id, owner and name. For each: the option and its Lua type, nothing if users cannot
-- set the field; the default value or a function that makes it; a function that makes the stored value.
local FIELDS = {
    {'setuid', 'boolean', false, function(value) return value and 1 or 0 end},
    {'language', 'string', 'lua', string.upper},
    {'body', 'string', ''},
    {'routine_type', nil, 'function'},
    {'param_list', 'table', function() return {} end},
    {'returns', 'string', 'any'},
    {'aggregate', nil, 'none'},
    {'sql_data_access', nil, 'none'},
    {'is_deterministic', 'boolean', false},
    {'is_sandboxed', 'boolean', false},
    {'is_null_call', nil, true},
    {'exports', 'table', function() return {'LUA'} end},
    {'opts', 'table', function() return setmetatable({}, {__serialize = 'map'}) end},
    {'comment', 'string', ''},
    {'created', nil, now},
    {'last_altered', nil, now},
}

local CREATE_OPTIONS = {if_not_exists = 'boolean', takes_raw_args = 'boolean'}
for _, field in ipairs(FIELDS) do
    CREATE_OPTIONS[field[1]] = field[2]
end

local function field_value(field, options)
    local name, _, default, stored = unpack(field, 1, 4)
    local value = options[name]
    if type(value) == 'nil' then
        value = type(default) == 'function' and default() or default
    end
    return stored and stored(value) or value
end

function M.create(name, options)
    options = check.given(options)
    check.options(options, CREATE_OPTIONS)
    if options.takes_raw_args then
        options = table.copy(options)
        options.opts = table.copy(options.opts or {})
        options.opts.takes_raw_args = true
    end
    if box.space._vfunc.index.name:get{name} == nil then
        local row = {session.euid(), name}
        for _, field in ipairs(FIELDS) do
            row[#row + 1] = field_value(field, options)
        end
        box.space._func:auto_increment(row)
    elseif not options.if_not_exists then
        box_error(box_error.FUNCTION_EXISTS, name)
    end
end

-- Returns the _func tuple of a name or an id. nil is an empty key, which the view refuses.
local function look_up(name_or_id)
    return type(name_or_id) == 'nil' and box.space._vfunc:get{} or catalog.func(name_or_id)
end

function M.drop(name_or_id, options)
    options = check.given(options)
    check.options(options, {if_exists = 'boolean'})
    local tuple = look_up(name_or_id)
    if tuple ~= nil then
        catalog.revoke_object_privileges('function', tuple[1])
        box.space._func:delete{tuple[1]}
    elseif not options.if_exists then
        box_error(box_error.NO_SUCH_FUNCTION, name_or_id)
    end
end

local NAMES_FUNCTIONS = {string = true, number = true}

function M.exists(name_or_id)
    return NAMES_FUNCTIONS[type(name_or_id)] ~= nil and catalog.func(name_or_id) ~= nil
end

function M.call(name, ...)
    return require('box.call').schema_call(name, ...)
end

function M.reload(...)
    local name = arguments.text((...)) or arguments.bad(1, arguments.expected('string', ...), 2)
    finish.nothing(python.function_reload(name))
end

-- ---- objects of box.func ---------------------------------------------------------------------

local check_func = usage.of('func', 'name')
local class = {__index = {}}

function class.__index.call(func, given)
    check_func(func, 'call')
    if given ~= nil and type(given) ~= 'table' then
        error('Use func:call(table)')
    end
    return M.call(func.name, unpack(given or {}))
end

function class.__index.drop(func, options)
    check_func(func, 'drop')
    M.drop(func.name, options)
end

function M.bless(func)
    return setmetatable(func, class)
end

return M
