-- box.error objects: cdata of type `struct error`, whose fields live in a table beside it.
--
-- Between Lua and Python an error is the MessagePack array
--     [type, code, message, file, line, custom type, errno, fields, previous error]
-- with nil for missing parts; `previous error` is such an array again.
local ffi = require('ffi')
local msgpack = require('internal.msgpack')
local python = require('internal.python')

local getinfo = debug.getinfo
local pcall, error, type, tostring, pairs = pcall, error, type, tostring, pairs

ffi.cdef('struct error { int32_t _code; };')
local error_type = ffi.typeof('struct error')

local PROC_LUA = 32
-- The place of every error of Lua itself in Tarantool 2.8.1, whose C code turns raised values into error objects there.
local LUA_ERROR_FILE, LUA_ERROR_LINE = './src/lua/utils.c', 1014
-- Types whose objects do not show a code.
local CODELESS = {}
for _, name in ipairs({
    'LuajitError', 'SystemError', 'SocketError', 'OutOfMemory', 'FiberIsCancelled', 'TimedOut', 'ChannelIsClosed',
    'XlogError', 'IllegalParams', 'CollationError', 'FileFormatError', 'SwimError', 'CryptoError', 'MsgpackError',
    'FiberSliceIsExceeded',
}) do
    CODELESS[name] = true
end

-- error -> {type, code, message, file, line, custom_type, errno, fields, prev}
local facts_of = setmetatable({}, {__mode = 'k'})

-- `made` is the number of client errors that were made since box.stat() looked.
local M = {ctype = error_type, made = 0}

local COUNTED = {ClientError = true, AccessDeniedError = true, CustomError = true}

-- Counts a new error that is not one of Python's.
function M.count(err)
    if COUNTED[err.base_type] then
        M.made = M.made + 1
    end
    return err
end

local function is(value)
    return type(value) == 'cdata' and ffi.istype(error_type, value)
end
M.is = is

-- Makes an error object. `facts`: type (default ClientError), code, message, file, line, custom_type, errno, fields (a
-- table of further attributes), prev.
function M.new(facts)
    local err = ffi.new(error_type)
    err._code = facts.code or 0
    facts.type = facts.type or 'ClientError'
    facts_of[err] = facts
    return err
end
local new = M.new

-- Makes an error object with the place of the caller.
function M.new_here(facts)
    local info = getinfo(2, 'Sl')
    facts.file, facts.line = info.short_src, info.currentline
    return new(facts)
end

local function base_type(facts)
    return facts.type
end

local function type_of(facts)
    return facts.custom_type or facts.type
end

local function message(facts)
    return facts.message
end

local function trace(facts)
    if facts.file == nil or facts.file == '' then
        return {}
    end
    return {{file = facts.file, line = facts.line}}
end

local function errno(facts)
    if facts.errno ~= 0 then
        return facts.errno
    end
end

local function previous(facts)
    return facts.prev
end

-- The attributes of every error, added in Tarantool's order, which decides in what order a console shows them.
local getters = {
    type = type_of, message = message, trace = trace, errno = errno, prev = previous, base_type = base_type,
}

-- The attributes of some types only, before those of the types that they come from.
local OWN = {AccessDeniedError = {'access_type', 'object_type', 'object_name'}, CustomError = {'custom_type'}}

local attributes_of_type = {}

-- Returns the names of the attributes that depend on the type, as a set filled in Tarantool's order.
local function attributes(name)
    local result = attributes_of_type[name]
    if result == nil then
        result = {}
        for _, attribute in ipairs(OWN[name] or {}) do
            result[attribute] = true
        end
        if not CODELESS[name] then
            result.code = true
        end
        result.message, result.log = true, true
        attributes_of_type[name] = result
    end
    return result
end

-- Returns an attribute that only some types have, or nil.
local function attribute(facts, name)
    if name == 'code' and not CODELESS[facts.type] then
        return facts.code
    elseif name == 'custom_type' then
        return facts.custom_type
    end
    return facts.fields and facts.fields[name]
end

local methods = {}

local function usage(text)
    error(text, 2)
end

function methods.unpack(err)
    if not is(err) then
        usage('Usage: error:unpack()')
    end
    local facts = facts_of[err]
    local result = {}
    for name, getter in pairs(getters) do
        result[name] = getter(facts)
    end
    for name in pairs(attributes(facts.type)) do
        local value = attribute(facts, name)
        if value ~= nil then
            result[name] = value
        end
    end
    for name, value in pairs(facts.fields or {}) do
        result[name] = value
    end
    return result
end

function methods.raise(err)
    if not is(err) then
        usage('Usage: error:raise()')
    end
    error(err, 0)
end

function methods.match(err, ...)
    if not is(err) then
        usage('Usage: error:match()')
    end
    return facts_of[err].message:match(...)
end

function methods.__serialize(err)
    return is(err) and facts_of[err].message or err._errmsg
end

function methods.set_prev(err, prev)
    if not is(err) or (prev ~= nil and not is(prev)) then
        usage('Usage: error1:set_prev(error2)')
    end
    local cause = prev
    while cause ~= nil do
        if cause == err then
            usage('Cycles are not allowed')
        end
        cause = facts_of[cause].prev
    end
    facts_of[err].prev = prev ~= nil and prev or nil
end

ffi.metatype(error_type, {
    __index = function(err, key)
        local facts = facts_of[err]
        local getter = getters[key]
        local value
        if getter then
            value = getter(facts)
        else
            value = attribute(facts, key)
        end
        if value ~= nil then
            return value
        elseif key == '_errmsg' then
            return facts.message -- scripts read this field of Tarantool's structure with ffi.string
        end
        return methods[key]
    end,
    __newindex = function()
        error('attempt to write to constant location', 2)
    end,
    __tostring = function(err)
        return facts_of[err].message
    end,
    __concat = function(lhs, rhs)
        if is(lhs) then
            return tostring(lhs) .. rhs
        end
        return lhs .. tostring(rhs)
    end,
})

local NULL = msgpack.NULL

local function given(value)
    if value ~= NULL and value ~= '' then
        return value
    end
end

local function from_list(list)
    return new({
        type = list[1], code = list[2], message = list[3], file = given(list[4]), line = list[5],
        custom_type = given(list[6]), errno = list[7], fields = given(list[8]),
        prev = list[9] ~= NULL and from_list(list[9]) or nil,
    })
end

-- Decodes an error from Python. box.error.last() finds the last one here, so that it is the same object.
function M.decode(bytes)
    M.decoded_bytes, M.decoded = bytes, (from_list((msgpack.decode(bytes))))
    return M.decoded
end

function M.raise(bytes)
    error(M.decode(bytes), 0)
end

local function text_of(value)
    if type(value) == 'userdata' then
        local raised = python.unexpected(value)
        if raised then
            return raised
        end
    end
    local ok, text = pcall(tostring, value)
    return ok and type(text) == 'string' and text or 'unknown error'
end

-- Returns a text up to its first zero byte, where strings of C end.
function M.cut(text)
    return text:match('^%Z*')
end

-- Converts any raised value to an error object: strings and others become a LuajitError.
function M.from_value(value)
    if is(value) then
        return value
    end
    return new({
        type = 'LuajitError', code = PROC_LUA, message = M.cut(text_of(value)), file = LUA_ERROR_FILE, line = LUA_ERROR_LINE,
    })
end

-- Converts a value that __serialize or an encoder has raised. A value that is not a text gives an error without a text.
function M.from_serializer(problem)
    local kind = type(problem)
    return M.from_value((kind == 'string' or kind == 'number' or is(problem)) and problem or '')
end

local function to_list(err)
    local facts = facts_of[err]
    local prev = facts.prev and to_list(facts.prev)
    return {
        facts.type, facts.code or 0, facts.message, facts.file or '', facts.line or 0,
        facts.custom_type or NULL, facts.errno or 0, facts.fields or NULL, prev or NULL,
    }
end

-- Encodes any raised value for Python's decode_error.
function M.encode(value)
    return msgpack.encode(to_list(M.from_value(value)))
end

-- ---- errors among values: their text, or in sessions that want it extension 3 (box/data/error_body.py) --------------

local ERROR_EXTENSION = 3
local packed

-- Encodes an error outside of the encoder that is under way, because M.encode needs an encoder, too.
local function pack(err)
    packed = python.error_pack(M.encode(err))
end

msgpack.register(error_type, function(err, pos, _, cfg)
    if cfg.fail then
        cfg.fail("cannot convert 'string' to 'ctype'")
    end
    local travels = python.error_travels -- nil in a runtime without an instance, which has no sessions
    local option = cfg.encode_error_as_ext
    if option == false or not (travels and travels(option == true)) then
        return msgpack.put_string(facts_of[err].message, pos)
    end
    msgpack.call_aside(pack, err)
    return msgpack.put_bytes(packed, #packed, pos)
end)

msgpack.register_extension(ERROR_EXTENSION, function(p, pos, size)
    local bytes = python.error_unpack(ffi.string(p + pos, size))
    return bytes and M.decode(bytes) or error('Can not parse an error from MsgPack', 0)
end)

-- Makes the error `fiber is cancelled` of cancellation points.
function M.raise_cancelled()
    error(M.new_here({type = 'FiberIsCancelled', code = 0, message = 'fiber is cancelled'}), 0)
end

return M
