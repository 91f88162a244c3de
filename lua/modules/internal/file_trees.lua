-- The functions of fio that work on trees of files. They return the reason of a failure as a text.
local errno = require('errno')
local python = require('internal.python')

local error, ipairs, select, tostring, type = error, ipairs, select, tostring, type

-- Adds the functions to `fio`. `outcome(failure, ...)` and `c_text(path)` are those of fio.
return function(fio, outcome, c_text)

function fio.mktree(path, mode)
    if type(path) ~= 'string' then
        error('Usage: fio.mktree(path[, mode])')
    end
    local current = ''
    for part in fio.abspath(path):gmatch('[^/]+') do
        current = current .. '/' .. part
        local found = fio.stat(current)
        if found == nil then
            local ok, problem = fio.mkdir(current, mode)
            if not ok then
                return false, 'Error creating directory ' .. current .. ': ' .. tostring(problem)
            end
        elseif not found:is_dir() then
            errno(errno.EEXIST)
            return false, 'Error creating directory ' .. current .. ': ' .. errno.strerror(errno.EEXIST)
        end
    end
    return true
end

function fio.rmtree(path)
    if type(path) ~= 'string' then
        error('Usage: fio.rmtree(path)')
    end
    path = fio.abspath(path)
    local names, reason = fio.listdir(path)
    if names == nil then
        return nil, reason
    end
    local ok, problem = outcome(false, python.fio_rmtree(c_text(path)))
    if not ok then
        return false, 'failed to remove ' .. path .. ': ' .. problem.message
    end
    return true
end

function fio.copyfile(from, to)
    if type(from) ~= 'string' or type(to) ~= 'string' then
        error('Usage: fio.copyfile(from, to)')
    end
    local target = fio.stat(to)
    if target and target:is_dir() then
        to = fio.pathjoin(to, fio.basename(from))
    end
    local ok, problem = outcome(false, python.fio_copyfile(c_text(from), c_text(to)))
    if not ok then
        return false, 'failed to copy ' .. from .. ' to ' .. to .. ': ' .. problem.message
    end
    return true
end

-- Copies one entry of a tree. Returns the reason of a failure.
local function copy_entry(from, to)
    local found = fio.lstat(from)
    if found == nil then
        return nil
    elseif found:is_dir() then
        return select(2, fio.copytree(from, to))
    elseif found:is_reg() then
        return select(2, fio.copyfile(from, to))
    elseif found:is_link() and not fio.symlink(fio.readlink(from), to) then
        return "can't create symlink in place of existing file " .. to
    end
end

function fio.copytree(from, to)
    if type(from) ~= 'string' or type(to) ~= 'string' then
        error('Usage: fio.copytree(from, to)')
    end
    local found = fio.stat(from)
    if found == nil then
        return false, 'Directory ' .. from .. ' does not exist'
    elseif not found:is_dir() then
        return false, errno.strerror(errno.ENOTDIR)
    end
    local names, reason = fio.listdir(from)
    if names == nil then
        return false, reason
    end
    local ok
    ok, reason = fio.mktree(to)
    if not ok then
        return false, reason
    end
    for _, name in ipairs(names) do
        reason = copy_entry(fio.pathjoin(from, name), fio.pathjoin(to, name))
        if reason ~= nil then
            return false, reason
        end
    end
    return true
end

end
