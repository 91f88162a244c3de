-- box.schema.user and box.schema.role.

local box_error = require('box.error')
local catalog = require('box.schema.catalog')
local check = require('box.check')
local privilege = require('box.schema.privilege')
local python = require('internal.python')
local session = require('box.session')

local user, role = {}, {}

local SYSTEM_GRANTS = 'session,usage'

local NO_SUCH = {user = box_error.NO_SUCH_USER, role = box_error.NO_SUCH_ROLE}

-- Returns the id of the user or role with this name.
local function required(kind, name)
    local uid = catalog.grantee(kind, name)
    if uid == nil then
        box_error(NO_SUCH[kind], name)
    end
    return uid
end

local function is_system(uid)
    return uid >= box.schema.SYSTEM_USER_ID_MIN and uid <= box.schema.SYSTEM_USER_ID_MAX
end

-- Returns base64(sha1(sha1(password))), which the chap-sha1 exchange needs.
function user.password(password)
    if #password >= 0 and type(password) ~= 'string' then
        error(("bad argument #1 to 'password_prepare' (cannot convert '%s' to 'const char *')"):format(type(password)))
    end
    return python.password_hash(password)
end

local function set_password(uid, password)
    box.space._user:update({uid}, {{'=', 5, {['chap-sha1'] = user.password(password)}}})
end

function user.passwd(name, new_password)
    if name == nil then
        box_error(box_error.PROC_LUA, 'Usage: box.schema.user.passwd([user,] password)')
    elseif new_password == nil then
        session.su('admin', set_password, session.uid(), name)
    else
        set_password(required('user', name), new_password)
    end
end

function user.create(name, opts)
    local uid = catalog.user_or_role(name)
    opts = opts or {}
    check.options(opts, {password = 'string', if_not_exists = 'boolean'})
    if uid ~= nil then
        if not opts.if_not_exists then
            box_error(box_error.USER_EXISTS, name)
        end
        return
    end
    local auth = setmetatable({}, {__serialize = 'map'})
    if opts.password then
        auth['chap-sha1'] = user.password(opts.password)
    end
    uid = box.space._user:auto_increment{session.euid(), name, 'user', auth}[1]
    user.grant(uid, 'public')
    -- Lets the user change its own password and name.
    user.grant(uid, 'alter', 'user', uid)
    -- Only admin may grant on the universe.
    session.su('admin', user.grant, uid, SYSTEM_GRANTS, 'universe', nil, {if_not_exists = true})
end

function user.exists(name)
    return catalog.grantee('user', name) ~= nil
end

function user.grant(name, ...)
    return privilege.grant(required('user', name), name, ...)
end

function user.revoke(name, ...)
    return privilege.revoke(required('user', name), name, ...)
end

function user.enable(name)
    user.grant(name, SYSTEM_GRANTS, 'universe', nil, {if_not_exists = true})
end

function user.disable(name)
    user.revoke(name, SYSTEM_GRANTS, 'universe', nil, {if_exists = true})
end

-- Drops a user or role, and before it all objects that it owns.
local function drop_owned(uid)
    for _, t in ipairs(box.space._vspace.index.owner:select{uid}) do
        box.space[t[1]]:drop()
    end
    for _, t in ipairs(box.space._vfunc.index.owner:select{uid}) do
        box.schema.func.drop(t[1])
    end
    for _, t in ipairs(box.space._vpriv.index.object:select{'role', uid}) do
        privilege.revoke(t[2], t[2], uid)
    end
    for _, t in ipairs(box.space._vsequence.index.owner:select{uid}) do
        box.schema.sequence.drop(t[1])
    end
end

local function drop(uid)
    drop_owned(uid)
    if catalog.grantee('user', uid) then
        session.su('admin', user.revoke, uid, SYSTEM_GRANTS, 'universe', nil, {if_exists = true})
    end
    for _, t in ipairs(box.space._vpriv.index.primary:select{uid}) do
        session.su('admin', privilege.revoke, uid, uid, t[5], t[3], t[4])
    end
    box.space._user:delete{uid}
end

-- Returns the id of a name; nil if there is none and that is allowed.
local function to_drop(kind, name, opts)
    opts = opts or {}
    check.options(opts, {if_exists = 'boolean'})
    local uid = catalog.grantee(kind, name)
    if uid == nil and not opts.if_exists then
        box_error(NO_SUCH[kind], name)
    end
    return uid
end

function user.drop(name, opts)
    local uid = to_drop('user', name, opts)
    if uid == nil then
        return
    end
    if is_system(uid) then
        box_error(box_error.DROP_USER, name, 'the user or the role is a system')
    elseif uid == session.uid() or uid == session.euid() then
        box_error(box_error.DROP_USER, name, 'the user is active in the current session')
    end
    return drop(uid)
end

function user.info(name)
    return privilege.info(name == nil and session.euid() or required('user', name))
end

function role.exists(name)
    return catalog.grantee('role', name) ~= nil
end

function role.create(name, opts)
    opts = opts or {}
    check.options(opts, {if_not_exists = 'boolean'})
    if catalog.user_or_role(name) ~= nil then
        if not opts.if_not_exists then
            box_error(box_error.ROLE_EXISTS, name)
        end
        return
    end
    box.space._user:auto_increment{session.euid(), name, 'role', setmetatable({}, {__serialize = 'map'})}
end

function role.drop(name, opts)
    local uid = to_drop('role', name, opts)
    if uid == nil then
        return
    end
    if is_system(uid) or uid == box.schema.SUPER_ROLE_ID then
        box_error(box_error.DROP_USER, name, 'the user or the role is a system')
    end
    return drop(uid)
end

-- Refuses names only: as in Tarantool, a number passes as its digits.
local function refuse_system_privilege(given)
    local text = string.lower(given)
    if text:find('session', 1, true) or text:find('usage', 1, true) then
        box_error(box_error.GRANT, 'system privilege can not be granted to role')
    end
end

function role.grant(name, ...)
    local uid = required('role', name)
    refuse_system_privilege((...))
    return privilege.grant(uid, name, ...)
end

function role.revoke(name, ...)
    local uid = required('role', name)
    refuse_system_privilege((...))
    return privilege.revoke(uid, name, ...)
end

function role.info(name)
    return privilege.info(required('role', name))
end

return {user = user, role = role}
