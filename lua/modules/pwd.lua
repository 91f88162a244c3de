-- require('pwd'): accounts and groups of the system.
local decode = require('box.finish').decode
local python = require('internal.python')

local function checked(key, what)
    if type(key) ~= 'string' and type(key) ~= 'number' then
        error(("Bad type of %s (expected 'string'/'number')"):format(what))
    end
    return key
end

local function found(packed)
    return packed and decode(packed) or nil
end

-- Looks up by name or number; without an argument, the account and group of this process.
local function getpw(key)
    return found(python.pwd_user(checked(key == nil and decode(python.pwd_current())[1] or key, 'uid')))
end

local function getgr(key)
    return found(python.pwd_group(checked(key == nil and decode(python.pwd_current())[2] or key, 'gid')))
end

return {
    getpw = getpw,
    getgr = getgr,
    getpwall = function()
        return decode(python.pwd_users())
    end,
    getgrall = function()
        return decode(python.pwd_groups())
    end,
}
