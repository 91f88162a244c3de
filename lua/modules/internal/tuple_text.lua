-- The text of a tuple, tostring(tuple): one YAML flow sequence without line folding, as Tarantool writes it.
--
-- It is made from the MessagePack, which distinguishes 1 from 1.0. Strings are always quoted: in single quotes, or in
-- double quotes if they contain characters that need an escape. Bytes that are not UTF-8 become !!binary.
local ffi = require('ffi')
local decoder = require('internal.msgpack_decode')
local printable = require('internal.printable')

local get, skip, array_header, map_header = decoder.get, decoder.skip, decoder.array_header, decoder.map_header
local byte_pointer = decoder.byte_pointer
local is_text, base64 = printable.is_text, printable.base64
local concat, format = table.concat, require('internal.string_format').of_luajit

local OPTIONS = {decode_invalid_numbers = true}
local INDENT = 2

local ESCAPES = {
    ['\0'] = '\\0', ['\a'] = '\\a', ['\b'] = '\\b', ['\t'] = '\\t', ['\n'] = '\\n', ['\v'] = '\\v', ['\f'] = '\\f',
    ['\r'] = '\\r', ['\27'] = '\\e', ['"'] = '\\"', ['\\'] = '\\\\',
}

local function double_quoted(text)
    text = text:gsub('[%z\1-\31"\\\127]', function(char)
        return ESCAPES[char] or format('\\x%02X', char:byte())
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
    if not is_text(text) then
        return '!!binary ' .. base64(text)
    elseif text:find('[%z\1-\9\11-\31\127]') or text:find(' \n', 1, true) or text:find('\n ', 1, true) then
        return double_quoted(text)
    end
    return single_quoted(text, depth)
end

local function double_text(number)
    if number ~= number then
        -- Only the highest bit shows the sign of a NaN.
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

local function write_scalar(p, pos, depth)
    local tag = p[pos]
    if tag == 0xc0 or tag >= 0xc7 and tag <= 0xc9 or tag >= 0xd4 and tag <= 0xd8 then
        return 'null', skip(p, pos)
    end
    local value, after = get(OPTIONS, p, pos)
    if type(value) == 'boolean' then
        return tostring(value), after
    elseif tag >= 0xc4 and tag <= 0xc6 then
        return '!!binary ' .. (value == '' and "''" or base64(value)), after
    elseif type(value) == 'string' then
        return string_text(value, depth), after
    elseif tag == 0xca or tag == 0xcb then
        return double_text(value), after
    end
    return integer_text(value), after
end

-- Returns the number of values in the array or map at `pos`, keys included, the position of the first, and whether it
-- is a map; nil if it is neither.
local function container(p, pos)
    local count, first = array_header(p, pos)
    if count then
        return count, first, false
    end
    count, first = map_header(p, pos)
    if count then
        return 2 * count, first, true
    end
end

-- Returns the text of the MessagePack value that `p` (uint8_t *) points to. Not recursive, because tuples may be nested
-- deeper than Lua can call.
return function(p)
    local out, n, pos = {}, 0, 0
    -- For each open container: how many values are left, and whether it is a map.
    local left, is_map, depth = {}, {}, 0
    repeat
        local count, first, map = container(p, pos)
        n = n + 1
        if count and count > 0 then
            depth = depth + 1
            out[n], left[depth], is_map[depth], pos = map and '{' or '[', count, map, first
        else
            if count then
                out[n], pos = map and '{}' or '[]', first
            else
                out[n], pos = write_scalar(p, pos, depth)
            end
            while depth > 0 do
                left[depth] = left[depth] - 1
                n = n + 1
                if left[depth] > 0 then
                    out[n] = is_map[depth] and left[depth] % 2 == 1 and ': ' or ', '
                    break
                end
                out[n], depth = is_map[depth] and '}' or ']', depth - 1
            end
        end
    until depth == 0
    return concat(out)
end
