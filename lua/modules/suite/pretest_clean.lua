-- require('pretest_clean').clean(): brings the default server of a suite with `pretest_clean = True` to the state of an
-- empty instance before each test. It is copied beside the test's nodes, and runs on Tarantool as well.

-- Global names that a program of Tarantool or Lunabox begins with. A script protects its own by the global list
-- `protected_globals`.
local GLOBALS = [[
    _G _VERSION _TARANTOOL arg assert bit box collectgarbage coroutine debug dofile dostring error ffi gcinfo getfenv
    getmetatable help io ipairs jit load loadfile loadstring math misc module newproxy next os package pairs pcall print
    protected_globals rawequal rawget rawset require role_check_grant_revoke_of_sys_priv select setfenv setmetatable
    string table tonumber tonumber64 tostring tutorial type unpack update_format utf8 xpcall
]]
local USERS = {guest = true, admin = true, public = true, replication = true, super = true}
local FUNCTIONS = {['box.schema.user.info'] = true, LUA = true}

local NAME, USER_TYPE, LANGUAGE = 3, 4, 'language'

local function each_name(space, is_wanted, act)
    for _, tuple in ipairs(space:select()) do
        if is_wanted(tuple, tuple[NAME]) then
            act(tuple[NAME])
        end
    end
end

local function drop_spaces()
    each_name(box.space._space, function(_, name)
        return name:sub(1, 1) ~= '_'
    end, function(name)
        box.space[name]:drop()
    end)
end

local function drop_users(kind)
    each_name(box.space._user, function(tuple, name)
        return tuple[USER_TYPE] == kind and not USERS[name]
    end, box.schema[kind].drop)
end

-- Functions of SQL belong to the system.
local function drop_functions()
    each_name(box.space._func, function(tuple, name)
        return tuple[LANGUAGE] ~= 'SQL_BUILTIN' and not FUNCTIONS[name]
    end, box.schema.func.drop)
end

local function forget_replicas()
    for _, tuple in ipairs(box.space._cluster:select()) do
        if tuple[1] ~= box.info.id then
            box.space._cluster:delete(tuple[1])
        end
    end
end

local function keep_only(names, is_kept)
    for name in pairs(names) do
        if not is_kept(name) then
            names[name] = nil
        end
    end
end

local function forget_globals()
    local kept = {}
    for name in GLOBALS:gmatch('%S+') do
        kept[name] = true
    end
    for _, name in ipairs(rawget(_G, 'protected_globals') or {}) do
        kept[name] = true
    end
    local function is_kept(name)
        return kept[name]
    end
    keep_only(_G, is_kept)
    -- The module `strict` remembers declared names.
    local declared = (getmetatable(_G) or {}).__declared
    if type(declared) == 'table' then
        keep_only(declared, is_kept)
    end
end

-- Modules that were loaded from files are loaded anew by the next test that requires them.
local function forget_modules()
    keep_only(package.loaded, function(name)
        return package.search(name) == nil
    end)
end

local function clean()
    drop_spaces()
    drop_users('user')
    drop_users('role')
    drop_functions()
    forget_replicas()
    forget_globals()
    forget_modules()
    collectgarbage()
end

return {clean = clean}
