-- The text of a tuple, tostring(tuple): one YAML flow sequence without line folding, as the peer writes it.
--
-- Written from the MessagePack itself, which still tells 1 from 1.0. Strings are always quoted: in single quotes, or
-- in double quotes where they hold characters that need an escape; bytes that are no UTF-8 become !!binary.
local ffi = require('ffi')
local decoder = require('internal.msgpack_decode')

local get, skip, array_header, map_header = decoder.get, decoder.skip, decoder.array_header, decoder.map_header
local byte_pointer = decoder.byte_pointer
local concat, format = table.concat, string.format

local OPTIONS = {decode_invalid_numbers = true}
local INDENT = 2
local BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
local ESCAPES = {
    ['\0'] = '\\0', ['\a'] = '\\a', ['\b'] = '\\b', ['\t'] = '\\t', ['\n'] = '\\n', ['\v'] = '\\v', ['\f'] = '\\f',
    ['\r'] = '\\r', ['\27'] = '\\e', ['"'] = '\\"', ['\\'] = '\\\\',
}

local function base64(text)
    local parts = {}
    for i = 1, #text, 3 do
        local a, b, c = text:byte(i, i + 2)
        local bits = a * 65536 + (b or 0) * 256 + (c or 0)
        for place = 3, 0, -1 do
            local index = math.floor(bits / 64 ^ place) % 64 + 1
            parts[#parts + 1] = BASE64:sub(index, index)
        end
        if c == nil then
            parts[#parts] = '='
            parts[#parts - 1] = b == nil and '=' or parts[#parts - 1]
        end
    end
    return concat(parts)
end

local function code_point(char)
    local a, b, c, d = char:byte(1, 4)
    if d then
        return ((a % 8 * 64 + b % 64) * 64 + c % 64) * 64 + d % 64
    elseif c then
        return (a % 16 * 64 + b % 64) * 64 + c % 64
    end
    return a % 32 * 64 + b % 64
end

-- The characters beyond ASCII of a text, one by one; nil in place of one that is malformed or not printable.
local function is_printable_utf8(text)
    local pos = 1
    while true do
        pos = text:find('[\128-\255]', pos)
        if pos == nil then
            return true
        end
        local char = text:match('^[\194-\223][\128-\191]', pos) or text:match('^[\224-\239][\128-\191][\128-\191]', pos)
            or text:match('^[\240-\244][\128-\191][\128-\191][\128-\191]', pos)
        if char == nil then
            return false
        end
        local code = code_point(char)
        local is_control = code < 0xa0 and code ~= 0x85
        local is_surrogate = code >= 0xd800 and code < 0xe000
        local is_overlong = (#char == 3 and code < 0x800) or (#char == 4 and (code < 0x10000 or code > 0x10ffff))
        if is_control or is_surrogate or is_overlong or code == 0xfeff or code % 0x10000 >= 0xfffe then
            return false
        end
        pos = pos + #char
    end
end

local function double_quoted(text)
    text = text:gsub('[%z\1-\31"\\\127]', function(char)
        return ESCAPES[char] or format('\\x%02X', char:byte())
    end)
    text = text:gsub('[\240-\244][\128-\191][\128-\191][\128-\191]', function(char)
        return format('\\U%08X', code_point(char))
    end)
    return '"' .. text .. '"'
end

local function single_quoted(text, depth)
    text = text:gsub("'", "''")
    if text:find('\n', 1, true) then
        local indent = (' '):rep((depth + 1) * INDENT)
        text = text:gsub('\n+', function(breaks)
            return '\n' .. breaks .. indent
        end)
    end
    return "'" .. text .. "'"
end

local function string_text(text, depth)
    if not is_printable_utf8(text) then
        return '!!binary ' .. base64(text)
    elseif text:find('[%z\1-\9\11-\31\127\240-\244]') or text:find(' \n', 1, true) or text:find('\n ', 1, true) then
        return double_quoted(text)
    end
    return single_quoted(text, depth)
end

local function double_text(number)
    if number ~= number then
        -- The sign of a NaN shows in its highest bit only.
        return ffi.cast(byte_pointer, ffi.new('double[1]', number))[7] >= 0x80 and '-nan' or 'nan'
    elseif number - number ~= 0 then
        return number > 0 and 'inf' or '-inf'
    end
    return format('%.14g', number)
end

local function integer_text(value)
    if type(value) == 'number' then
        return format('%.0f', value)
    end
    return (tostring(value):gsub('U?LL$', ''))
end

local write

local function write_all(p, pos, count, depth, write_item)
    local parts = {}
    for i = 1, count do
        parts[i], pos = write_item(p, pos, depth)
    end
    return concat(parts, ', '), pos
end

local function write_pair(p, pos, depth)
    local key, value
    key, pos = write(p, pos, depth)
    value, pos = write(p, pos, depth)
    return key .. ': ' .. value, pos
end

local function write_scalar(p, pos, depth)
    local tag = p[pos]
    if tag == 0xc0 or tag >= 0xc7 and tag <= 0xc9 or tag >= 0xd4 and tag <= 0xd8 then
        return 'null', skip(p, pos)
    end
    local value, after = get(OPTIONS, p, pos)
    if type(value) == 'boolean' then
        return tostring(value), after
    elseif tag >= 0xc4 and tag <= 0xc6 then
        return '!!binary ' .. base64(value), after
    elseif type(value) == 'string' then
        return string_text(value, depth), after
    elseif tag == 0xca or tag == 0xcb then
        return double_text(value), after
    end
    return integer_text(value), after
end

function write(p, pos, depth)
    local count, first = array_header(p, pos)
    local text, after
    if count then
        text, after = write_all(p, first, count, depth + 1, write)
        return '[' .. text .. ']', after
    end
    count, first = map_header(p, pos)
    if count then
        text, after = write_all(p, first, count, depth + 1, write_pair)
        return '{' .. text .. '}', after
    end
    return write_scalar(p, pos, depth)
end

-- The text of the MessagePack value that `p` (uint8_t *) points to.
return function(p)
    return (write(p, 0, 0))
end
