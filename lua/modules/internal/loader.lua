-- require, dofile, loadfile and package.* in Lua. The body of a module may wait, which is impossible inside the C
-- function of the standard `require`. Search order and texts are Tarantool's.
local arguments = require('internal.arguments')
local python = require('internal.python')

local loaded, preload = package.loaded, package.preload
local raw_loadlib, raw_loadfile = package.loadlib, loadfile
local error, type, pcall, pairs, ipairs, tostring, rawget = error, type, pcall, pairs, ipairs, tostring, rawget
local select = select
local concat, insert, getinfo = table.concat, table.insert, debug.getinfo

local LUA_PATTERNS = {'?.lua', '?/init.lua'}
local C_PATTERNS = {'?.so'}
local ROCKS_LUA, ROCKS_C = '/.rocks/share/tarantool/', '/.rocks/lib/tarantool/'
-- The value in package.loaded while the body of a module runs.
local LOADING = newproxy()

local load_builtin = package.loaders[2]
-- The built-in modules. They find each other here even after a script has emptied package.loaded.
local builtins = {}
for name, value in pairs(loaded) do
    builtins[name] = value
end

local function builtin_loader(name)
    local value = builtins[name]
    if value ~= nil then
        return function() return value end
    end
    local chunk = load_builtin(name)
    if type(chunk) ~= 'function' then
        return chunk
    end
    return function(...)
        local result = chunk(...)
        builtins[name] = result
        return result
    end
end

local search_root

local function root()
    return search_root or python.getcwd()
end

local function readable(path)
    local file = io.open(path, 'r')
    if file then
        file:close()
        return true
    end
end

-- Returns the first readable file for a name, or nil and the list of the files that were tried.
local function search(name, directory, patterns)
    local relative = name:gsub('%.', '/')
    local tried = {}
    for _, pattern in ipairs(patterns) do
        local path = directory .. pattern:gsub('%?', (relative:gsub('%%', '%%%%')))
        if readable(path) then
            return path
        end
        insert(tried, "\n\tno file '" .. path .. "'")
    end
    return nil, concat(tried)
end

local function search_path(name, path)
    local patterns = {}
    for pattern in path:gmatch('[^;]+') do
        insert(patterns, pattern)
    end
    return search(name, '', patterns)
end

-- Searches .rocks of a directory and of every directory above it.
local function search_rocks(name, suffix, patterns)
    local tried, directory = {}, root()
    while true do
        local path, missing = search(name, directory .. suffix, patterns)
        if path then
            return path
        end
        insert(tried, missing)
        if directory == '' then
            return nil, concat(tried)
        end
        directory = directory:match('^(.*)/[^/]*$') or ''
    end
end

-- Loads a Lua file for require. Below the root and in rocks, a module that does not compile or load counts as not
-- found, and its problem becomes part of that message; in `package.path` and `package.cpath` it is an error.
local function load_lua(path)
    local chunk, problem = raw_loadfile(path)
    return chunk or problem
end

function package.loadlib(...)
    python.share_lua()
    return raw_loadlib(...)
end

local function load_c(path, name)
    local symbol = 'luaopen_' .. name:gsub('^.*%-', ''):gsub('%.', '_')
    local chunk, problem = package.loadlib(path, symbol)
    return chunk or problem
end

local function loader(find, load)
    return function(name)
        local path, missing = find(name)
        if path == nil then
            return missing
        end
        return load(path, name)
    end
end

local function strict_loader(find, load)
    return loader(find, function(path, name)
        local found = load(path, name)
        if type(found) == 'function' then
            return found
        end
        error(("error loading module '%s' from file '%s':\n\t%s"):format(name, path, found), 0)
    end)
end

-- Finds a submodule in the C library of the module before its first dot, as Lua 5.1 does.
local function load_of_parent(name)
    local parent = name:match('^([^.]*)%.')
    if parent == nil then
        return nil
    end
    local path, missing = search_path(parent, package.cpath)
    if path == nil then
        return missing
    end
    local found = load_c(path, name)
    return type(found) == 'function' and found or ("\n\tno module '%s' in file '%s'"):format(name, path)
end

local loaders = {
    function(name)
        local found = preload[name] or builtin_loader(name)
        return type(found) == 'function' and found or "\n\tno field package.preload['" .. name .. "']"
    end,
    loader(function(name) return search(name, root() .. '/', LUA_PATTERNS) end, load_lua),
    loader(function(name) return search(name, root() .. '/', C_PATTERNS) end, load_c),
    loader(function(name) return search_rocks(name, ROCKS_LUA, LUA_PATTERNS) end, load_lua),
    loader(function(name) return search_rocks(name, ROCKS_C, C_PATTERNS) end, load_c),
    strict_loader(function(name) return search_path(name, package.path) end, load_lua),
    strict_loader(function(name) return search_path(name, package.cpath) end, load_c),
    load_of_parent,
}
for i = 1, #loaders do
    package.loaders[i] = loaders[i]
end
assert(#package.loaders == #loaders)

-- Returns the body of a module, or nil and why there is none.
local function find_loader(name)
    local messages = {}
    for _, find in ipairs(package.loaders) do
        local found = find(name)
        if type(found) == 'function' then
            return found
        elseif type(found) == 'string' then
            insert(messages, found)
        end
    end
    return nil, "module '" .. name .. "' not found:" .. concat(messages)
end

local function begun(name, body)
    loaded[name] = LOADING
    return body
end

local function check_name(count, name)
    if type(name) == 'number' then
        return tostring(name)
    elseif type(name) ~= 'string' then
        arguments.bad(1, 'string expected, got ' .. (count == 0 and 'no value' or type(name)), 3)
    end
    return name:match('^%Z*')    -- a zero byte ends the name, as in C
end

local OURS = getinfo(1, 'S').source

-- Returns the level for an error at the caller of require(). A module that has called it by a tail call left no frame: the
-- error has no place then, as in Tarantool.
local function level_of(caller)
    return caller and caller.source == OURS and 0 or 2
end

function _G.require(...)
    local name = check_name(select('#', ...), (...))
    local value = rawget(loaded, name)
    if value == LOADING then
        error("loop or previous error loading module '" .. name .. "'", level_of(getinfo(2, 'S')))
    elseif value then
        return value
    end
    local body, missing = find_loader(name)
    if body == nil then
        error(missing, level_of(getinfo(2, 'S')))
    end
    -- No local is called here: traces would show its name.
    local result = begun(name, body)(name)
    if result ~= nil then
        loaded[name] = result
    elseif rawget(loaded, name) == LOADING then
        loaded[name] = true
    end
    return loaded[name]
end

-- Tarantool loads these at its start, and programs look for them in package.loaded. Here they load at the first look.
local ON_DEMAND = {}
for name in ([[
    buffer console crypto csv datetime decimal digest errno fio fun http.client iconv internal.argparse internal.trigger
    json key_def log merger msgpack msgpackffi net.box pickle popen pwd socket strict swim tap tarantool title uri uuid
    xlog yaml
]]):gmatch('%S+') do
    ON_DEMAND[name] = true
end

setmetatable(loaded, {
    __index = function(_, name)
        return ON_DEMAND[name] and require(name) or nil
    end,
})

local function checked(chunk, problem)
    if chunk == nil then
        error(problem, 0)
    end
    return chunk
end

local function passed(...)
    return ...
end

function _G.dofile(path)
    if type(path) ~= 'nil' and arguments.text(path) == nil then
        arguments.bad(1, 'string expected, got ' .. type(path), 2)
    end
    return passed(checked(raw_loadfile(path))())    -- no tail call: traces show dofile below the chunk
end

function package.search(name)
    if not name then
        return 'empty name of module'
    elseif type(name) == 'number' then
        name = tostring(name)
    elseif type(name) ~= 'string' then
        error(("bad argument #1 to 'searcher' (string expected, got %s)"):format(type(name)))
    end
    local directory = root() .. '/'
    local path = search(name, directory, LUA_PATTERNS) or search(name, directory, C_PATTERNS)
        or search_rocks(name, ROCKS_LUA, LUA_PATTERNS) or search_rocks(name, ROCKS_C, C_PATTERNS)
        or search_path(name, package.path) or search_path(name, package.cpath)
    return path
end

function package.searchroot()
    return root()
end

-- Without a path the root is the directory of the caller's file, and with NULL the current one.
function package.setsearchroot(path)
    if type(path) == 'nil' or type(path) == 'boolean' and not path then
        local info = getinfo(2, 'S')
        path = info ~= nil and info.source:match('^@(.*)/') or '.'
    elseif path == nil then
        search_root = nil
        return
    end
    if type(path) ~= 'string' then
        error('Search root must be a string')
    end
    search_root = python.abspath(path)
end

-- Tarantool's default path: the rocks of the user and the system, then the Lua directories of the system.
local function default_path(lua_patterns, suffix, system)
    local home, parts = os.getenv('HOME'), {}
    local function add(directory)
        for _, pattern in ipairs(lua_patterns) do
            insert(parts, directory .. pattern .. ';')
        end
    end
    if home then
        add(home .. '/.luarocks/' .. suffix .. '/lua/5.1/')
        add(home .. '/.luarocks/' .. suffix .. '/lua/')
    end
    for _, directory in ipairs(system) do
        add(directory)
    end
    return concat(parts)
end

-- Returns the path of an environment variable, in which two semicolons stand for the default one.
local function path_of(variable, default)
    local path = os.getenv(variable)
    return path and path:gsub(';;', ';\1;'):gsub('\1', (default:gsub('%%', '%%%%'))) or default
end

package.path = path_of('LUA_PATH', default_path(LUA_PATTERNS, 'share', {
    '/usr/local/share/tarantool/', '/usr/share/tarantool/', '/usr/local/share/lua/5.1/', '/usr/share/lua/5.1/',
}))
package.cpath = path_of('LUA_CPATH', default_path(C_PATTERNS, 'lib', {
    '/usr/local/lib/x86_64-linux-gnu/tarantool/', '/usr/local/lib/tarantool/',
    '/usr/lib/x86_64-linux-gnu/tarantool/', '/usr/local/lib/x86_64-linux-gnu/lua/5.1/',
    '/usr/local/lib/lua/5.1/', '/usr/lib/x86_64-linux-gnu/lua/5.1/',
}))

return {require = _G.require}
