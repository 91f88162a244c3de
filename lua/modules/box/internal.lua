-- box.internal: what suites use of it.

local usage = require('box.usage')
local box_error = require('box.error')
local finish = require('box.finish')
local python = require('internal.python')

local M = {
    check_space_arg = usage.space,
    check_index_arg = usage.index,
    check_iterator_type = require('box.iterator_type').resolve,
    collation = require('box.schema.collation'),
    call_loadproc = function(name)
        local found, object = require('box.call').find(name)
        if object ~= nil then
            return found, object
        end
        return found
    end,
    func_call = function(...)
        return require('box.call').schema_call(...)
    end,
    schema_version = function()
        return python.schema_version()
    end,
    session = {},
    space = {},
    sequence = {},
}

function M.check_primary_index(space)
    local index = space.index[0]
    if index == nil then
        box_error(box_error.NO_SUCH_INDEX_ID, 0, space.name)
    end
    return index
end

function M.schema_needs_upgrade()
    return false, '2.8.1'
end

function M.session.create(fd, session_type)
    return finish.plain(python.session_create(session_type or 'console', fd or -1))
end

return M
