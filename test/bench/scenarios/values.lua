-- Makers of values with n parts, by name, and of spaces with n tuples, for the scenarios of growth.lua.
local function list(make)
    return function(n)
        local result = {}
        for i = 1, n do result[i] = make(i) end
        return result
    end
end

local values = {
    integers = list(function(i) return i end),
    doubles = list(function(i) return i + 0.5 end),
    strings = list(function(i) return 'text ' .. i end),
    quoted = list(function(i) return 'a "text"\t' .. i end),
    lists = list(function(i) return {i, 'a', true} end),
    maps = list(function(i) return {id = i, name = 'text'} end),
    bigints = list(function(i) return 2ULL ^ 40 * i end),
    nulls = list(function() return box.NULL end),
    tuples = list(function(i) return box.tuple.new{i, 'text'} end),
    decimals = list(function(i) return require('decimal').new(i) / 100 end),
    uuids = list(function() return require('uuid').new() end),
    errors = list(function(i) return box.error.new(box.error.UNKNOWN) end),
    objects = list(function(i)
        return setmetatable({i}, {__serialize = function(self) return {value = self[1]} end})
    end),
    lines = list(function(i) return 'first line ' .. i .. '\nsecond line' end),
    paragraphs = list(function(i) return 'first line ' .. i .. '\n\nsecond line\n' end),
    binaries = list(function(i) return '\xff\xfe' .. i end),
}

function values.map(n)
    local result = {}
    for i = 1, n do result['key' .. i] = i end
    return result
end

function values.text(n) return ('some words '):rep(n) end
function values.word(n) return ('x'):rep(10 * n) end
function values.unicode(n) return ('слово '):rep(n) end
function values.escapes(n) return ('a\t"b"\\ '):rep(n) end
function values.document(n) return ('one line of a text\n'):rep(n) end
function values.indented(n) return ('  one: line of a text\n\n'):rep(n) end
function values.bytes(n) return ('\xff\1\2\3\254 '):rep(n) end
function values.shared(n)
    local part = {1, 2}
    return list(function() return part end)(n)
end

-- Makes a space of n tuples; returns the function that is timed, `use(space, n)`, and one that drops the space.
local function with_space(n, use, secondary)
    local space = box.schema.space.create('growth')
    space:create_index('pk')
    if secondary then space:create_index('sk', {parts = {2, 'string'}, unique = false}) end
    box.begin()
    for id = 1, n do space:insert{id, 'name of ' .. id % 10} end
    box.commit()
    return function() return use(space, n) end, function() space:drop() end
end

return {list = list, values = values, with_space = with_space}
