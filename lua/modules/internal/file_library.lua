-- `io` and `os` on a simulated machine, whose files are not those of the operating system. `os.remove` and `os.rename`
-- reach them; functions that cannot are errors. Standard input, output and error are those of the process.
local python = require('internal.python')
local wait = require('internal.wait')

local function refuse(feature)
    wait(python.refuse(feature))
end

-- Returns an outcome as the C library does: true; or nil, a text and the errno.
local function outcome(ok, path, problem)
    if ok then
        return true
    end
    local reason = require('errno').strerror(problem.errno)
    return nil, ('%s: %s'):format(path, reason), problem.errno
end

if python.refuse ~= nil then
    function io.open()
        refuse('io.open()')
    end

    function io.tmpfile()
        refuse('io.tmpfile()')
    end

    function os.tmpname()
        refuse('os.tmpname()')
    end

    for _, name in ipairs({'lines', 'input', 'output'}) do
        local of_stream = io[name]
        io[name] = function(file, ...)
            if type(file) == 'string' then
                refuse(('io.%s()'):format(name))
            end
            return of_stream(file, ...)
        end
    end

    function os.remove(path)
        local fio = require('fio')
        if fio.path.is_dir(path) and not fio.path.is_link(path) then
            local ok, problem = fio.rmdir(path)
            return outcome(ok, path, problem)
        end
        local ok, problem = fio.unlink(path)
        return outcome(ok, path, problem)
    end

    function os.rename(path, new_path)
        local ok, problem = require('fio').rename(path, new_path)
        return outcome(ok, path, problem)
    end
end

return true
