-- Lua values to YAML text, in the form the peer's emitter gives them: width 80, indent 2,
-- unicode unescaped, tuples and hinted tables in flow style, everything else in block style.
--
-- The state of one document is a table `e`:
--   e[1..e.n]     pieces of the text           e.column      characters in the open line
--   e.indent      of the innermost collection  e.flow        depth of flow collections
--   e.whitespace  the last thing written ends in white space (no separator is needed)
--   e.indention   the line holds only indentation and `-`, `?` or `:` indicators
--   e.references  table -> false (seen once), true (seen more often), or its anchor's name
-- A scalar's style depends on its characters and on where it stands (flow, map key).
local printable = require('internal.printable')
local serializer = require('internal.serializer')

local find, sub, gsub, byte, rep, format = string.find, string.sub, string.gsub, string.byte, string.rep, string.format
local next, type, tonumber, rawget, concat = next, type, tonumber, rawget, table.concat
local classify = serializer.classify
local is_text, base64 = printable.is_text, printable.base64
local NIL, STRING, ARRAY, MAP = serializer.NIL, serializer.STRING, serializer.ARRAY, serializer.MAP

local WIDTH = 80
local INDENT = 2
local MAX_KEY_LENGTH = 128    -- longer keys get the explicit form `? key`
local MAX_DEPTH = 4000        -- a __serialize that nests for ever is an error, not an overflow

-- ---- output primitives ----------------------------------------------------------------------

local function put(e, text, columns)
    local n = e.n + 1
    e.n = n
    e[n] = text
    e.column = e.column + columns
end

local function characters(text)
    if not find(text, '[\128-\255]') then
        return #text
    end
    local _, count = gsub(text, '[^\128-\191]', '')
    return count
end

local function put_break(e)
    put(e, '\n', 0)
    e.column = 0
end

local function write_indent(e)
    local indent = e.indent > 0 and e.indent or 0
    if not e.indention or e.column > indent or (e.column == indent and not e.whitespace) then
        put_break(e)
    end
    if e.column < indent then
        put(e, rep(' ', indent - e.column), indent - e.column)
    end
    e.whitespace = true
    e.indention = true
end

local function separate(e)
    if not e.whitespace then
        put(e, ' ', 1)
    end
end

-- An indicator that ends a token: a separator is needed before what follows it.
local function write_indicator(e, text, spaced)
    if spaced and not e.whitespace then
        put(e, ' ', 1)
    end
    put(e, text, #text)
    e.whitespace = false
    e.indention = false
end

-- `-`, `?` and `:` of block style keep the line's indentation open: `- - 1`.
local function write_block_indicator(e, text)
    separate(e)
    put(e, text, 1)
    e.whitespace = false
end

local function open_bracket(e, text)
    separate(e)
    put(e, text, 1)
    e.whitespace = true
    e.indention = false
end

local function increase_indent(e, flow, indentless)
    local saved = e.indent
    if saved < 0 then
        e.indent = flow and INDENT or 0
    elseif not indentless then
        e.indent = saved + INDENT
    end
    return saved
end

-- ---- scalars: analysis ----------------------------------------------------------------------

-- Bytes 0xC2-0xEF open printable characters, with holes checked in `has_special`.
local function has_special(text)
    if find(text, '[%z\1-\9\11-\31\127\240-\255]') then
        return true
    end
    if not find(text, '[\128-\255]') then
        return false
    end
    return find(text, '\194[\128-\159]') ~= nil or find(text, '\237[\160-\191]') ~= nil
        or find(text, '\239\187\191', 1, true) ~= nil or find(text, '\239\191[\190\191]') ~= nil
end

local LINE_SEPARATORS = {'\226\128\168', '\226\128\169'}

local function find_break(text)
    if find(text, '[\r\n]') or find(text, '\194\133', 1, true) then
        return true
    end
    return find(text, '\226\128[\168\169]') ~= nil
end

-- Indicator characters that end plain style: in any context, and in flow context.
local function has_indicators(text)
    if find(text, '^[#,%[%]{}&*!|>\'"%%@`]') or find(text, '^%-%-%-') or find(text, '^%.%.%.')
            or find(text, '^%-[%s%z]') or text == '-' or find(text, '^[?:][%s%z]') or find(text, '^[?:]$')
            or find(text, '.:[%s%z]') or find(text, '.:$') or find(text, '[%s%z]#') then
        return true
    end
    return false
end

-- What the characters of a string allow: block_plain, single, literal, multiline.
local function analyze(text)
    local special = has_special(text)
    local multiline = find_break(text)
    local leading = find(text, '^[ \n]') ~= nil
    local trailing_space = find(text, ' $') ~= nil
    local break_space, space_break = false, false
    if multiline then
        local flat = text
        for _, separator in ipairs(LINE_SEPARATORS) do
            flat = gsub(flat, separator, '\n')
        end
        leading = find(flat, '^[ \n]') ~= nil
        break_space = find(flat, '\n ', 1, true) ~= nil
        space_break = find(flat, ' \n', 1, true) ~= nil
        trailing_space = find(flat, ' $') ~= nil
    end
    local unfit = space_break or special
    return {
        multiline = multiline,
        plain = not (unfit or multiline or leading or trailing_space or has_indicators(text)),
        single = not (unfit or break_space),
        literal = not (unfit or trailing_space),
    }
end

-- ---- scalars: styles ------------------------------------------------------------------------

-- text[position..stop], where single spaces become line ends past the width; a quoted text
-- keeps its first and its last character.
local function put_folded(e, text, position, stop, quoted)
    local size = #text
    while position <= stop do
        local space = find(text, ' ', position, true)
        if not space or space > stop then
            break
        end
        if space > position then
            local word = sub(text, position, space - 1)
            put(e, word, characters(word))
        end
        local last = space
        while last < stop and byte(text, last + 1) == 32 do
            last = last + 1
        end
        local at_edge = quoted and (space == 1 or space == size)
        if last == space and e.column > WIDTH and not at_edge then
            e.indention = false
            write_indent(e)
        else
            put(e, rep(' ', last - space + 1), last - space + 1)
        end
        position = last + 1
    end
    if position <= stop then
        local word = sub(text, position, stop)
        put(e, word, characters(word))
    end
end

local function put_words(e, text, allow_breaks, quoted)
    local columns = characters(text)
    if not allow_breaks or e.column + columns <= WIDTH then
        put(e, text, columns)
    else
        put_folded(e, text, 1, #text, quoted)
    end
end

local function end_scalar(e)
    e.whitespace = false
    e.indention = false
end

local function write_plain(e, text, allow_breaks)
    separate(e)
    put_words(e, text, allow_breaks, false)
    end_scalar(e)
end

-- The first and the last position of the next run of line breaks.
local function find_breaks(text, position)
    local from = find(text, '\n', position, true)
    local separator = find(text, '\226\128[\168\169]', position)
    if not from or (separator and separator < from) then
        from = separator
    end
    if not from then
        return nil
    end
    local to = from - 1
    while true do
        if byte(text, to + 1) == 10 then
            to = to + 1
        elseif find(text, '^\226\128[\168\169]', to + 1) then
            to = to + 3
        else
            return from, to
        end
    end
end

-- A run of breaks inside single quotes begins with one line feed more than it has, and what
-- follows it is indented.
local function put_lines(e, text)
    local position, size = 1, #text
    while position <= size do
        local from, to = find_breaks(text, position)
        put_folded(e, text, position, (from or size + 1) - 1, true)
        if not from then
            return
        end
        if byte(text, from) == 10 then
            put_break(e)
        end
        put(e, sub(text, from, to), 0)
        e.column = 0
        e.indention = true
        write_indent(e)
        e.indention = false
        position = to + 1
    end
end

local function write_single(e, text, allow_breaks, multiline)
    write_indicator(e, "'", true)
    if find(text, "'", 1, true) then
        text = gsub(text, "'", "''")
    end
    if multiline then
        put_lines(e, text)
    else
        put_words(e, text, allow_breaks, true)
    end
    write_indicator(e, "'", false)
end

local ESCAPES = {
    [0] = '\\0', [7] = '\\a', [8] = '\\b', [9] = '\\t', [10] = '\\n', [11] = '\\v', [12] = '\\f', [13] = '\\r',
    [27] = '\\e', [34] = '\\"', [92] = '\\\\', [0x85] = '\\N', [0xA0] = '\\_', [0x2028] = '\\L', [0x2029] = '\\P',
}

local function code_point(text, position)
    local first = byte(text, position)
    if first < 0x80 then
        return first, 1
    elseif first < 0xE0 then
        return first % 32 * 64 + byte(text, position + 1) % 64, 2
    elseif first < 0xF0 then
        return (first % 16 * 64 + byte(text, position + 1) % 64) * 64 + byte(text, position + 2) % 64, 3
    end
    return ((first % 8 * 64 + byte(text, position + 1) % 64) * 64 + byte(text, position + 2) % 64) * 64
        + byte(text, position + 3) % 64, 4
end

local function escape(code)
    if ESCAPES[code] then
        return ESCAPES[code]
    elseif code <= 0xFF then
        return format('\\x%02X', code)
    elseif code <= 0xFFFF then
        return format('\\u%04X', code)
    end
    return format('\\U%08X', code)
end

local function is_escaped(char, code)
    return code == 34 or code == 92 or (code ~= 10 and has_special(char)) or find_break(char)
end

local function write_double(e, text, allow_breaks)
    write_indicator(e, '"', true)
    local position, size = 1, #text
    local after_space = false
    while position <= size do
        local code, width = code_point(text, position)
        local char = sub(text, position, position + width - 1)
        if is_escaped(char, code) then
            local escaped = escape(code)
            put(e, escaped, #escaped)
            after_space = false
        elseif code == 32 then
            if allow_breaks and not after_space and e.column > WIDTH and position > 1 and position < size then
                e.indention = false
                write_indent(e)
                if byte(text, position + 1) == 32 then
                    put(e, '\\', 1)
                end
            else
                put(e, char, 1)
            end
            after_space = true
        else
            put(e, char, 1)
            after_space = false
        end
        position = position + width
    end
    write_indicator(e, '"', false)
end

-- Indentation hint and chomping of a literal block: `-` no line end at its end, `+` several.
local function literal_hints(text)
    local indent = (find(text, '^ ') or find_breaks(text, 1) == 1) and tostring(INDENT) or ''
    local flat = gsub(text, '\226\128[\168\169]', '\n')
    if not find(flat, '\n$') then
        return indent .. '-'
    elseif flat == '\n' or find(flat, '\n\n$') then
        return indent .. '+'
    end
    return indent
end

local function write_literal(e, text)
    write_indicator(e, '|' .. literal_hints(text), true)
    put_break(e)
    e.indention = true
    e.whitespace = true
    local position, size = 1, #text
    while position <= size do
        local from, to = find_breaks(text, position)
        from, to = from or size + 1, to or size
        if from > position then
            write_indent(e)
            local line = sub(text, position, from - 1)
            put(e, line, characters(line))
            e.indention = false
        end
        if to >= from then
            put(e, sub(text, from, to), 0)
            e.column = 0
            e.indention = true
        end
        position = to + 1
    end
end

-- ---- scalars: choice ------------------------------------------------------------------------

local RESERVED = {['~'] = true, null = true, ['true'] = true, ['false'] = true, yes = true, no = true}

local function is_reserved(text)
    return RESERVED[text] or tonumber(text) ~= nil
end

-- `- name`, `key: value`: the frequent case, told by one pattern.
local function is_simple_word(text)
    return find(text, '^[%a_][%w_]*$') ~= nil and not is_reserved(text)
end

local function write_binary(e, text)
    write_indicator(e, '!!binary', true)
    write_plain(e, base64(text), false)
end

local function choose_quoted(e, text, shape, is_key)
    if shape.single and not (is_key and shape.multiline) then
        write_single(e, text, not is_key, shape.multiline)
    else
        write_double(e, text, not is_key)
    end
end

local function write_string(e, text, is_key)
    local quoted = e.flow > 0
    if not quoted and is_simple_word(text) then
        return write_plain(e, text, false)
    end
    if is_reserved(text) then
        quoted = true
    elseif not is_text(text) then
        return write_binary(e, text)
    end
    if text == '' then
        if quoted or is_key then
            return write_single(e, text, false, false)
        end
        return write_plain(e, text, false)
    end
    local shape = analyze(text)
    if not quoted and not is_key and shape.literal and find(text, '^[^%z]*\n\n') then
        return write_literal(e, text)
    elseif not quoted and find(text, '^[^%z]*\n\n') then
        return write_double(e, text, not is_key)
    elseif quoted or not shape.plain then
        return choose_quoted(e, text, shape, is_key)
    end
    return write_plain(e, text, not is_key)
end

local function write_scalar(e, kind, text, is_key)
    local saved = increase_indent(e, true, false)
    if kind == STRING then
        write_string(e, text, is_key)
    else
        write_plain(e, text, false)
    end
    e.indent = saved
end

-- ---- collections ----------------------------------------------------------------------------

local write_node

-- Anchors: `&0` before the first appearance of a table that is met again, `*0` instead of it then.
-- True if the alias was the whole node.
local function write_anchor(e, value)
    local name = e.references[value]
    if not name then
        return false
    elseif name ~= true then
        write_indicator(e, '*' .. name, true)
        return true
    end
    name = tostring(e.anchors)
    e.anchors = e.anchors + 1
    e.references[value] = name
    write_indicator(e, '&' .. name, true)
    return false
end

local function flow_item(e, first)
    if not first then
        write_indicator(e, ',', false)
    end
    if e.column > WIDTH then
        write_indent(e)
    end
end

local function close_flow(e, text, saved)
    e.flow = e.flow - 1
    e.indent = saved
    write_indicator(e, text, false)
end

local function write_flow_array(e, value, size)
    open_bracket(e, '[')
    local saved = increase_indent(e, true, false)
    e.flow = e.flow + 1
    for i = 1, size do
        flow_item(e, i == 1)
        write_node(e, false, false, classify(e.cfg, rawget(value, i)))
    end
    close_flow(e, ']', saved)
end

local function write_block_array(e, value, size, in_map)
    local saved = increase_indent(e, false, in_map and not e.indention)
    for i = 1, size do
        write_indent(e)
        write_block_indicator(e, '-')
        write_node(e, false, false, classify(e.cfg, rawget(value, i)))
    end
    e.indent = saved
end

-- A key may stand before a plain `:` when it is short, of one line and not a filled collection.
local function is_simple_key(e, kind, value, size)
    if kind == ARRAY then
        return size == 0 or type(e.references[value]) == 'string'
    elseif kind == MAP then
        return next(value) == nil or type(e.references[value]) == 'string'
    elseif kind ~= STRING or is_simple_word(value) then
        return #value <= MAX_KEY_LENGTH
    elseif not is_text(value) then
        return math.ceil(#value / 3) * 4 + #'!!binary' <= MAX_KEY_LENGTH
    end
    return #value <= MAX_KEY_LENGTH and not find_break(value)
end

local function write_flow_map(e, map)
    open_bracket(e, '{')
    local saved = increase_indent(e, true, false)
    e.flow = e.flow + 1
    local first = true
    for key, item in next, map do
        flow_item(e, first)
        first = false
        local kind, value, size, compact = classify(e.cfg, key)
        if is_simple_key(e, kind, value, size) then
            write_node(e, true, true, kind, value, size, compact)
            write_indicator(e, ':', false)
        else
            write_indicator(e, '?', true)
            write_node(e, true, false, kind, value, size, compact)
            if e.column > WIDTH then
                write_indent(e)
            end
            write_indicator(e, ':', true)
        end
        write_node(e, true, false, classify(e.cfg, item))
    end
    close_flow(e, '}', saved)
end

local function write_block_map(e, map)
    local saved = increase_indent(e, false, false)
    for key, item in next, map do
        write_indent(e)
        local kind, value, size, compact = classify(e.cfg, key)
        if is_simple_key(e, kind, value, size) then
            write_node(e, true, true, kind, value, size, compact)
            write_indicator(e, ':', false)
        else
            write_block_indicator(e, '?')
            write_node(e, true, false, kind, value, size, compact)
            write_indent(e)
            write_block_indicator(e, ':')
        end
        write_node(e, true, false, classify(e.cfg, item))
    end
    e.indent = saved
end

-- in_map: the node is a key or value of a map; is_key: it stands before `:` on the same line.
write_node = function(e, in_map, is_key, kind, value, size, compact)
    if kind ~= ARRAY and kind ~= MAP then
        return write_scalar(e, kind, value, is_key)
    end
    if write_anchor(e, value) then
        return
    end
    e.depth = e.depth + 1
    if e.depth > MAX_DEPTH then
        error('Too high nest level', 0)
    end
    local flow = compact or e.flow > 0
    if kind == ARRAY then
        if flow or size == 0 then
            write_flow_array(e, value, size)
        else
            write_block_array(e, value, size, in_map)
        end
    elseif flow or next(value) == nil then
        write_flow_map(e, value)
    else
        write_block_map(e, value)
    end
    e.depth = e.depth - 1
end

-- ---- documents ------------------------------------------------------------------------------

local function find_references(references, value)
    local seen = references[value]
    if seen ~= nil then
        references[value] = true
        return
    end
    references[value] = false
    for key, item in next, value do
        if type(item) == 'table' then
            find_references(references, item)
        end
        if type(key) == 'table' then
            find_references(references, key)
        end
    end
end

-- One document with `value`, from `---` to `...`. A tag is a pair like
-- `!push!` and `tag:tarantool.io/push,2018`.
local function encode(cfg, value, tag_handle, tag_prefix)
    local e = {
        cfg = cfg, n = 0, column = 0, indent = -1, flow = 0, whitespace = true, indention = true,
        references = {}, anchors = 0, depth = 0,
    }
    if type(value) == 'table' then
        find_references(e.references, value)
    end
    if tag_handle then
        put(e, format('%%TAG %s %s\n', tag_handle, tag_prefix), 0)
    end
    write_indicator(e, '---', false)
    write_node(e, false, false, classify(cfg, value))
    write_indent(e)
    put(e, '...\n', 0)
    return concat(e, '', 1, e.n)
end

return {encode = encode}
