-- require('csv'): comma-separated values. Options: delimiter, quote_char, skip_head_lines; chunk_size of reads from an
-- object with a method `read`.
local log = require('log')

local error, pairs, tostring, type = error, pairs, tostring, type

local CHUNK_SIZE = 4096
local READ_USAGE = 'Usage: load(string or object with method read(num)returns string)'

local function read_all(readable, size)
    if type(readable) == 'string' then
        return readable
    elseif type(readable.read) ~= 'function' then
        error(READ_USAGE)
    end
    local parts = {}
    while true do
        local part = readable:read(size)
        if part == nil and #parts == 0 then
            error(READ_USAGE)
        elseif part == nil or part == '' then
            return table.concat(parts)
        end
        parts[#parts + 1] = part
    end
end

local function literal(char)
    return (char:gsub('%W', '%%%0'))
end

-- Returns the text of the quoted part that begins at `position`, and its end; nil if it does not end.
local function read_quoted(text, position, quote)
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

local function after_line_end(text, position)
    return text:sub(position, position + 1) == '\r\n' and position + 2 or position + 1
end

-- Returns the fields of the record at `position` and the position of the next one; nil if a quote does not end.
local function read_record(text, position, format)
    local fields, field = {}, new_field()
    while true do
        local found = text:find(format.special, position)
        add_plain(field, text:sub(position, (found or #text + 1) - 1))
        local char = found and text:sub(found, found)
        if char == format.quote then
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
                return fields, found and after_line_end(text, found) or #text + 1
            end
            field, position = new_field(), found + 1
        end
    end
end

local function step(state, number)
    while state.position <= #state.text do
        local fields, after = read_record(state.text, state.position, state)
        if fields == nil then
            log.warn('CSV file has errors')
            return nil
        end
        state.position, number = after, number + 1
        if number > 0 then
            return number, fields
        end
    end
end

-- Returns the byte of an option; a number is the byte itself. As in Tarantool, only the first byte of a text counts.
local function separator(value)
    if value == '' then
        error("cannot convert 'nil' to 'char'", 3)
    end
    return type(value) == 'number' and string.char(value % 256) or value:sub(1, 1)
end

local function separators(opts)
    return separator(opts.delimiter or ','), separator(opts.quote_char or '"')
end

-- Iterates over the records: for i, fields in csv.iterate(text) do.
local function iterate(readable, opts)
    opts = opts or {}
    local delimiter, quote = separators(opts)
    local state = {
        text = read_all(readable, opts.chunk_size or CHUNK_SIZE), position = 1,
        delimiter = delimiter, quote = quote, special = '[\r\n' .. literal(delimiter) .. literal(quote) .. ']',
    }
    return step, state, -(opts.skip_head_lines or 0)
end

local function load(readable, opts)
    local result = {}
    for i, fields in iterate(readable, opts) do
        result[i] = fields
    end
    return result
end

-- Like Tarantool, doubles quotes in every field, but encloses only fields that contain a delimiter or a line end.
local function escape(value, delimiter, quote)
    local text = tostring(value)
    local doubled = text:gsub(literal(quote), ((quote .. quote):gsub('%%', '%%%%')))
    if text:find(delimiter, 1, true) or text:find('[\r\n]') then
        return quote .. doubled .. quote
    end
    return doubled
end

-- Returns the text of a table of records, or of one record. With `target`, an object with a method `write`, writes it
-- there instead.
local function dump(records, opts, target)
    if type(records) ~= 'table' or (target ~= nil and type(target.write) ~= 'function') then
        error('Usage: dump(table[, opts, writable])')
    end
    opts = opts or {}
    local delimiter, quote = opts.delimiter or ',', opts.quote_char or '"'
    local lines = {}
    for _, record in pairs(type(records[1]) == 'table' and records or {records}) do
        local fields = {}
        for _, value in pairs(record) do
            fields[#fields + 1] = escape(value, delimiter, quote)
        end
        local line = table.concat(fields, delimiter) .. '\n'
        if target then
            target:write(line)
        else
            lines[#lines + 1] = line
        end
    end
    return not target and table.concat(lines) or nil
end

return {iterate = iterate, load = load, dump = dump}
