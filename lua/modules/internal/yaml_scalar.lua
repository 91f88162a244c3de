-- Scalars and output primitives of the YAML emitter. internal/yaml_emitter.lua describes the state `e`.
local printable = require('internal.printable')
local serializer = require('internal.serializer')

local find, sub, gsub, byte, rep, format = string.find, string.sub, string.gsub, string.byte, string.rep, string.format
local tonumber = tonumber
local is_text, base64 = printable.is_text, printable.base64
local STRING, EXTENSION = serializer.STRING, serializer.EXTENSION

local WIDTH = 80
local INDENT = 2

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

-- Writes an indicator that ends a token, so that a separator is needed after it.
local function write_indicator(e, text, spaced)
    if spaced and not e.whitespace then
        put(e, ' ', 1)
    end
    put(e, text, #text)
    e.whitespace = false
    e.indention = false
end

-- After `-`, `?` and `:` of block style the line still counts as indentation: `- - 1`.
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

-- The bytes 0xC2-0xF4 begin printable characters; `has_special` checks the exceptions.
local function has_special(text)
    if find(text, '[%z\1-\9\11-\31\127]') then
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

-- Indicator characters that rule plain style out: in any context, and in flow context.
local function has_indicators(text)
    if find(text, '^[#,%[%]{}&*!|>\'"%%@`]') or find(text, '^%-%-%-') or find(text, '^%.%.%.')
            or find(text, '^%-[%s%z]') or text == '-' or find(text, '^[?:][%s%z]') or find(text, '^[?:]$')
            or find(text, '.:[%s%z]') or find(text, '.:$') or find(text, '[%s%z]#') then
        return true
    end
    return false
end

-- Returns what the characters of a string allow: block_plain, single, literal, multiline.
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

-- Writes a line of a text, where single spaces beyond the width become line ends. The first and the last character of a
-- quoted text are kept; `is_first` and `is_last` say that they are in this line.
local function put_folded(e, line, is_first, is_last)
    local position, size = 1, #line
    while position <= size do
        local space = find(line, ' ', position, true)
        if not space then
            break
        end
        if space > position then
            local word = sub(line, position, space - 1)
            put(e, word, characters(word))
        end
        local last = space
        while last < size and byte(line, last + 1) == 32 do
            last = last + 1
        end
        local at_edge = is_first and space == 1 or is_last and space == size
        if last == space and e.column > WIDTH and not at_edge then
            e.indention = false
            write_indent(e)
        else
            put(e, rep(' ', last - space + 1), last - space + 1)
        end
        position = last + 1
    end
    if position <= size then
        local word = sub(line, position)
        put(e, word, characters(word))
    end
end

local function put_words(e, text, allow_breaks, quoted)
    local columns = characters(text)
    if not allow_breaks or e.column + columns <= WIDTH then
        put(e, text, columns)
    else
        put_folded(e, text, quoted, quoted)
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

-- Returns the position of the next line end: a line feed or a Unicode separator.
local function find_line_end(text, position)
    while true do
        position = find(text, '[\n\226]', position)
        if not position or byte(text, position) == 10 or find(text, '^\128[\168\169]', position + 1) then
            return position
        end
        position = position + 1
    end
end

-- Returns the first and the last position of the next run of line ends.
local function find_breaks(text, position)
    local from = find_line_end(text, position)
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

-- Writes a run of line ends inside single quotes: one line feed more than the run has, and the text
-- after it indented.
local function put_lines(e, text)
    local position, size = 1, #text
    while position <= size do
        local from, to = find_breaks(text, position)
        local stop = (from or size + 1) - 1
        put_folded(e, sub(text, position, stop), position == 1, stop == size)
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
        local _, plain = find(text, '^[!#-%[%]-~]+', position)
        if plain then
            put(e, sub(text, position, plain), plain - position + 1)
            after_space = false
            position = plain + 1
            if position > size then
                break
            end
        end
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

-- Writes the indentation hint of a literal block and its end: `-` for no line end, `+` for several.
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
    return RESERVED[text] or tonumber(text) ~= nil or find(text, '^[+-]?0[bB][01]+$') ~= nil
end

-- Recognises the frequent cases, such as `- name` and `key: value`, by one pattern.
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
    elseif kind == EXTENSION and e.flow > 0 and find(text, '[,:]') then
        write_single(e, text, not is_key, false)
    else
        -- Of these values only an interval contains spaces.
        write_plain(e, text, not is_key)
    end
    e.indent = saved
end

return {
    WIDTH = WIDTH,
    put = put,
    write_indent = write_indent,
    write_indicator = write_indicator,
    write_block_indicator = write_block_indicator,
    open_bracket = open_bracket,
    increase_indent = increase_indent,
    write_scalar = write_scalar,
    is_simple_word = is_simple_word,
    find_break = find_break,
}
