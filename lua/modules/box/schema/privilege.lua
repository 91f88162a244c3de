-- Privileges: names and bits, grant and revoke for users and roles.

local box_error = require('box.error')
local catalog = require('box.schema.catalog')
local check = require('box.check')
local session = require('box.session')

local M = {}

local PRIV = {
    R = 1, W = 2, X = 4, S = 8, U = 16, C = 32, D = 64, A = 128, REFERENCE = 256, TRIGGER = 512,
    INSERT = 1024, UPDATE = 2048, DELETE = 4096, GRANT = 8192, REVOKE = 16384, ALL = 4294967295,
}
M.PRIV = PRIV

-- The names for grant(), in the order in which info() shows them.
local NAMES = {
    {'read', PRIV.R}, {'write', PRIV.W}, {'execute', PRIV.X}, {'session', PRIV.S}, {'usage', PRIV.U},
    {'create', PRIV.C}, {'drop', PRIV.D}, {'alter', PRIV.A}, {'reference', PRIV.REFERENCE},
    {'trigger', PRIV.TRIGGER}, {'insert', PRIV.INSERT}, {'update', PRIV.UPDATE}, {'delete', PRIV.DELETE},
}

-- The bits that may be granted on an object of each type. `execute` on a space has no effect, but Tarantool allows it.
local ALLOWED = {
    universe = PRIV.ALL,
    space = bit.bxor(PRIV.ALL, PRIV.S, PRIV.REVOKE, PRIV.GRANT),
    sequence = bit.bor(PRIV.R, PRIV.W, PRIV.U, PRIV.C, PRIV.A, PRIV.D),
    ['function'] = bit.bor(PRIV.X, PRIV.U, PRIV.C, PRIV.D),
    role = bit.bor(PRIV.X, PRIV.U, PRIV.C, PRIV.D),
    user = bit.bor(PRIV.C, PRIV.A, PRIV.D),
}

local function bits_of(privilege)
    if type(privilege) ~= 'string' then
        return privilege
    end
    local bits, text = 0, privilege:lower()
    for _, entry in ipairs(NAMES) do
        if text:find(entry[1], 1, true) then
            bits = bits + entry[2]
        end
    end
    return bits
end

local function text_of(bits)
    local names = {}
    for _, entry in ipairs(NAMES) do
        if bit.band(bits, entry[2]) ~= 0 then
            names[#names + 1] = entry[1]
        end
    end
    return table.concat(names, ',')
end

local function checked_bits(privilege, object_type)
    local bits, allowed = bits_of(privilege), ALLOWED[object_type]
    if allowed == nil then
        box_error(box_error.UNKNOWN_SCHEMA_OBJECT, object_type)
    end
    if type(bits) ~= 'number' or bits == 0 or bit.band(bits, allowed) ~= bits then
        box_error(box_error.UNSUPPORTED_PRIV, object_type, privilege)
    end
    return bits
end

-- Object type -> a function that finds the id by name or id, and the error if there is none.
local FINDERS = {
    space = {function(name) local space = box.space[name]; return space and space.id end, box_error.NO_SUCH_SPACE},
    ['function'] = {function(name) local t = catalog.func(name); return t and t[1] end, box_error.NO_SUCH_FUNCTION},
    sequence = {function(name) return (catalog.sequence(name)) end, box_error.NO_SUCH_SEQUENCE},
    role = {function(name) return catalog.grantee('role', name) end, box_error.NO_SUCH_ROLE},
    user = {function(name) return catalog.grantee('user', name) end, box_error.NO_SUCH_USER},
}

-- Returns the id of an object; an empty name stands for all objects of the type.
local function object_id(object_type, name)
    if name ~= nil and type(name) ~= 'string' and type(name) ~= 'number' then
        check.illegal('wrong object name type')
    elseif object_type == 'universe' then
        return 0
    elseif name == '' then
        return ''
    end
    if name == nil and object_type == 'role' then
        catalog.user_or_role(name)
    end
    local find, missing = unpack(FINDERS[object_type])
    local id = find(name)
    if id == nil then
        box_error(missing, name)
    end
    return id
end

local VIEWS = {space = '_vspace', sequence = '_sequence', ['function'] = '_vfunc', role = '_vuser', user = '_vuser'}

local function object_name(object_type, id)
    if object_type == 'universe' or id == '' then
        return ''
    elseif VIEWS[object_type] == nil then
        box_error(box_error.UNKNOWN_SCHEMA_OBJECT, object_type)
    end
    return box.space[VIEWS[object_type]]:get{id}[3]
end

-- Completes the arguments of grant: grant(user, role) and grant(user, privilege, object_type) are short forms.
local function expand(privilege, object_type, name)
    if name ~= nil then
        return privilege, object_type, name
    elseif object_type == nil then
        return 'execute', 'role', privilege
    end
    return privilege, object_type, ''
end

local function is_role_grant(privilege, object_type, name)
    return object_type == 'role' and name ~= '' and privilege == 'execute'
end

function M.grant(uid, grantee, privilege, object_type, name, options)
    privilege, object_type, name = expand(privilege, object_type, name)
    local bits = checked_bits(privilege, object_type)
    local id = object_id(object_type, name)
    options = options or {}
    -- Kept in the table of the caller, as in Tarantool.
    if options.grantor == nil then
        options.grantor = session.euid()
    else
        options.grantor = catalog.user_or_role(options.grantor)
    end
    local tuple = box.space._vpriv:get{uid, object_type, id}
    local old_bits = tuple ~= nil and tuple[5] or 0
    bits = bit.bor(bits, old_bits)
    if bits ~= old_bits then
        box.space._priv:replace{options.grantor, uid, object_type, id, bits}
    elseif not options.if_not_exists then
        if is_role_grant(privilege, object_type, name) then
            box_error(box_error.ROLE_GRANTED, grantee, name)
        end
        local shown = object_type == 'universe' and name or string.format(" '%s'", name)
        box_error(box_error.PRIV_GRANTED, grantee, privilege, object_type, shown)
    end
end

function M.revoke(uid, grantee, privilege, object_type, name, options)
    privilege, object_type, name = expand(privilege, object_type, name)
    local bits = checked_bits(privilege, object_type)
    options = options or {}
    local id = object_id(object_type, name)
    local tuple = box.space._vpriv:get{uid, object_type, id}
    local rest = tuple ~= nil and bit.band(tuple[5], bit.bnot(bits)) or 0
    if tuple == nil or rest == tuple[5] then
        if options.if_exists then
            return
        elseif tuple == nil and is_role_grant(privilege, object_type, name) then
            box_error(box_error.ROLE_NOT_GRANTED, grantee, name)
        end
        box_error(box_error.PRIV_NOT_GRANTED, grantee, privilege, object_type, name)
    end
    if rest ~= 0 then
        box.space._priv:replace{tuple[1], uid, object_type, id, rest}
    else
        box.space._priv:delete{uid, object_type, id}
    end
end

-- Returns {{'read,write', 'space', 'name'}, ...}.
function M.info(uid)
    local result = {}
    for _, tuple in ipairs(box.space._vpriv:select{uid}) do
        result[#result + 1] = {text_of(tuple[5]), tuple[3], object_name(tuple[3], tuple[4])}
    end
    return result
end

return M
