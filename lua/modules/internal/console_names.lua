-- Names that a console completes and explains: members of tables, names of the dictionary, signatures of functions.
--
-- This text is also sent to other nodes, Tarantool's too, so it only uses what every node offers to users. It runs no
-- metamethod, so that it has no effects. Of too many names it returns the first by the alphabet.
--
--   members(path, is_method, partial, limit) -> {class, total, {{name, kind}, ...}}
--   names(what, partial, limit, path)        -> {what, total, {{name, what}, ...}}
--   sql_names(partial, tables, limit)        -> {'', total, {{name, kind}, ...}}: the tables, and the columns of the
--                                               tables that `tables` names; letters match whatever their case
--   signature(path)                          -> {full name, parameters | nil, comment | nil, place | nil}
--   spaces(limit)                            -> {total, {{name, id, engine, tuples, indexes}, ...}}: the user's spaces
--   space(name)                              -> {name, id, engine, tuples, {note, ...}, {{field, type, note}, ...},
--                                                {{index, type, note, parts}, ...}}; false if there is none
--
-- A path is a list of names, the first one a global.
local DEPTH = 20
local MOST_LINES = 20000

local function index_of(value)
    local meta = debug.getmetatable(value)
    local index = type(meta) == 'table' and rawget(meta, '__index') or nil
    return type(index) == 'table' and index ~= value and index or nil
end

local function is_space(value)
    return type(value) == 'table' and rawget(value, 'engine') ~= nil and type(rawget(value, 'index')) == 'table'
end

local function is_index(value)
    return type(value) == 'table' and rawget(value, 'space_id') ~= nil and type(rawget(value, 'parts')) == 'table'
end

-- Returns 'space', 'index', 'tuple' or 'fiber' for an object of such a class, else nothing.
local function class_of(value)
    if is_space(value) then
        return 'space'
    elseif is_index(value) then
        return 'index'
    elseif type(value) == 'cdata' and rawget(_G, 'box') and box.tuple.is and box.tuple.is(value) then
        return 'tuple'
    elseif type(value) == 'userdata' and tostring(value):find('^fiber: ') then
        return 'fiber'
    end
end

-- Returns box.info or box.stat with all fields, which they only make when they are called.
local function read_whole(value)
    if rawget(_G, 'box') and (value == rawget(box, 'info') or value == rawget(box, 'stat')) then
        local ok, whole = pcall(value)
        return ok and whole or value
    end
    return value
end

local function field(value, name)
    value = read_whole(value)
    local number = tonumber(name)
    for _ = 1, DEPTH do
        if type(value) == 'table' then
            local found = rawget(value, name)
            if found == nil and number then
                found = rawget(value, number)
            end
            if found ~= nil then
                return found
            end
        end
        value = index_of(value)
        if value == nil then
            return nil
        end
    end
end

local function resolve(path)
    local value = _G
    for i = 1, #path do
        value = field(value, path[i])
        if value == nil then
            return nil
        end
    end
    return value
end

-- Collects the first `limit` names by the alphabet. Most of many names cost two comparisons: the description of a name
-- is only made once it is among the first.
local function selection(partial, limit)
    local names, values, total, worst = {}, {}, 0, nil
    local length, byte, sub, type = #partial, string.byte, string.sub, type
    local hides = byte(partial) ~= 95
    local self = {}
    local function shorten(count)
        table.sort(names)
        for i = #names, count + 1, -1 do
            values[names[i]], names[i] = nil, nil
        end
        worst = names[count]
    end
    -- Adds a name. One with an initial underscore is only offered once the underscore is typed.
    function self.add(name, value)
        if type(name) ~= 'string' or hides and byte(name) == 95 or length > 0 and sub(name, 1, length) ~= partial then
            return
        end
        total = total + 1
        if (worst == nil or name < worst) and values[name] == nil then
            names[#names + 1], values[name] = name, value
            if #names >= 4 * limit then
                shorten(limit)
            end
        end
    end
    -- `describe(name, value)` returns the kind, nil for a name to skip.
    function self.result(what, describe)
        shorten(#names)
        local list = {}
        for _, name in ipairs(names) do
            local kind = values[name]
            if describe then
                kind = describe(name, kind)
            end
            if kind == nil then
                total = total - 1
            elseif #list < limit then
                list[#list + 1] = {name, kind}
            end
        end
        return {what, total, list}
    end
    return self
end

local function kind_of(value)
    local kind = type(value)
    if kind == 'table' then
        local meta = debug.getmetatable(value)
        return class_of(value) or type(meta) == 'table' and rawget(meta, '__call') and 'function' or 'table'
    end
    return kind == 'function' and kind or 'value'
end

local function is_identifier(name)
    return type(name) == 'string' and name:find('^[%a_][%w_]*$') ~= nil
end

local M = {}

function M.members(path, is_method, partial, limit)
    local scope, chosen = resolve(path), selection(partial, limit)
    if scope == nil then
        return chosen.result('')
    end
    local class = class_of(scope)
    if class == 'tuple' then
        for name in pairs(scope:tomap({names_only = true})) do
            chosen.add(name, 'field')
        end
        return chosen.result(class)
    end
    scope = read_whole(scope)
    for _ = 1, DEPTH do
        if type(scope) == 'table' then
            local add = chosen.add
            for name, value in next, scope do
                add(name, value)
            end
        end
        scope = index_of(scope)
        if scope == nil then
            break
        end
    end
    return chosen.result(class or '', function(name, value)
        local kind = is_identifier(name) and kind_of(value) or nil
        return (kind == 'function' or not is_method) and kind or nil
    end)
end

-- ---- names in strings ---------------------------------------------------------------------------------------

local function from_space(id, number, kind, wanted)
    return function(add)
        for _, tuple in box.space[id]:pairs() do
            if wanted == nil or tuple[5] == wanted then
                add(tuple[number], kind)
            end
        end
    end
end

local USER_VIEW, SEQUENCE_VIEW, FUNCTION_VIEW = '_vuser', '_vsequence', '_vfunc'

local sources = {
    user = from_space(USER_VIEW, 3, 'user'),
    role = from_space(USER_VIEW, 3, 'role'),
    sequence = from_space(SEQUENCE_VIEW, 3, 'sequence'),
    ['function'] = from_space(FUNCTION_VIEW, 3, 'function'),
}

-- Adds the names of spaces. It reads the table box.space, because reading ten thousand tuples would take too long.
function sources.space(add)
    for name in next, box.space do
        add(name, 'space')
    end
end

-- Makes a source of names of users or roles; the type in the tuple tells them apart.
local function accounts(kind)
    return function(add)
        for _, tuple in box.space[USER_VIEW]:pairs() do
            if tuple[4] == kind then
                add(tuple[3], kind)
            end
        end
    end
end
sources.user, sources.role = accounts('user'), accounts('role')

function sources.module(add)
    for name in next, package.loaded do
        if type(name) == 'string' and not name:find('^internal%.') and not name:find('^box%.') and name ~= '_G' then
            add(name, 'module')
        end
    end
    for name in ([[buffer clock console crypto csv datetime decimal digest errno fiber fio fun http.client iconv json key_def log
                   merger msgpack net.box pickle popen pwd socket strict swim tap tarantool title uri utf8 uuid xlog
                   yaml]]):gmatch('%S+') do
        add(name, 'module')
    end
end

function sources.injection(add)
    for name in next, box.error.injection.info() do
        add(name, 'injection')
    end
end

function sources.option(add)
    for name in next, type(box.cfg) == 'table' and box.cfg or {} do
        add(name, 'option')
    end
end

function sources.index(add, path)
    local space = resolve(path)
    if is_space(space) then
        for name in next, space.index do
            add(name, 'index')
        end
    end
end

function sources.field(add, path)
    local space = resolve(path)
    if is_space(space) then
        for _, description in ipairs(space:format()) do
            add(description.name or description[1], 'field')
        end
    end
end

function M.names(what, partial, limit, path)
    local chosen = selection(partial, limit)
    for kind in what:gmatch('%S+') do
        if sources[kind] then
            pcall(sources[kind], chosen.add, path or {})
        end
    end
    return chosen.result(what)
end

function M.sql_names(partial, tables, limit)
    local wanted, upper = {}, partial:upper()
    for _, name in ipairs(tables) do
        wanted[name] = true
    end
    local chosen = selection(partial:sub(1, 1) == '_' and '_' or '', limit)
    local function add(name, kind)
        if type(name) == 'string' and name:sub(1, #partial):upper() == upper then
            chosen.add(name, kind)
        end
    end
    for id, space in next, rawget(_G, 'box') and type(box.cfg) == 'table' and box.space or {} do
        if type(id) == 'number' then
            add(space.name, 'table')
            for _, description in ipairs(wanted[space.name] and space:format() or {}) do
                add(description.name or description[1], 'column')
            end
        end
    end
    return chosen.result('')
end

-- ---- signatures -----------------------------------------------------------------------------------------------

local function parameters_of(run)
    local info, list = debug.getinfo(run, 'uS'), {}
    if info.what == 'C' then
        return nil
    end
    for i = 1, info.nparams or 0 do
        list[i] = debug.getlocal(run, i)
    end
    if info.isvararg then
        list[#list + 1] = '...'
    end
    return list
end

-- Returns the lines of a source text or file up to a number; nothing for a long file.
local function lines_until(source, last)
    local lines = {}
    if last > MOST_LINES then
        return lines
    elseif source:sub(1, 1) ~= '@' then
        for line in source:gmatch('([^\n]*)\n?') do
            lines[#lines + 1] = line
            if #lines >= last then
                break
            end
        end
        return lines
    end
    local file = io.open(source:sub(2), 'r')
    if file then
        for line in file:lines() do
            lines[#lines + 1] = line
            if #lines >= last then
                break
            end
        end
        file:close()
    end
    return lines
end

-- Returns the first sentence of the comment above a function.
local function comment_of(info)
    local lines, first = lines_until(info.source, info.linedefined - 1), nil
    for i = math.min(#lines, info.linedefined - 1), 1, -1 do
        local text = lines[i]:match('^%s*%-%-+%s*(.-)%s*$')
        if text == nil then
            break
        end
        first = first and text .. ' ' .. first or text
    end
    return first and (first:match('^(.-%.)%s') or first) or nil
end

local function module_of(value)
    for name, loaded in next, package.loaded do
        if loaded == value and type(name) == 'string' then
            return name == '_G' and '' or name
        end
    end
end

local function full_name(path)
    local parent, name = {unpack(path, 1, #path - 1)}, path[#path]
    local owner = #parent == 0 and _G or resolve(parent)
    local class = class_of(owner)
    if class then
        return class .. ':' .. name
    end
    local module = type(owner) == 'table' and module_of(owner)
    if module then
        return module == '' and name or module .. '.' .. name
    end
    return table.concat(path, '.')
end

function M.signature(path)
    local found, result = resolve(path), {full_name(path)}
    if type(found) ~= 'function' or debug.getinfo(found, 'S').source:sub(1, 9) == '@builtin/' then
        result[2] = found ~= nil and true or nil
        return result
    end
    local info = debug.getinfo(found, 'S')
    result[2] = parameters_of(found) or {'...'}
    if info.what ~= 'C' then
        local ok, comment = pcall(comment_of, info)
        result[3] = ok and comment or ''
        result[4] = ('%s:%d'):format(info.source:sub(1, 1) == '@' and info.short_src or 'console', info.linedefined)
    end
    return result
end

-- ---- spaces -------------------------------------------------------------------------------------------------

local FIRST_OF_USERS = 512

local function count_of(space)
    local ok, count = pcall(space.len, space)
    return ok and tonumber(count) or nil
end

-- Returns the indexes of a space, each once, although the table has each under its number and its name.
local function indexes_of(space)
    local list = {}
    for number, index in next, space.index do
        if type(number) == 'number' then
            list[#list + 1] = index
        end
    end
    table.sort(list, function(left, right) return left.id < right.id end)
    return list
end

function M.spaces(limit)
    local list, total = {}, 0
    local spaces = rawget(_G, 'box') and type(box.cfg) == 'table' and box.space or {}
    for id, space in next, spaces do
        if type(id) == 'number' and id >= FIRST_OF_USERS then
            total = total + 1
            list[total] = space
        end
    end
    table.sort(list, function(left, right) return left.name < right.name end)
    for i, space in ipairs(list) do
        list[i] = i <= limit and {space.name, space.id, space.engine, count_of(space), #indexes_of(space)} or nil
    end
    return {total, list}
end

local function notes(...)
    local list = {}
    for i = 1, select('#', ...) do
        local note = select(i, ...)
        if note then
            list[#list + 1] = note
        end
    end
    return list
end

local function parts_of(index, names)
    local texts = {}
    for i, part in ipairs(index.parts) do
        texts[i] = table.concat(notes(
            tostring(names[part.fieldno] or part.fieldno) .. (part.path and '.' .. part.path:gsub('^%.', '') or ''),
            part.type, part.is_nullable and 'nullable', part.collation
        ), ' ')
    end
    return table.concat(texts, ', ')
end

function M.space(name)
    local spaces = rawget(_G, 'box') and type(box.cfg) == 'table' and box.space or {}
    local space = rawget(spaces, name)
    if space == nil then
        return false
    end
    local fields, names, indexes = {}, {}, {}
    for i, field in ipairs(space:format()) do
        names[i] = field.name or field[1]
        fields[i] = {
            tostring(names[i]), tostring(field.type or field[2] or 'any'),
            table.concat(notes(field.is_nullable and 'nullable', field.collation and tostring(field.collation)), ', '),
        }
    end
    for i, index in ipairs(indexes_of(space)) do
        indexes[i] = {
            index.name, index.type, table.concat(notes(
                index.id == 0 and 'primary', index.id ~= 0 and index.unique and 'unique',
                index.sequence_id and 'sequence'
            ), ', '), parts_of(index, names),
        }
    end
    return {
        space.name, space.id, space.engine, count_of(space),
        notes(space.temporary and 'temporary', space.is_local and 'local', space.is_sync and 'synchronous'),
        fields, indexes,
    }
end

return M
