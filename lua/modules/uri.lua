-- require('uri'): parses and formats addresses.
local msgpack = require('internal.msgpack')
local python = require('internal.python')

local function parse(text)
    if text == nil then
        error('Usage: uri.parse(string)')
    elseif type(text) ~= 'string' then
        error(("bad argument #2 to 'uri_parse' (cannot convert '%s' to 'const char *')"):format(type(text)))
    end
    local packed = python.uri_parse(text)
    return packed and setmetatable(msgpack.decode(packed), nil)
end

local function format(parts, write_password)
    return python.uri_format(msgpack.encode(setmetatable(table.copy(parts), {__serialize = 'map'})),
        write_password and true or false)
end

return {parse = parse, format = format}
