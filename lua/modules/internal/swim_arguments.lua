-- The arguments of `swim`: their checks, with the texts of Tarantool 2.8.1.
--
-- They end with `return error(...)`: a tail call, so that the place in the text is that of the function that has the
-- argument. `of` is its name.
local ffi = require('ffi')
local uuid = require('uuid')

local error, tonumber, tostring, type = error, tonumber, tostring, type

local uuid_type = ffi.typeof('struct tt_uuid')
local UUID_SIZE = 16

local function check_uri(value, of)
    if value == nil then
        return nil
    elseif type(value) == 'string' then
        return value
    elseif type(value) == 'number' then
        return tostring(value)
    end
    return error(of .. ': expected string URI or port number')
end

local function check_time(value, of, name)
    if value == nil then
        return -1
    elseif type(value) == 'number' then
        return value
    end
    return error(('%s: expected number %s'):format(of, name))
end

local COLLECTS_DEAD = {on = true, off = false}

local function check_gc_mode(value, of)
    if value == nil then
        return nil
    end
    local collects = COLLECTS_DEAD[value]
    if collects == nil then
        return error(of .. ': unknown gc_mode')
    end
    return collects
end

-- Returns the bytes of a uuid.
local function check_uuid(value, of)
    if value == nil then
        return nil
    elseif type(value) == 'string' then
        value = uuid.fromstr(value)
        if value == nil then
            return error(of .. ': invalid UUID')
        end
    elseif type(value) ~= 'cdata' or not ffi.istype(uuid_type, value) then
        return error(of .. ': expected string UUID or struct tt_uuid')
    end
    return ffi.string(value, UUID_SIZE)
end

-- Returns bytes that are given as text or in memory, with their size.
local function check_bytes(value, size, of, name)
    if size ~= nil and type(size) ~= 'number' then
        return error(('%s: expected number %s size'):format(of, name))
    elseif type(value) == 'string' then
        if size ~= nil and size > #value then
            return error(('%s: explicit %s size > string length'):format(of, name))
        end
        return value, size or #value
    elseif value == nil then
        if size ~= nil then
            return error(('%s: size can not be set without %s'):format(of, name))
        end
        return '', 0
    elseif type(value) ~= 'cdata' or tonumber(value) ~= nil then    -- a number is no place in memory
        return error(('%s: %s should be either string or cdata'):format(of, name))
    elseif size == nil then
        return error(('%s: size is mandatory for cdata %s'):format(of, name))
    end
    return ffi.cast('const char *', value), size
end

return {uri = check_uri, time = check_time, gc_mode = check_gc_mode, uuid = check_uuid, bytes = check_bytes}
