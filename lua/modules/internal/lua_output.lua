-- Values as Lua source, the console's output after `\set output lua` and `\set output lua,block`.
--
-- Separators are held back in `e.suffix` until something follows, so that the last one of a table can be
-- dropped. In block mode a value after `key = ` is not indented (`e.inline`).
local printable = require('internal.printable')
local serializer = require('internal.serializer')

local find, gsub, byte, format, rep = string.find, string.gsub, string.byte, string.format, string.rep
local classify = serializer.classify
local NIL, INTEGER, STRING, EXTENSION = serializer.NIL, serializer.INTEGER, serializer.STRING, serializer.EXTENSION
local ARRAY, MAP = serializer.ARRAY, serializer.MAP

local INDENT = 2

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function if in local nil not or repeat return then
               true until while]]):gmatch('%a+') do
    KEYWORDS[word] = true
end

local ESCAPES = {
    ["'"] = "\\'", ['"'] = '\\"', ['\0'] = '\\0', ['\a'] = '\\a', ['\b'] = '\\b', ['\f'] = '\\f', ['\v'] = '\\v',
    ['\r'] = '\\r', ['\n'] = '\\n', ['\t'] = '\\t',
}

local function escape(char)
    return ESCAPES[char] or format('\\x%02x', byte(char))
end

local function quote(text)
    if not printable.is_text(text) then
        return '"' .. printable.base64(text) .. '"'
    end
    return '"' .. gsub(text, '[%z\1-\31"\'\127-\255]', escape) .. '"'
end

local function put(e, indent, text)
    if e.suffix ~= '' then
        e.n = e.n + 1
        e[e.n] = e.suffix
        e.suffix = ''
    end
    if indent > 0 and e.block and not e.inline then
        text = rep(' ', indent) .. text
    end
    e.n = e.n + 1
    e[e.n] = text
end

local function end_value(e)
    e.suffix = e.block and ',\n' or ', '
    e.inline = false
end

local function key_text(kind, text)
    if kind == INTEGER then
        return '[' .. text .. ']'
    elseif kind == NIL then
        return 'box.NULL'
    elseif kind ~= STRING and kind ~= EXTENSION then
        return text
    elseif KEYWORDS[text] or find(text, '[^%w_]') then
        return '[' .. quote(text) .. ']'
    end
    return text
end

local write_value

-- Returns whether a table has occurred before; it then becomes {nil}, because Lua source has no references.
local function is_repeated(e, value)
    local seen = e.references[value]
    if seen == true then
        e.references[value] = 'written'
    end
    return seen == 'written'
end

local function write_items(e, indent, kind, value, size)
    if kind == ARRAY then
        for i = 1, size do
            write_value(e, indent, rawget(value, i))
        end
        return
    end
    local index = 0
    for key, item in next, value do
        local key_kind, text = classify(e.cfg, key)
        if key_kind == ARRAY or key_kind == MAP then
            write_value(e, indent, key)    -- as in Tarantool, a table as a key is an element of its own
        elseif key_kind == INTEGER and text == tostring(index) then
            e.inline = false
        else
            put(e, indent, key_text(key_kind, text))
            e.suffix = ' = '
            e.inline = true
        end
        index = index + 1
        write_value(e, indent, item)
    end
end

local function write_table(e, indent, kind, value, size)
    put(e, indent, e.block and '{\n' or '{')
    e.inline = false
    if is_repeated(e, value) then
        put(e, indent + INDENT, 'nil')
    else
        write_items(e, indent + INDENT, kind, value, size)
    end
    e.suffix = ''
    e.inline = false
    if e.block then
        put(e, 0, '\n')
    end
    put(e, indent, '}')
    end_value(e)
end

write_value = function(e, indent, item)
    local kind, value, size = classify(e.cfg, item)
    if kind == ARRAY or kind == MAP then
        return write_table(e, indent, kind, value, size)
    elseif kind == NIL then
        value = item == nil and type(item) == 'nil' and 'nil' or 'box.NULL'
    elseif kind == STRING or kind == EXTENSION then
        value = quote(value)
    end
    put(e, indent, value)
    end_value(e)
end

local function find_references(references, value)
    if type(value) ~= 'table' then
        return
    elseif references[value] ~= nil then
        references[value] = true
        return
    end
    references[value] = false
    for key, item in next, value do
        find_references(references, item)
        find_references(references, key)
    end
end

local function encode(cfg, value, block)
    local e = {cfg = cfg, block = block, n = 0, suffix = '', inline = false, references = {}}
    find_references(e.references, value)
    write_value(e, 0, value)
    return table.concat(e, '', 1, e.n)
end

return {encode = encode}
