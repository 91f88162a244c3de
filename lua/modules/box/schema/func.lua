-- box.schema.func, box.internal.collation, and the objects of box.func.

local box_error = require('box.error')
local catalog = require('box.schema.catalog')
local check = require('box.check')
local session = require('box.session')

local M = {}

local CREATE_OPTIONS = {
    setuid = 'boolean', if_not_exists = 'boolean', language = 'string', body = 'string',
    is_deterministic = 'boolean', is_sandboxed = 'boolean', comment = 'string', param_list = 'table',
    returns = 'string', exports = 'table', opts = 'table',
}

local function defaults(now)
    return {
        setuid = false, language = 'lua', body = '', routine_type = 'function', returns = 'any',
        param_list = {}, aggregate = 'none', sql_data_access = 'none', is_deterministic = false,
        is_sandboxed = false, is_null_call = true, exports = {'LUA'},
        opts = setmetatable({}, {__serialize = 'map'}), comment = '', created = now, last_altered = now,
    }
end

function M.create(name, opts)
    opts = opts or {}
    check.options(opts, CREATE_OPTIONS)
    if box.space._vfunc.index.name:get{name} ~= nil then
        if not opts.if_not_exists then
            box_error(box_error.FUNCTION_EXISTS, name)
        end
        return
    end
    opts = check.with_defaults(opts, defaults(os.date('%Y-%m-%d %H:%M:%S')))
    box.space._func:auto_increment{
        session.euid(), name, opts.setuid and 1 or 0, opts.language:upper(), opts.body, opts.routine_type,
        opts.param_list, opts.returns, opts.aggregate, opts.sql_data_access, opts.is_deterministic,
        opts.is_sandboxed, opts.is_null_call, opts.exports, opts.opts, opts.comment, opts.created,
        opts.last_altered,
    }
end

function M.drop(name, opts)
    opts = opts or {}
    check.options(opts, {if_exists = 'boolean'})
    local tuple = name == nil and box.space._vfunc:get{} or catalog.func(name)
    if tuple == nil then
        if not opts.if_exists then
            box_error(box_error.NO_SUCH_FUNCTION, name)
        end
        return
    end
    catalog.revoke_object_privileges('function', tuple[1])
    box.space._func:delete{tuple[1]}
end

function M.exists(name_or_id)
    local kind = type(name_or_id)
    return (kind == 'string' or kind == 'number') and catalog.func(name_or_id) ~= nil
end

local function check_func_arg(func, method)
    if type(func) ~= 'table' or func.name == nil then
        error(string.format('Use func:%s(...) instead of func.%s(...)', method, method))
    end
end

local methods = {}

function methods.drop(func, opts)
    check_func_arg(func, 'drop')
    M.drop(func.name, opts)
end

function methods.call(func, args)
    check_func_arg(func, 'call')
    args = args or {}
    if type(args) ~= 'table' then
        error('Use func:call(table)')
    end
    return M.call(func.name, unpack(args))
end

function M.bless(func)
    return setmetatable(func, {__index = methods})
end

function M.call(name, ...)
    return require('box.call').schema_call(name, ...)
end

function M.reload(name)
    if name ~= nil and type(name) ~= 'string' then
        error('bad argument to function.reload')
    end
    box_error(box_error.UNSUPPORTED, 'Lunabox', 'C modules')
end

return M
