-- require('csv'): comma-separated values. Options: delimiter, quote_char, skip_head_lines; chunk_size of reads from an
-- object with a method `read`.
local log = require('log')

local error, pairs, string, tostring, type = error, pairs, string, tostring, type

local CHUNK_SIZE = 4096
local READ_USAGE = 'Usage: load(string or object with method read(num)returns string)'

local function read_chunk(state)
    local size, chunk = state.chunk_size, ''
    if state.readable then
        chunk = state.readable:read(size)
    end
    local length = string.len(chunk)    -- raises the error for what is no text
    if type(chunk) ~= 'string' then
        error(("bad argument #2 to 'csv_feed' (cannot convert '%s' to 'const char *')"):format(type(chunk)))
    end
    state.is_complete = length == 0
    return chunk
end

-- Adds chunks to the text that is left, until one can end a record. An empty chunk is the end.
local function read_more(state)
    local parts, chunk = {state.text:sub(state.position)}, nil
    repeat
        chunk = read_chunk(state)
        parts[#parts + 1] = chunk
    until state.is_complete or chunk:find(state.special)
    state.text, state.position = table.concat(parts), 1
end

local function literal(char)
    return (char:gsub('%W', '%%%0'))
end

-- Returns the text of the quoted part that begins at `position`, and its end; nil if it does not end. As in Tarantool,
-- two quotes outside of a quoted part are a quote, not an empty part.
local function read_quoted(text, position, quote)
    local first = text:sub(position, position)
    if first == quote or first == '' then
        return first, position + #first
    end
    local parts = {}
    while true do
        local found = text:find(quote, position, true)
        if found == nil then
            return nil
        end
        parts[#parts + 1] = text:sub(position, found - 1)
        if text:sub(found + 1, found + 1) ~= quote then
            return table.concat(parts), found + 1
        end
        parts[#parts + 1] = quote
        position = found + 2
    end
end

-- Adds an unquoted part to a field. Spaces around a field do not belong to it; spaces between quotes do.
local function add_plain(field, part)
    if field.text == '' and field.quoted == 0 then
        part = part:gsub('^ +', '')
    end
    field.text = field.text .. part
end

local function finished(field)
    local tail = field.text:sub(field.quoted + 1):gsub(' +$', '')
    return field.text:sub(1, field.quoted) .. tail
end

local function new_field()
    return {text = '', quoted = 0}
end

-- Returns the fields of the record at `position`, and the place of its line end or nil; nil if a quote does not end.
local function read_record(text, position, format)
    local fields, field = {}, new_field()
    while true do
        local found = text:find(format.special, position)
        add_plain(field, text:sub(position, (found or #text + 1) - 1))
        local char = found and text:sub(found, found)
        if char == format.quote and char ~= format.delimiter then
            local part
            part, position = read_quoted(text, found + 1, format.quote)
            if part == nil then
                return nil
            end
            field.text = field.text .. part
            field.quoted = #field.text
        else
            fields[#fields + 1] = finished(field)
            if char ~= format.delimiter then
                return fields, found
            end
            field, position = new_field(), found + 1
        end
    end
end

-- Skips the second byte of the last line end, if it has two, and makes sure that there is text unless the source has
-- ended. The two bytes may come in any order, and in two chunks.
local function begin_record(state)
    while true do
        if state.position > #state.text and not state.is_complete then
            read_more(state)
        end
        local pair = state.line_end and state.line_end .. state.text:sub(state.position, state.position)
        if pair and #pair == 1 then
            return
        end
        state.line_end = nil
        if pair ~= '\r\n' and pair ~= '\n\r' then
            return
        end
        state.position = state.position + 1
    end
end

-- Returns the next record, read with as many chunks as it takes; nil at the end.
local function next_record(state)
    begin_record(state)
    while state.position <= #state.text do
        local fields, line_end = read_record(state.text, state.position, state)
        if line_end then
            state.line_end, state.position = state.text:sub(line_end, line_end), line_end + 1
            return fields
        elseif state.is_complete then
            if fields == nil then
                log.warn('CSV file has errors')
            end
            state.position = #state.text + 1
            return fields
        end
        read_more(state)
    end
end

local function step(state, number)
    for fields in next_record, state do
        number = number + 1
        if number > 0 then
            return number, fields
        end
    end
end

-- Sets what the options lack; as in Tarantool, in the table of the user.
local function complete(opts)
    opts.delimiter = opts.delimiter or ','
    opts.quote_char = opts.quote_char or '"'
end

-- Returns the separators of the options: as in Tarantool, only the first byte of a text counts.
local function separators(opts)
    local delimiter, quote = string.byte(opts.delimiter), string.byte(opts.quote_char)
    if delimiter == nil or quote == nil then
        error("cannot convert 'nil' to 'char'")
    end
    return string.char(delimiter), string.char(quote)
end

-- Iterates over the records: for i, fields in csv.iterate(text) do.
local function iterate(readable, opts)
    opts = opts or {}
    if type(readable) ~= 'string' and type(readable.read) ~= 'function' then
        error(READ_USAGE)
    end
    opts.chunk_size = opts.chunk_size or CHUNK_SIZE
    complete(opts)
    opts.skip_head_lines = opts.skip_head_lines or 0
    local first, rest = readable, nil
    if type(readable) ~= 'string' then
        first, rest = readable:read(opts.chunk_size), readable
        if not first then
            error(READ_USAGE)
        end
    end
    local delimiter, quote = separators(opts)
    local state = {
        position = 1, delimiter = delimiter, quote = quote, chunk_size = opts.chunk_size,
        special = '[\r\n' .. literal(delimiter) .. literal(quote) .. ']',
        readable = {read = function() return first end},
    }
    state.text, state.readable = read_chunk(state), rest
    return step, state, -opts.skip_head_lines
end

local function load(readable, opts)
    local result = {}
    for i, fields in iterate(readable, opts) do
        result[i] = fields
    end
    return result
end

-- Like Tarantool, doubles quotes in every field, but encloses only fields that contain a delimiter or a line end, and
-- ends a field before a zero byte.
local function escape(value, delimiter, quote)
    local text = tostring(value):match('^[^%z]*')
    local doubled = text:gsub(literal(quote), ((quote .. quote):gsub('%%', '%%%%')))
    if text:find(delimiter, 1, true) or text:find('[\r\n]') then
        return quote .. doubled .. quote
    end
    return doubled
end

-- Returns the text of a table of records, or of one record. With `writable`, an object with a method `write`, writes it
-- there instead.
local function dump(records, opts, writable)
    opts = opts or {}
    complete(opts)
    if (writable ~= nil and type(writable.write) ~= 'function') or type(records) ~= 'table' then
        error('Usage: dump(table[, opts, writable])')
    end
    local delimiter, quote = separators(opts)
    local lines = {}
    for _, record in pairs(type(records[1]) == 'table' and records or {records}) do
        local fields = {}
        for _, value in pairs(record) do
            fields[#fields + 1] = escape(value, delimiter, quote)
        end
        local line = table.concat(fields, opts.delimiter) .. '\n'
        if writable then
            writable:write(line)
        else
            lines[#lines + 1] = line
        end
    end
    if not writable then
        return table.concat(lines)
    end
end

return {iterate = iterate, load = load, dump = dump}
