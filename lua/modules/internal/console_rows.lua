-- Describes the results of a statement as rows of texts, for `\set output table`.
--
-- This text is also sent to other nodes, Tarantool's too, so it only uses what every node offers to users.
--
--   describe(limit, source, ...) -> {{columns, is_number by column, rows, total}, ...}
--
-- Cells are texts or nil. The columns of a tuple are the names in its format. A tuple tells the names but not their
-- order, so its space is searched for, first among those that the statement names. At most `limit` rows of a list are
-- described; 0 means all. Successive tuples with the same columns form one table.
local MOST_SPACES = 1000

local function is_tuple(value)
    return type(value) == 'cdata' and rawget(_G, 'box') ~= nil and box.tuple.is(value)
end

local function is_null(value)
    return value == nil
end

local encode_json

local function json_text(value)
    encode_json = encode_json or require('json').new()
    encode_json.cfg{encode_use_tostring = true, encode_invalid_as_nil = true, encode_deep_as_nil = true}
    local ok, text = pcall(encode_json.encode, value)
    return ok and text or tostring(value)
end

local function number_text(value)
    if value == math.floor(value) and math.abs(value) < 1e15 then
        return ('%.0f'):format(value)
    end
    return ('%.14g'):format(value)
end

-- Returns a cell, and whether it is a number.
local function cell(value)
    local kind = type(value)
    if is_null(value) then
        return nil, nil
    elseif kind == 'string' then
        return value, false
    elseif kind == 'number' then
        return number_text(value), true
    elseif kind == 'boolean' then
        return tostring(value), false
    elseif is_tuple(value) then
        return json_text(value:totable()), false
    elseif kind == 'cdata' then
        local text = tostring(value)
        local digits = text:match('^(%-?%d+)U?LL$')
        return digits or text, digits ~= nil or tonumber(text) ~= nil
    elseif kind == 'table' then
        return json_text(value), false
    end
    return tostring(value), false
end

-- ---- names of columns -----------------------------------------------------------------------------------------

local function names_of(space)
    local ok, format = pcall(space.format, space)
    local names = {}
    for i, description in ipairs(ok and format or {}) do
        names[i] = description.name or description[1]
    end
    return names
end

local function fits(names, named)
    local count = 0
    for _ in pairs(named) do
        count = count + 1
    end
    for _, name in ipairs(names) do
        if named[name] == nil and type(named[name]) == 'nil' then
            return count == 0
        end
        count = count - 1
    end
    return count <= 0
end

local function mentioned(source)
    local found = {}
    for name in source:gmatch('box%.space%.([%a_][%w_]*)') do
        found[#found + 1] = name
    end
    for name in source:gmatch('box%.space%s*%[%s*["\']([^"\']*)') do
        found[#found + 1] = name
    end
    return found
end

-- Our own nodes know the format of a tuple, and so the names by number.
local own = package.loaded['internal.tuple']

local function own_names(tuple)
    local names = {}
    for name, number in pairs(own.format(own.format_of(tuple)) or {}) do
        names[number] = name
    end
    return names
end

-- Returns the names of the space with such tuples; of several spaces, the one with the fewest names that the tuple
-- lacks.
local function search_names(named)
    local best, seen = nil, 0
    for id, space in pairs(box.space) do
        seen = seen + 1
        if seen > MOST_SPACES then
            break
        elseif type(id) == 'number' then
            local names = names_of(space)
            if #names > 0 and fits(names, named) and (best == nil or #names < #best) then
                best = names
            end
        end
    end
    return best
end

-- Returns the names of the fields of a tuple in order; fields without a name have their number.
local function tuple_names(tuple, source, state)
    if own then
        local names = own_names(tuple)
        return #names > 0 and names or nil
    end
    local named = tuple:tomap({names_only = true})
    if next(named) == nil then
        return nil
    elseif state.names and fits(state.names, named) then
        return state.names
    end
    for _, name in ipairs(mentioned(source)) do
        local space = box.space[name]
        local names = space and names_of(space)
        if names and fits(names, named) then
            state.names = names
            return names
        end
    end
    state.names = search_names(named)
    return state.names
end

local function add_row(group, cells, width)
    local row = {}
    for i = 1, width do
        local text, is_number = cell(cells[i])
        row[i] = text
        if is_number ~= nil then
            group.seen[i] = true
            group.numeric[i] = (group.numeric[i] == nil or group.numeric[i]) and is_number
        end
    end
    group.width = math.max(group.width, width)
    group.rows[#group.rows + 1] = {width, row}
end

local function new_group(columns)
    return {columns = columns, rows = {}, numeric = {}, seen = {}, width = columns and #columns or 0, total = 0}
end

local function group_for(groups, kind, columns)
    local last = groups[#groups]
    if last and last.kind == kind and table.concat(last.columns or {}, '\0') == table.concat(columns or {}, '\0') then
        return last
    end
    local group = new_group(columns)
    group.kind = kind
    groups[#groups + 1] = group
    return group
end

local function add_tuple(groups, tuple, source, state)
    local group = group_for(groups, 'tuple', tuple_names(tuple, source, state))
    local values = tuple:totable()
    group.total = group.total + 1
    if state.limit == 0 or #group.rows < state.limit then
        add_row(group, values, #tuple)
    end
end

-- ---- tables -----------------------------------------------------------------------------------------------------

local function is_list(value)
    local count = 0
    for _ in pairs(value) do
        count = count + 1
    end
    return count > 0 and count == #value or (count == 0 and debug.getmetatable(value) ~= nil)
end

local function sorted_keys(map)
    local keys = {}
    for key in pairs(map) do
        keys[#keys + 1] = key
    end
    table.sort(keys, function(left, right) return tostring(left) < tostring(right) end)
    return keys
end

local function shown(value)
    local meta = type(value) == 'table' and debug.getmetatable(value)
    local serialize = type(meta) == 'table' and rawget(meta, '__serialize')
    if type(serialize) == 'function' then
        local ok, result = pcall(serialize, value)
        return ok and result or value
    end
    return value
end

local function add_map(groups, map)
    local group = new_group({'key', 'value'})
    for _, key in ipairs(sorted_keys(map)) do
        add_row(group, {key, shown(map[key])}, 2)
        group.total = group.total + 1
    end
    groups[#groups + 1] = group
end

local function columns_of_maps(list, most)
    local all = {}
    for i = 1, most do
        for key in pairs(list[i]) do
            all[key] = true
        end
    end
    return sorted_keys(all)
end

local function add_list(groups, list, source, state)
    local most = state.limit == 0 and #list or math.min(#list, state.limit)
    local first = list[1]
    if is_tuple(first) then
        for i = 1, most do
            if is_tuple(list[i]) then
                add_tuple(groups, list[i], source, state)
            else
                add_row(group_for(groups, 'value', {'value'}), {list[i]}, 1)
            end
        end
        groups[#groups].total = groups[#groups].total + #list - most
        return
    end
    local is_maps = most > 0
    for i = 1, most do
        is_maps = is_maps and type(list[i]) == 'table' and not is_list(list[i])
    end
    local columns = is_maps and columns_of_maps(list, most)
    local group = new_group(columns or nil)
    for i = 1, most do
        local item, cells = list[i], {}
        if columns then
            for j, key in ipairs(columns) do
                cells[j] = item[key]
            end
            add_row(group, cells, #columns)
        elseif type(item) == 'table' and is_list(item) then
            add_row(group, item, #item)
        else
            add_row(group, {item}, 1)
        end
    end
    group.total = #list
    groups[#groups + 1] = group
end

-- Describes the result of box.execute for a query.
local function is_query_result(value)
    return type(rawget(value, 'metadata')) == 'table' and type(rawget(value, 'rows')) == 'table'
end

local function add_query_result(groups, result, state)
    local columns = {}
    for i, column in ipairs(result.metadata) do
        columns[i] = column.name
    end
    local group = new_group(columns)
    for i, row in ipairs(result.rows) do
        if state.limit ~= 0 and i > state.limit then
            break
        end
        add_row(group, is_tuple(row) and row:totable() or row, #columns)
    end
    group.total = #result.rows
    groups[#groups + 1] = group
end

local function add(groups, value, source, state)
    value = not is_tuple(value) and shown(value) or value
    if is_tuple(value) then
        add_tuple(groups, value, source, state)
    elseif type(value) ~= 'table' then
        local group = group_for(groups, 'value', {'value'})
        add_row(group, {value}, 1)
        group.total = group.total + 1
    elseif is_query_result(value) then
        add_query_result(groups, value, state)
    elseif is_list(value) then
        add_list(groups, value, source, state)
    elseif next(value) == nil then
        groups[#groups + 1] = new_group(nil)
    else
        add_map(groups, value)
    end
end

local function finished(group)
    local columns, numeric, rows = {}, {}, {}
    for i = 1, group.width do
        local name = group.columns and group.columns[i]
        columns[i] = name ~= nil and tostring(name) or tostring(i)
        numeric[i] = group.numeric[i] == true
    end
    for i, entry in ipairs(group.rows) do
        local row = {}
        for j = 1, group.width do
            row[j] = entry[2][j] == nil and box.NULL or entry[2][j]
        end
        rows[i] = row
    end
    return {columns, numeric, rows, group.total}
end

local M = {}

function M.describe(limit, source, ...)
    local groups, state, result = {}, {limit = limit}, {}
    for i = 1, select('#', ...) do
        add(groups, (select(i, ...)), source, state)
    end
    for i, group in ipairs(groups) do
        result[i] = finished(group)
    end
    return result
end

-- Runs and describes a statement in one request. Returns {true, groups} or {false, text}.
function M.run(limit, source)
    local chunk, problem = loadstring('return ' .. source)
    if not chunk then
        chunk, problem = loadstring(source)
    end
    local function finish(ok, ...)
        if not ok then
            return {false, tostring((...))}
        end
        return {true, M.describe(limit, source, ...)}
    end
    if not chunk then
        return {false, problem}
    end
    return finish(pcall(chunk))
end

-- Runs and describes a statement of SQL.
function M.run_sql(limit, source)
    local ok, result, problem = pcall(box.execute, source)
    if not ok or problem ~= nil then
        return {false, tostring(ok and problem or result)}
    end
    return {true, M.describe(limit, source, result)}
end

return M
