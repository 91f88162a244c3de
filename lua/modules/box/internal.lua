-- box.internal: the members that test suites use.

local finish = require('box.finish')
local index_methods = require('box.index').methods
local python = require('internal.python')
local space_methods = require('box.space').methods
local usage = require('box.usage')

local M = {
    check_space_arg = usage.space,
    check_index_arg = usage.index,
    check_primary_index = usage.primary_index,
    check_iterator_type = require('box.iterator_type').resolve,
    collation = require('box.schema.collation'),
    session = {},
    space = {frommap = space_methods.frommap},
    sequence = {},
}

-- Methods of spaces and indexes by ids: insert(space_id, tuple), get(space_id, index_id, key).
for _, name in ipairs({'insert', 'replace', 'upsert', 'truncate'}) do
    M[name] = function(space_id, ...)
        return space_methods[name]({id = space_id}, ...)
    end
end
for _, name in ipairs({'update', 'delete', 'get', 'min', 'max', 'random'}) do
    M[name] = function(space_id, index_id, ...)
        return index_methods[name]({space_id = space_id, id = index_id}, ...)
    end
end

function M.select(space_id, index_id, iterator, offset, limit, key)
    local options = {iterator = iterator, offset = offset, limit = limit}
    return index_methods.select({space_id = space_id, id = index_id}, key, options)
end

function M.count(space_id, index_id, iterator, key)
    return index_methods.count({space_id = space_id, id = index_id}, key, {iterator = iterator})
end

-- Returns the function of a name, and the object if it is a method.
function M.call_loadproc(name)
    local found, object = require('box.call').find(name)
    if object ~= nil then
        return found, object
    end
    return found
end

function M.func_call(...)
    return require('box.call').schema_call(...)
end

-- The options in variables of the environment.
M.cfg = setmetatable({}, {
    __index = function(_, name)
        return name == 'env' and finish.value(python.box_environment()) or nil
    end,
    __newindex = function()
        error('Attempt to modify a read-only table')
    end,
})

function M.schema_version()
    return python.schema_version()
end

function M.schema_needs_upgrade()
    local needs, version = unpack(finish.value(python.schema_dictionary()))
    if needs then
        return true, version
    end
    return false
end

function M.session.create(fd, session_type)
    return finish.plain(python.session_create(session_type or 'console', fd or -1))
end

return M
