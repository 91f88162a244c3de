-- Random Lua values for comparisons: value(depth). The seed is fixed, so that a difference comes back.
math.randomseed(20210401)
local random = math.random

local WORDS = {
    'a', 'foo', 'true', 'no', 'null', '~', '-', '--- x', '...', '- a', 'a: b', 'a:b', ': x', "it's", '"q"', '\\',
    '#c', 'a #b', 'x,y', '[1]', '{', '?', '? a', '%x', '@', '`', '&a', '*b', '!t', '|', '>', '1', '1.5', '0x10',
    ' 1', '1 ', 'inf', 'nan', 'off', 'None', '', ' ', '  ', 'é', '日本', '\t', '\r', '\n', '\n\n', 'a\nb',
    'a\n\nb', '\n a', ' \na', 'a\n', 'a \n', '\0', '\1', '\127', '\194\133', '\226\128\168', '\255', '\239\187\191',
    '\194\160', 'lorem ipsum dolor', '<tuple>', '1e5', '12345678901234567890', 'tail  double', 'trail ',
}
local PROSE = {'lorem', 'ipsum', 'dolor', 'sit', 'amet', "it's", 'x'}
local SCALARS = {
    1, -5, 1.5, 2 ^ 53, 2 ^ 63, 1e20, -2 ^ 63, 0 / 0, 1 / 0, -1 / 0, true, false, box.NULL, 5LL, -7LL,
    18446744073709551615ULL, 0.1, 1e-7, 123456789012345678,
}
local HINTS = {'seq', 'map', 'mapping', 'sequence', 'array'}
local SEPARATORS = {'', ' ', ' ', '  '}
local shared = {1, {2}}

local function words(list, count, separator)
    local result = {}
    for i = 1, count do
        result[i] = list[random(#list)]
    end
    return table.concat(result, separator)
end

local function text()
    local kind = random(10)
    if kind <= 5 then
        return WORDS[random(#WORDS)]
    elseif kind <= 7 then
        return words(PROSE, random(30), ' ')
    end
    return words(WORDS, random(kind == 10 and 40 or 4), SEPARATORS[random(4)])
end

local function scalar()
    return random(2) == 1 and text() or SCALARS[random(#SCALARS)]
end

local value

local function key(plain)
    if random(3) == 1 then
        return random(20)
    elseif plain or random(20) > 1 then
        return text()
    end
    local result = value(1)
    if type(result) == 'number' and (result ~= result or result > 30) then
        return 1
    end
    return result == nil and 1 or result
end

-- Makes a random value. In a flow collection (`hinted`) every collection asks for flow style, because Tarantool takes
-- the first string of one that does not ask for block style.
value = function(depth, hinted, plain)
    local kind = random(10)
    if depth <= 0 or kind <= 4 then
        return scalar()
    elseif kind == 5 and random(4) == 1 and not hinted then
        return shared
    end
    local hint = (hinted or random(2) == 1) and HINTS[hinted and random(2) or random(#HINTS)]
    hinted = hinted or hint == 'seq' or hint == 'map'
    local result = {}
    if kind <= 7 then
        for i = 1, random(0, 6) do
            result[i] = value(depth - 1, hinted, plain)
        end
    else
        for _ = 1, random(0, 4) do
            result[key(plain or hinted)] = value(depth - 1, hinted, plain)
        end
    end
    return hint and setmetatable(result, {__serialize = hint}) or result
end

return value
