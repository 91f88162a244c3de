-- msgpack.object: a MessagePack value that is decoded when a program asks for it, as in Tarantool 2.11.
--
--     object            userdata to the user; to us {data = string, cfg = options of a serializer, decoded = its value,
--                       names = other names of keys}
--     object:iterator() walks over the value: {object, pos}, where `pos` counts from 0
local ffi = require('ffi')
local decoder = require('internal.msgpack_decode')
local encoder = require('internal.msgpack_encode')
local opaque = require('internal.opaque')

local byte_pointer, skip = decoder.byte_pointer, decoder.skip
local error, type, tonumber, select = error, type, tonumber, select

local M = {}

local methods, iterator_methods = {}, {}
local new_object, state_of, new_iterator, walk_of

local function given(count, value)
    return count == 0 and 'no value' or type(value)
end

local function checked(find, name, ...)
    local value = ...
    local state = type(value) == 'userdata' and find(value)
    if not state then
        error(("bad argument #1 to '?' (%s expected, got %s)"):format(name, given(select('#', ...), value)), 3)
    end
    return state
end

-- Makes an object of the bytes of one value.
function M.new(cfg, data, names)
    return new_object({data = data, cfg = cfg, names = names})
end

function M.is(value)
    return type(value) == 'userdata' and state_of(value) ~= nil
end

-- Returns the bytes of an object, nil of anything else.
function M.raw(value)
    local state = type(value) == 'userdata' and state_of(value)
    return state and state.data or nil
end

-- Returns whether a value is an object that holds an array.
--
-- Raises the error of tuples for an object that holds anything else.
function M.is_array(value)
    local raw = M.raw(value)
    if raw == nil then
        return false
    end
    local tag = raw:byte()
    if not (tag >= 0x90 and tag < 0xa0 or tag == 0xdc or tag == 0xdd) then
        box.error(box.error.TUPLE_NOT_ARRAY)
    end
    return true
end

local function decode_at(cfg, data, pos)
    return decoder.get_sized(cfg, ffi.cast(byte_pointer, data), pos)
end

function methods.decode(...)
    local state = checked(state_of, 'msgpack.object', ...)
    return (decode_at(state.cfg, state.data, 0))
end

function methods.iterator(...)
    return new_iterator({object = checked(state_of, 'msgpack.object', ...), pos = 0})
end

local function is_container(data)
    local tag = data:byte()
    return (tag >= 0x80 and tag < 0xa0) or (tag >= 0xdc and tag <= 0xdf)
end

-- Returns a field of an array, or the value of a key of a map.
local function get(level, state, key)
    if not is_container(state.data) then
        error('not an array or map', level + 1)
    end
    local decoded = state.decoded
    if decoded == nil then
        decoded = decode_at(state.cfg, state.data, 0)
        state.decoded = decoded
    end
    local value = rawget(decoded, key)
    local other = value == nil and state.names and state.names[key]
    if other then
        value = rawget(decoded, other)
    end
    return value
end

function methods.get(...)
    local value = get(2, checked(state_of, 'msgpack.object', ...), (select(2, ...)))
    return value
end

local public = {decode = methods.decode, iterator = methods.iterator, get = methods.get}

function methods.__index(object, key)
    local method = public[key]
    if method ~= nil then
        return method
    end
    local value = get(2, checked(state_of, 'msgpack.object', object), key)
    return value
end

function methods.__tostring()
    return 'msgpack.object'
end

-- ---- iterators -----------------------------------------------------------------------------------------

local function checked_walk(...)
    return checked(walk_of, 'msgpack.iterator', ...)
end

local function check_end(walk)
    if walk.pos == #walk.object.data then
        error('iteration ended', 3)
    end
end

local function pointer_of(walk)
    return ffi.cast(byte_pointer, walk.object.data)
end

local function new_header(read)
    return function(...)
        local walk = checked_walk(...)
        check_end(walk)
        local count, pos = read(pointer_of(walk), walk.pos)
        if count == nil then
            error('unexpected msgpack type', 2)
        end
        walk.pos = pos
        return count
    end
end

iterator_methods.decode_array_header = new_header(decoder.array_header)
iterator_methods.decode_map_header = new_header(decoder.map_header)

function iterator_methods.decode(...)
    local walk = checked_walk(...)
    check_end(walk)
    local value
    value, walk.pos = decode_at(walk.object.cfg, walk.object.data, walk.pos)
    return value
end

local function pass(walk)
    local start = walk.pos
    walk.pos = skip(pointer_of(walk), start)
    return walk.object.data:sub(start + 1, walk.pos)
end

function iterator_methods.take(...)
    local walk = checked_walk(...)
    check_end(walk)
    return M.new(walk.object.cfg, pass(walk))
end

function iterator_methods.skip(...)
    local walk = checked_walk(...)
    check_end(walk)
    pass(walk)
end

-- Returns the next `count` values as an array.
function iterator_methods.take_array(...)
    local walk = checked_walk(...)
    if select('#', ...) ~= 2 then
        error('Usage: iter:take_array(count)', 2)
    end
    local count = tonumber((select(2, ...)))
    if count == nil then
        error(("bad argument #2 to '?' (number expected, got %s)"):format(type((select(2, ...)))), 2)
    elseif count < 0 then
        error('count must be >= 0', 2)
    end
    count = math.floor(count)
    local p, pos, data = pointer_of(walk), walk.pos, walk.object.data
    for _ = 1, count do
        if pos == #data then
            error('iteration ended', 2)
        end
        pos = skip(p, pos)
    end
    local taken = data:sub(walk.pos + 1, pos)
    walk.pos = pos
    return M.new(walk.object.cfg, encoder.array_header(count) .. taken)
end

function iterator_methods.__tostring()
    return 'msgpack.iterator'
end

new_object, state_of = opaque('msgpack.object', methods)
new_iterator, walk_of = opaque('msgpack.iterator', iterator_methods)

-- The encoder writes objects as they are.
encoder.raw_of = M.raw

return M
