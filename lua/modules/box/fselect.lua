-- index:fselect(), gselect() and jselect(): a select printed as a table of text.
--
-- Options come from the options of the select or from globals with the prefix `fselect_`, or from a table
-- of their own with or without it: type ('sql', 'markdown' or 'jira'), widths, max_width, print, use_nbsp.

local json = require('json')

local MIN_WIDTH, MAX_WIDTH = 5, 1000
local DEFAULT_LINE = {sql = 140, markdown = 260, jira = 260}
local TYPE_ALIASES = {gh = 'markdown', github = 'markdown', markdown = 'markdown', jira = 'jira', sql = 'sql'}
-- YAML quotes strings with spaces, but not with no-break spaces: with these a line looks the same everywhere.
local ZERO_WIDTH_SPACE, NO_BREAK_SPACE = '\226\128\139', '\194\160'

local function read_option(name, expected, options, own, default)
    local prefixed = 'fselect_' .. name
    local candidates = {own[prefixed], own[name], false, false}
    if type(options) == 'table' then
        candidates[3] = options[prefixed]
        options[prefixed] = nil
    end
    candidates[4] = rawget(_G, prefixed)
    for i = 1, 4 do
        if type(candidates[i]) == expected and candidates[i] ~= nil then
            return candidates[i]
        end
    end
    return default
end

local function read_options(options, own)
    own = type(own) == 'table' and own or {}
    local kind = TYPE_ALIASES[read_option('type', 'string', options, own, 'sql')] or 'sql'
    local widths = table.copy(read_option('widths', 'table', options, own, {}))
    local is_printed = read_option('print', 'boolean', options, own, false)
    local max_width = read_option('max_width', 'number', options, own, #widths > 0 and -1 or 0)
    return {
        kind = kind,
        widths = widths,
        max_width = max_width == 0 and DEFAULT_LINE[kind] or max_width,
        is_printed = is_printed,
        use_nbsp = not is_printed and read_option('use_nbsp', 'boolean', options, own, true),
    }
end

local function read_rows(index, key, options)
    local rows = {}
    for _, tuple in ipairs(index:select(key, options)) do
        local row = {}
        for i, value in ipairs(tuple:totable()) do
            row[i] = json.encode(value)
        end
        rows[#rows + 1] = row
    end
    return rows
end

local function column_names(format, rows)
    local count = math.max(#format, 1)
    for _, row in ipairs(rows) do
        count = math.max(count, #row)
    end
    local names = {}
    for i = 1, count do
        names[i] = format[i] and format[i].name or 'col' .. i
    end
    return names
end

-- Narrows the widest columns until a line fits.
local function fit_widths(names, rows, settings)
    local widths, total = settings.widths, #names + 1
    for i, name in ipairs(names) do
        local width = widths[i]
        if type(width) ~= 'number' then
            width = #name + (settings.kind == 'jira' and 1 or 0)
            for _, row in ipairs(rows) do
                width = math.max(width, row[i] and #row[i] or 0)
            end
        end
        widths[i] = math.min(math.max(width, MIN_WIDTH), MAX_WIDTH)
        total = total + widths[i]
    end
    while settings.max_width > 0 and total > settings.max_width do
        local widest = 1
        for i = 2, #names do
            if widths[i] >= widths[widest] then
                widest = i
            end
        end
        widths[widest] = widths[widest] - 1
        total = total - 1
    end
    return widths
end

local function cell(text, width, use_nbsp)
    local room = width - #text
    if room >= 0 then
        local left = math.floor(room / 2)
        text = (' '):rep(left) .. text .. (' '):rep(room - left)
    else
        text = text:sub(1, width)
    end
    return use_nbsp and (text:gsub('%s', NO_BREAK_SPACE)) or text
end

local function render(names, rows, widths, settings)
    local prefix = settings.use_nbsp and ZERO_WIDTH_SPACE or ''
    local lines = {}
    local function add(values, delimiter, shrink)
        local cells = {}
        for i = 1, #names do
            cells[i] = cell(values[i] or '', widths[i] - shrink, settings.use_nbsp)
        end
        lines[#lines + 1] = prefix .. delimiter .. table.concat(cells, delimiter) .. delimiter
    end
    local function rule()
        local joint = settings.kind == 'sql' and '+' or '|'
        local dashes = {}
        for i = 1, #names do
            dashes[i] = ('-'):rep(widths[i])
        end
        lines[#lines + 1] = prefix .. joint .. table.concat(dashes, joint) .. joint
    end
    local is_jira, is_sql = settings.kind == 'jira', settings.kind == 'sql'
    if is_sql then rule() end
    add(names, is_jira and '||' or '|', is_jira and 1 or 0)
    if not is_jira then rule() end
    for _, row in ipairs(rows) do
        add(row, '|', 0)
    end
    if is_sql then rule() end
    return lines
end

local M = {}

function M.fselect(index, key, options, own)
    local settings = read_options(options, own)
    local rows = read_rows(index, key, options)
    local names = column_names(box.space[index.space_id]:format(), rows)
    local lines = render(names, rows, fit_widths(names, rows, settings), settings)
    if not settings.is_printed then
        return lines
    end
    for _, line in ipairs(lines) do
        print(line)
    end
    return {}
end

local function with_type(kind)
    return function(index, key, options, own)
        own = type(own) == 'table' and own or {}
        own.type = kind
        return M.fselect(index, key, options, own)
    end
end

M.gselect, M.jselect = with_type('gh'), with_type('jira')

return M
