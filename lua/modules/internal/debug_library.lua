-- Members that Tarantool adds to `debug`: the place of the source file of a function on the stack.
--
--   debug.sourcefile([level]) -> path, or nil for a chunk that is no file     debug.__file__: that of the reading function
--   debug.sourcedir([level])  -> its directory, '.' where there is none       debug.__dir__
--
-- Level 1 is the function itself, 2 (the default) its caller.
--
-- Hooks of users are only called for code of users. In our own modules a hook that raises or waits could leave the
-- scheduler of the fibers in an inconsistent state.
local arguments = require('internal.arguments')

local getinfo, setmetatable = debug.getinfo, setmetatable
local raw_sethook, raw_gethook = debug.sethook, debug.gethook
local select, type = select, type

local READER = 2

local function file_of(info)
    return info ~= nil and info.source:match('^@(.*)$') or nil
end

local function directory_of(file)
    return file ~= nil and file:match('^(.*)/') or '.'
end

function debug.sourcefile(level)
    local file = file_of(getinfo(level or READER, 'S'))
    return file
end

function debug.sourcedir(level)
    -- One level more, because this function calls the other one.
    local file = debug.sourcefile(level and level + 1 or READER + 1)
    return directory_of(file)
end

local OURS = '^@builtin/'
local HOOKED = 2                -- the level of the function that the hook reports: the hook itself is 1
local hook_of_user              -- the hook that receives the calls, or nil

-- Returns whether the event comes from our own code or from a C function that it has called.
local function is_ours()
    local level = HOOKED + 1    -- one deeper, inside this function
    local place = getinfo(level, 'S')
    while place ~= nil and place.what == 'C' do
        level = level + 1
        place = getinfo(level, 'S')
    end
    return place == nil or place.source:find(OURS) ~= nil
end

-- Calls the hook of the user by a tail call, so that the hook sees the levels of the stack that it would see without
-- this function.
local function pass_on(...)
    if is_ours() then
        return
    end
    return hook_of_user(...)
end

-- debug.sethook([thread,] hook, mask [, count]); without a hook it removes the current one.
function debug.sethook(...)
    local position = type((...)) == 'thread' and 2 or 1
    local hook = select(position, ...)
    if type(hook) == 'nil' then
        raw_sethook(...)
        hook_of_user = nil
    elseif arguments.text((select(position + 1, ...))) == nil then
        arguments.bad(position + 1, arguments.expected('string', select(position + 1, ...)), 2)
    elseif type(hook) ~= 'function' then
        arguments.bad(position, arguments.expected('function', hook), 2)
    elseif position == 2 then
        raw_sethook((...), pass_on, select(3, ...))
        hook_of_user = hook
    else
        raw_sethook(pass_on, select(2, ...))
        hook_of_user = hook
    end
end

local function shown(hook, ...)
    if hook == pass_on then
        return hook_of_user, ...
    end
    return hook, ...
end

function debug.gethook(...)
    return shown(raw_gethook(...))
end

setmetatable(debug, {__index = function(_, name)
    if name == '__file__' then
        return file_of(getinfo(READER, 'S'))
    elseif name == '__dir__' then
        return directory_of(file_of(getinfo(READER, 'S')))
    end
end})

return {sethook = raw_sethook}
