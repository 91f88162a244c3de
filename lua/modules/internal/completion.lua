-- Completion of names at the console: globals, members of tables and of what their metatables' __index names.
-- No metamethod is run, so that completion has no effects. Tuples offer methods and the fields named by a format.
local tuples = require('internal.tuple')

local MAX_INDEX_DEPTH = 20
local MAX_CANDIDATES = 500
local WORDS = {
    'and', 'break', 'do', 'else', 'elseif', 'end', 'false', 'for', 'function', 'if', 'in', 'local', 'nil', 'not',
    'or', 'repeat', 'return', 'then', 'true', 'until', 'while',
}

-- Returns a table of the names of the fields of a tuple; its metatable leads to the methods.
local function tuple_members(tuple)
    local members = {}
    for name in pairs(tuples.format(tuples.format_of(tuple)) or {}) do
        members[name] = true
    end
    return setmetatable(members, {__index = tuples.methods})
end

local function index_table(value)
    if tuples.is(value) then
        return tuple_members(value)
    end
    local meta = debug.getmetatable(value)
    local index = type(meta) == 'table' and rawget(meta, '__index') or nil
    return type(index) == 'table' and index ~= value and index or nil
end

-- Reads a field without running a metamethod.
local function raw_field(value, name)
    for _ = 1, MAX_INDEX_DEPTH do
        if type(value) == 'table' and rawget(value, name) ~= nil then
            return rawget(value, name)
        end
        value = index_table(value)
        if value == nil then
            return nil
        end
    end
end

local function add_members(found, scope, prefix, partial, methods_only)
    local seen = 0
    for _ = 1, MAX_INDEX_DEPTH do
        if type(scope) == 'table' then
            for name, value in next, scope do
                seen = seen + 1
                if seen > MAX_CANDIDATES then
                    return
                end
                local is_function = type(value) == 'function'
                if type(name) == 'string' and name:sub(1, #partial) == partial and name:find('^[%a_][%w_]*$')
                        and (name:sub(1, 1) ~= '_' or partial:sub(1, 1) == '_')
                        and (is_function or not methods_only) then
                    found[#found + 1] = prefix .. name .. (is_function and '(' or '')
                end
            end
        end
        scope = index_table(scope)
        if scope == nil then
            return
        end
    end
end

-- Returns the candidates for the word `text` (such as `box.sp`), a list whose first element is their common
-- prefix; nothing if there are none. The positions are those of the word in its line.
local function completion_handler(text, from, to)
    text = text:sub(1, (to or #text) - (from or 0))
    if text ~= '' and not text:find('^[%a_]') then
        return nil
    end
    local scope, start, mark = _G, 1, nil
    for position, separator in text:gmatch('()([.:])') do
        scope = raw_field(scope, text:sub(start, position - 1))
        if scope == nil then
            return nil
        end
        start, mark = position + 1, separator
    end
    local found, partial = {}, text:sub(start)
    if start == 1 and partial ~= '' then
        for _, word in ipairs(WORDS) do
            if word:sub(1, #partial) == partial then
                found[#found + 1] = word .. ' '
            end
        end
    end
    add_members(found, scope, text:sub(1, start - 1), partial, mark == ':')
    if #found == 0 then
        return nil
    end
    local common = found[1]
    for _, name in ipairs(found) do
        while name:sub(1, #common) ~= common do
            common = common:sub(1, -2)
        end
    end
    table.insert(found, 1, common)
    return found
end

return completion_handler
