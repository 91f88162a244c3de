-- Scalars and output primitives of the YAML emitter. internal/yaml_emitter.lua describes the state `e`.
local printable = require('internal.printable')
local serializer = require('internal.serializer')

local find, sub, gsub, byte, rep, format = string.find, string.sub, string.gsub, string.byte, string.rep, string.format
local char_of, tonumber = string.char, tonumber
local band, bor = bit.band, bit.bor
local is_text, base64 = printable.is_text, printable.base64
local STRING, EXTENSION = serializer.STRING, serializer.EXTENSION

local WIDTH = 80
local INDENT = 2

-- Count -> as many spaces, made on first use.
local SPACES = setmetatable({}, {__index = function(made, count)
    made[count] = rep(' ', count)
    return made[count]
end})

-- ---- output primitives ----------------------------------------------------------------------

local function put(e, text, columns)
    local n = e.n + 1
    e.n = n
    e[n] = text
    e.column = e.column + columns
end

local function characters(text)
    local count = 0
    for position = 1, #text do
        local code = byte(text, position)
        if code < 128 or code > 191 then
            count = count + 1
        end
    end
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
        put(e, SPACES[indent - e.column], indent - e.column)
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

-- Writes `-`, `?` or `:` of block style, after which the line still counts as indentation: `- - 1`.
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

-- The classes of the bytes of a text, as bits. The loop over the bytes is compiled, so it is much faster than a search
-- with a pattern. Patterns are used only if these bits say that they may find something.
local LETTER, DIGIT, HIGH, CONTROL, LINE_FEED, RETURN, SPACE, INDICATOR, APOSTROPHE = 1, 2, 4, 8, 16, 32, 64, 128, 256
local CLASSES_BY_PATTERN = {
    {'[%a_]', LETTER}, {'%d', DIGIT}, {'[\128-\255]', HIGH}, {'\n', LINE_FEED}, {'\r', RETURN}, {'[%z\1-\31\127]', CONTROL},
    {' ', SPACE}, {"'", INDICATOR + APOSTROPHE}, {'[#,%[%]{}&*!|>"%%@`?:.%-]', INDICATOR}, {'.', 0},
}

local function class_of(char)
    for _, class in ipairs(CLASSES_BY_PATTERN) do
        if find(char, class[1]) then
            return class[2]
        end
    end
end

local BYTE_CLASSES = {}
for code = 0, 255 do
    BYTE_CLASSES[code] = class_of(char_of(code))
end

local function classes_of(text)
    local classes = 0
    for position = 1, #text do
        classes = bor(classes, BYTE_CLASSES[byte(text, position)])
    end
    return classes
end

-- Returns the width of the line end at a position, if one is there: a line feed or a Unicode separator.
local function line_end_at(text, position)
    local code = byte(text, position)
    if code == 10 then
        return 1
    elseif code == 226 and byte(text, position + 1) == 128 then
        local last = byte(text, position + 2)
        return (last == 168 or last == 169) and 3 or nil
    end
end

-- Returns the position of the next line end.
local function find_line_end(text, position)
    for at = position, #text do
        local code = byte(text, at)
        if (code == 10 or code == 226) and line_end_at(text, at) then
            return at
        end
    end
end

-- Returns whether a text (of valid and printable characters) has an end of a line.
local function find_break(text, classes)
    return band(classes, LINE_FEED + RETURN) ~= 0 or band(classes, HIGH) ~= 0 and find_line_end(text, 1) ~= nil
end

local LINE_SEPARATORS = {'\226\128\168', '\226\128\169'}

-- Returns whether indicator characters rule out plain style: in any context, and in flow context.
local function has_indicators(text)
    if find(text, '^[#,%[%]{}&*!|>\'"%%@`]') or find(text, '^%-%-%-') or find(text, '^%.%.%.')
            or find(text, '^%-[%s%z]') or text == '-' or find(text, '^[?:][%s%z]') or find(text, '^[?:]$')
            or find(text, '.:[%s%z]') or find(text, '.:$') or find(text, '[%s%z]#') then
        return true
    end
    return false
end

-- Returns whether one byte stands before another somewhere in a text, before any zero byte if `ends_at_zero`.
local function find_pair(text, first, second, ends_at_zero)
    local before
    for position = 1, #text do
        local code = byte(text, position)
        if before == first and code == second then
            return true
        elseif code == 0 and ends_at_zero then
            return false
        end
        before = code
    end
    return false
end

-- Returns what the characters of a string allow: block_plain, single, literal, multiline.
local function analyze(text, classes)
    local special = band(classes, CONTROL + RETURN) ~= 0
    local multiline = find_break(text, classes)
    local first = byte(text, 1)
    local leading, trailing_space = first == 32 or first == 10, byte(text, #text) == 32
    local break_space, space_break = false, false
    if multiline then
        local flat = text
        if band(classes, HIGH) ~= 0 then
            for _, separator in ipairs(LINE_SEPARATORS) do
                flat = gsub(flat, separator, '\n')
            end
            first = byte(flat, 1)
            leading = first == 32 or first == 10
        end
        break_space, space_break = find_pair(flat, 10, 32), find_pair(flat, 32, 10)
    end
    local unfit = space_break or special
    return {
        multiline = multiline,
        plain = not (unfit or multiline or leading or trailing_space
            or band(classes, INDICATOR) ~= 0 and has_indicators(text)),
        single = not (unfit or break_space),
        literal = not (unfit or trailing_space),
    }
end

-- ---- scalars: styles ------------------------------------------------------------------------

-- Writes a line of a text, where single spaces beyond the width become line ends. The first and the last character of a
-- quoted text are kept; `is_first` and `is_last` say that they are in this line. What goes unbroken is written at once.
local function put_folded(e, line, is_first, is_last)
    local position, size, start, columns = 1, #line, 1, 0
    while position <= size do
        local code = byte(line, position)
        if code == 32 then
            local last = position
            while byte(line, last + 1) == 32 do
                last = last + 1
            end
            if last == position and e.column + columns > WIDTH
                    and not (is_first and position == 1 or is_last and position == size) then
                put(e, sub(line, start, position - 1), columns)
                e.indention = false
                write_indent(e)
                start, columns = position + 1, 0
            else
                columns = columns + last - position + 1
            end
            position = last + 1
        else
            if code < 128 or code > 191 then
                columns = columns + 1
            end
            position = position + 1
        end
    end
    put(e, sub(line, start), columns)
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

-- Returns the first and the last position of the next run of line ends.
local function find_breaks(text, position)
    local from = find_line_end(text, position)
    if not from then
        return nil
    end
    local to = from - 1
    while true do
        local width = line_end_at(text, to + 1)
        if width == nil then
            return from, to
        end
        to = to + width
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

local function write_single(e, text, allow_breaks, multiline, classes)
    write_indicator(e, "'", true)
    if band(classes, APOSTROPHE) ~= 0 then
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

-- Returns whether a character is not printed: a control, a line end, a surrogate, or no character at all.
local function is_escaped(code)
    if code < 0xA0 then
        return code < 32 or code == 34 or code == 92 or code >= 127
    end
    return code == 0x2028 or code == 0x2029 or code >= 0xD800 and code <= 0xDFFF or code == 0xFEFF
        or code == 0xFFFE or code == 0xFFFF
end

local function write_double(e, text, allow_breaks)
    write_indicator(e, '"', true)
    -- text[start..position - 1], of `columns` characters, is not written yet.
    local position, size, start, columns = 1, #text, 1, 0
    local after_space = false
    while position <= size do
        local code, width = code_point(text, position)
        local breaks = code == 32 and allow_breaks and not after_space and e.column + columns > WIDTH
            and position > 1 and position < size
        if breaks or is_escaped(code) then
            put(e, sub(text, start, position - 1), columns)
            start, columns = position + width, 0
            if breaks then
                e.indention = false
                write_indent(e)
                if byte(text, position + 1) == 32 then
                    put(e, '\\', 1)
                end
            else
                local escaped = escape(code)
                put(e, escaped, #escaped)
            end
        else
            columns = columns + 1
        end
        after_space = code == 32
        position = position + width
    end
    put(e, sub(text, start), columns)
    write_indicator(e, '"', false)
end

-- Returns the indentation hint of a literal block and its end: `-` for no line end, `+` for several.
local function literal_hints(text)
    local indent = (byte(text, 1) == 32 or find_breaks(text, 1) == 1) and '2' or ''
    local size = #text
    local last = line_end_at(text, size) or line_end_at(text, size - 2) == 3 and 3
    if not last then
        return indent .. '-'
    end
    local rest = size - last
    if rest == 0 or line_end_at(text, rest) or line_end_at(text, rest - 2) == 3 then
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

-- The bytes with which a text that Lua converts to a number may begin: digits, signs, a point, white space, and the
-- letters of `inf` and `nan`.
local MAY_BEGIN_NUMBER = {}
for code in ('0123456789+-. \t\n\v\f\rinIN'):gmatch('.') do
    MAY_BEGIN_NUMBER[byte(code)] = true
end

local function is_reserved(text)
    if RESERVED[text] then
        return true
    end
    return MAY_BEGIN_NUMBER[byte(text, 1)] and (tonumber(text) ~= nil or find(text, '^[+-]?0[bB][01]+$') ~= nil
        -- LuaJIT refuses exponents of six digits, the C library takes them for infinite.
        or find(text, '^[+-]?%d+%.?%d*[eE][+-]?%d+$') ~= nil or find(text, '^[+-]?%.%d+[eE][+-]?%d+$') ~= nil)
end

-- Returns whether a text is one of the frequent simple cases, as in `- name` and `key: value`.
local function is_simple_word(text, classes)
    return (classes == LETTER or classes == LETTER + DIGIT) and BYTE_CLASSES[byte(text, 1)] == LETTER
        and not is_reserved(text)
end

local function write_binary(e, text)
    write_indicator(e, '!!binary', true)
    write_plain(e, base64(text), false)
end

local function choose_quoted(e, text, shape, is_key, classes)
    if shape.single and not (is_key and shape.multiline) then
        write_single(e, text, not is_key, shape.multiline, classes)
    else
        write_double(e, text, not is_key)
    end
end

local function write_string(e, text, is_key)
    local quoted, classes = e.flow > 0, classes_of(text)
    if not quoted and is_simple_word(text, classes) then
        return write_plain(e, text, false)
    end
    if is_reserved(text) then
        quoted = true
    elseif band(classes, HIGH) ~= 0 and not is_text(text) then
        return write_binary(e, text)
    end
    if text == '' then
        if quoted or is_key then
            return write_single(e, text, false, false, classes)
        end
        return write_plain(e, text, false)
    end
    local shape = analyze(text, classes)
    local has_paragraphs = not quoted and band(classes, LINE_FEED) ~= 0 and find_pair(text, 10, 10, true)
    if has_paragraphs and not is_key and shape.literal then
        return write_literal(e, text)
    elseif has_paragraphs then
        return write_double(e, text, not is_key)
    elseif quoted or not shape.plain then
        return choose_quoted(e, text, shape, is_key, classes)
    end
    return write_plain(e, text, not is_key)
end

local function write_scalar(e, kind, text, is_key)
    local saved = increase_indent(e, true, false)
    if kind == STRING then
        write_string(e, text, is_key)
    elseif kind == EXTENSION and e.flow > 0 and find(text, '[,:]') then
        write_single(e, text, not is_key, false, classes_of(text))
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
    classes_of = classes_of,
    is_simple_word = is_simple_word,
    find_break = find_break,
}
