-- ffi.C with what programs find in Tarantool's executable and not in that of Python: the C functions of its log, which
-- `crud` calls, its latches, and the libraries that it contains, such as OpenSSL, which `http` and `cartridge` call, and ICU, which
-- `icu-date` calls.
local ffi = require('ffi')
local python = require('internal.python')

local error, ipairs, pcall, select, setmetatable = error, ipairs, pcall, select, setmetatable
local tostring, type, unpack = tostring, type, unpack

local raw = ffi.C

ffi.cdef([[
    enum say_level { S_FATAL, S_SYSERROR, S_ERROR, S_CRIT, S_WARN, S_INFO, S_VERBOSE, S_DEBUG };
    enum say_format { SF_PLAIN, SF_JSON };
]])

-- The libraries in Tarantool's executable by the names of their files, later versions first.
local LIBRARIES = {
    {'libssl.so.3', 'libssl.so.1.1', 'ssl'},
    {'libcrypto.so.3', 'libcrypto.so.1.1', 'crypto'},
    {'libz.so.1', 'z'},
    {'libzstd.so.1', 'zstd'},
}
-- The version of ICU is part of the names of its files.
local has_icu_names = false

local function add_icu()
    has_icu_names = true
    for name in python.icu_files():gmatch('[^\n]+') do
        LIBRARIES[#LIBRARIES + 1] = {name}
    end
end

-- Library -> its namespace, false if the machine does not have it.
local loaded = {}

local function load_library(names)
    if loaded[names] == nil then
        loaded[names] = false
        for _, name in ipairs(names) do
            local ok, library = pcall(ffi.load, name)
            if ok then
                loaded[names] = library
                break
            end
        end
    end
    return loaded[names]
end

local function member(namespace, name)
    return namespace[name]
end

-- ---- the log ---------------------------------------------------------------------------------

local function text_of(value)
    if type(value) == 'cdata' and value ~= nil and pcall(ffi.cast, 'const char *', value) then
        return ffi.string(value)
    end
    return value
end

-- Writes a line to the log, like the C function of this name: `problem` is the text of an error or nil.
local function say(level, file, line, problem, template, ...)
    level = tonumber(level)
    if level > python.log_level() then
        return
    end
    local values = {...}
    for i = 1, select('#', ...) do
        values[i] = text_of(values[i])
    end
    local text = text_of(template):format(unpack(values, 1, select('#', ...)))
    problem = problem ~= nil and text_of(problem) or nil
    python.log_say(level, ('%s:%d'):format(text_of(file), tonumber(line)), problem and text .. ': ' .. problem or text)
end

-- Names of variables -> functions that return their values.
local variables = {
    log_level = python.log_level,
    _say = function() return say end,
}

-- ---- the namespace ---------------------------------------------------------------------------

-- Functions that were found. Variables are read anew each time.
local functions = {}

-- Returns a function of Tarantool's API, which a program has declared, or nil.
local function function_of_api(name)
    return name:find('^box_latch_') and require('internal.c_latches')[name] or nil
end

local function find(_, name)
    if variables[name] ~= nil then
        return variables[name]()
    end
    local ok, found = pcall(member, raw, name)
    if not ok and tostring(found):find('undefined symbol', 1, true) then
        local of_api = function_of_api(name)
        if of_api then
            functions[name] = of_api
            return of_api
        end
        if not has_icu_names then
            add_icu()
        end
        for _, names in ipairs(LIBRARIES) do
            local library = load_library(names)
            local is_there, there = pcall(member, library, name)
            if library and is_there then
                ok, found = true, there
                break
            end
        end
    end
    if not ok then
        error((tostring(found):gsub('^builtin/internal/c_namespace%.lua:%d+: ', '')), 2)
    end
    if type(found) == 'cdata' and tostring(ffi.typeof(found)):find('%(') then
        functions[name] = found
    end
    return found
end

local namespace = newproxy(true)
local metatable = debug.getmetatable(namespace)
metatable.__index = setmetatable(functions, {__index = find})
metatable.__newindex = function(_, name, value)
    raw[name] = value
end
ffi.C = namespace
