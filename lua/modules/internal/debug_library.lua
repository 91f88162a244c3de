-- What the peer adds to `debug`: where the source file of a function on the stack is.
--
--   debug.sourcefile([level]) -> path, or nil for a chunk that is no file     debug.__file__: the same of the reader
--   debug.sourcedir([level])  -> its directory, '.' where there is none       debug.__dir__
--
-- Level 1 is the function itself, 2 (the default) its caller.
local getinfo, setmetatable = debug.getinfo, setmetatable

local READER = 2

local function file_of(info)
    return info ~= nil and info.source:match('^@(.*)$') or nil
end

local function directory_of(info)
    local file = file_of(info)
    return file ~= nil and file:match('^(.*)/') or '.'
end

function debug.sourcefile(level)
    local file = file_of(getinfo(level or READER, 'S'))
    return file
end

function debug.sourcedir(level)
    local directory = directory_of(getinfo(level or READER, 'S'))
    return directory
end

setmetatable(debug, {__index = function(_, name)
    if name == '__file__' then
        return file_of(getinfo(READER, 'S'))
    elseif name == '__dir__' then
        return directory_of(getinfo(READER, 'S'))
    end
end})
