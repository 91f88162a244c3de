-- Percent-encoding of parts of URIs: the functions that the module `uri` of 2.11 adds.
local ffi = require('ffi')

local error, ipairs, tonumber, type = error, ipairs, tonumber, type

-- Returns the set of bytes that a set of a Lua pattern, without its brackets, contains.
local function unreserved(set)
    if type(set) ~= 'string' then
        error('Usage: uri.unreserved(str)')
    end
    local pattern, bytes = '^[' .. set .. ']$', ffi.new('unsigned char[256]')
    for byte = 0, 255 do
        bytes[byte] = string.char(byte):match(pattern) and 1 or 0
    end
    return bytes
end

local M = {unreserved = unreserved}

-- The letters, digits and marks that each part of a URI may contain, by RFC 3986 and the form encoding of HTML.
local COMMON = '%w%-._'
for name, marks in pairs({
    RFC3986 = '~', PATH = "~!$&'()*+,;=/:@", PATH_PART = "~!$&'()*+,;=:@", QUERY = "~!$&'()*+,;=/?",
    QUERY_PART = "~!$'()*+,;/?", FRAGMENT = "~!$&'()*+,;=/?", FORM_URLENCODED = '*',
}) do
    M[name] = {unreserved = unreserved(COMMON .. marks), plus = name == 'FORM_URLENCODED'}
end

-- Returns the set and the sign for a space of the options of a call.
local function options_of(options)
    if options and type(options) ~= 'table' then
        error('opts must be a table')
    end
    options = options or M.RFC3986
    local set, plus = options.unreserved or M.RFC3986.unreserved, options.plus or false
    if type(set) ~= 'cdata' then
        error('use uri.unreserved for building opts.unreserved')
    elseif type(plus) ~= 'boolean' then
        error('opts.plus must be a boolean')
    end
    return set, plus
end

function M.escape(text, options)
    if type(text) ~= 'string' then
        error('Usage: uri.escape(string, [opts])')
    end
    local set, plus = options_of(options)
    return (text:gsub('.', function(char)
        local byte = char:byte()
        if plus and char == ' ' then
            return '+'
        elseif set[byte] == 0 then
            return ('%%%02X'):format(byte)
        end
    end))
end

-- A percent sign without two digits after it stays.
function M.unescape(text, options)
    if type(text) ~= 'string' then
        error('Usage: uri.unescape(string, [opts])')
    end
    local _, plus = options_of(options)
    if plus then
        text = text:gsub('+', ' ')
    end
    return (text:gsub('%%(%x%x)', function(digits)
        return string.char(tonumber(digits, 16))
    end))
end

-- Several values of one parameter.
function M.values(...)
    return {...}
end

return M
