-- Formats of `io` as in LuaJIT 2.1, which Tarantool has; and `io` and `os` on a simulated machine, whose files are not those of
-- the operating system. `os.remove` and `os.rename` reach them there; functions that cannot are errors. Standard input, output
-- and error are those of the process.
local arguments = require('internal.arguments')
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

local getinfo, select, type, unpack = debug.getinfo, select, type, unpack

-- LuaJIT 2.0 asks for an asterisk in front of the letter of a format; 2.1 and Lua 5.3 do not.
local function with_asterisk(format)
    local letter = type(format) == 'string' and format:match('^%*?([nlLa])')
    return letter and '*' .. letter or format
end

local function with_asterisks(...)
    local formats, size = {...}, select('#', ...)
    for place = 1, size do
        formats[place] = with_asterisk(formats[place])
    end
    return unpack(formats, 1, size)
end

-- Returns the number of formats in front of the first one that is unknown; nil if all are known.
local function known_formats(...)
    for place = 1, select('#', ...) do
        local format = select(place, ...)
        if type(format) == 'string' and not format:find('^%*?[nlLa]') then
            return place - 1
        end
    end
end

-- Reads by the known formats. Raises an error for the next one unless the file has ended before. Callers make a tail call.
-- The file counts as an argument, except in a method call.
local function read_known(read, has_file, count, ...)
    if count == 0 then
        read(0)    -- refuses a closed file
    else
        local results = {read(unpack({with_asterisks(...)}, 1, count))}
        if results[count] == nil then
            return unpack(results, 1, count)
        end
    end
    local is_counted = has_file and getinfo(1, 'n').namewhat ~= 'method'
    arguments.bad(is_counted and count + 2 or count + 1, 'invalid format', 2)
end

local file_methods = getmetatable(io.stdout).__index
local read_file, read_input, file_lines, lines = file_methods.read, io.read, file_methods.lines, io.lines

function file_methods.read(...)
    local count = known_formats(select(2, ...))
    if count ~= nil then
        local file = ...
        return read_known(function(...)
            return read_file(file, ...)
        end, true, count, select(2, ...))
    end
    return read_file((...), with_asterisks(select(2, ...)))
end

function io.read(...)
    local count = known_formats(...)
    if count ~= nil then
        return read_known(read_input, false, count, ...)
    end
    return read_input(with_asterisks(...))
end

function file_methods.lines(...)
    return file_lines((...), with_asterisks(select(2, ...)))
end

function io.lines(...)
    return lines((...), with_asterisks(select(2, ...)))
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
