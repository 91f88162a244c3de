-- require('uri'): parses and formats addresses.
local arguments = require('internal.arguments')
local ffi = require('ffi')
local msgpack = require('internal.msgpack')
local python = require('internal.python')

-- Returns the name of a value's type as the FFI shows it.
local function c_type(value)
    local kind = type(value)
    if kind == 'cdata' then
        return (tostring(ffi.typeof(value)):gsub('^ctype<(.*)>$', '%1'))
    end
    return kind == 'boolean' and 'bool' or kind
end

local function parse(text)
    if text == nil then
        error('Usage: uri.parse(string)')
    elseif type(text) ~= 'string' then
        error(("bad argument #2 to 'uri_parse' (cannot convert '%s' to 'const char *')"):format(c_type(text)))
    end
    local packed = python.uri_parse(arguments.c_text(text))
    return packed and setmetatable(msgpack.decode(packed), nil)
end

local PARTS = {'scheme', 'login', 'password', 'host', 'service', 'path', 'query', 'fragment'}

local function format(uri, write_password)
    local texts = setmetatable({}, {__serialize = 'map'})
    for _, name in ipairs(PARTS) do
        local part = uri[name]
        if part ~= nil and type(part) ~= 'string' then
            error(("cannot convert '%s' to 'const char *'"):format(c_type(part)))
        elseif part == nil and part then
            error("bad argument #1 to 'len' (string expected, got cdata)") -- box.NULL is no missing part
        end
        texts[name] = part and arguments.c_text(part)
    end
    return python.uri_format(msgpack.encode(texts), write_password and true or false)
end

local escaping = require('internal.uri_escaping')

return {
    parse = parse, format = format, values = escaping.values, escape = escaping.escape,
    unescape = escaping.unescape, unreserved = escaping.unreserved, RFC3986 = escaping.RFC3986, PATH = escaping.PATH,
    PATH_PART = escaping.PATH_PART, QUERY = escaping.QUERY, QUERY_PART = escaping.QUERY_PART,
    FRAGMENT = escaping.FRAGMENT, FORM_URLENCODED = escaping.FORM_URLENCODED,
}
