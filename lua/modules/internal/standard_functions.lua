-- The functions of the standard library that are C functions in Tarantool and Lua functions here. Programs that show or
-- serialize functions must take them for C functions too: string.dump refuses them, and debug.getinfo describes them so.
--
-- This file is loaded before the first of them is replaced. `collect()` is called when all are in place.
local raw_getinfo, raw_dump = debug.getinfo, string.dump
local error, pairs, type = error, pairs, type

local LIBRARIES = {_G, coroutine, debug, io, math, os, package, string, table, require('ffi')}
-- Those that LuaJIT does not have, or not yet, and those that Tarantool has in Lua.
local ADDED = {[_G] = {'tonumber64'}, [coroutine] = {'isyieldable'}, [table] = {'clear', 'new'}}
local IN_LUA = {exit = true, deg = true, rad = true}

-- Library -> names of its functions in C.
local names = {}
for _, library in pairs(LIBRARIES) do
    local list = ADDED[library] or {}
    for name, value in pairs(library) do
        if type(value) == 'function' and raw_getinfo(value, 'S').what == 'C' and not IN_LUA[name] then
            list[#list + 1] = name
        end
    end
    names[library] = list
end

local stands_for_c = setmetatable({}, {__mode = 'k'})

local function collect()
    for library, list in pairs(names) do
        for _, name in pairs(list) do
            local value = library[name]
            if type(value) == 'function' and raw_getinfo(value, 'S').what ~= 'C' then
                stands_for_c[value] = true
            end
        end
    end
    names = {}
end

local IN_C = {what = 'C', source = '=[C]', short_src = '[C]', linedefined = -1, lastlinedefined = -1, currentline = -1}

-- Changes the result of debug.getinfo for such a function to that for a function in C.
local function described(info)
    for name, value in pairs(IN_C) do
        if info[name] ~= nil then
            info[name] = value
        end
    end
    info.activelines = nil
    return info
end

function string.dump(...)
    if stands_for_c[(...)] then
        error('unable to dump given function', 2)
    end
    return raw_dump(...)
end

-- `getinfo` is the standard function, which takes a fraction of the time of ours.
return {collect = collect, stands_for_c = stands_for_c, described = described, getinfo = raw_getinfo}
