-- Strings, tables and functional programming.
local scenario, _, given = ...
local values = given.values
local fun = require('fun')

local function text_scenario(name, size, use)
    scenario('string.' .. name, size, function(n)
        local text = ('word,'):rep(n)
        return function() return use(text, n) end
    end)
end

text_scenario('split', 300, function(text) return text:split(',') end)
text_scenario('split_blank', 300, function(text) return (' ' .. text):split() end)
text_scenario('strip', 300, function(text) return (text .. (' '):rep(#text)):strip() end)
text_scenario('rstrip_chars', 300, function(text) return text:rstrip(',') end)
text_scenario('hex', 300, function(text) return text:hex():fromhex() end)
text_scenario('ljust', 300, function(text, n) return text:ljust(10 * n) end)
text_scenario('center', 300, function(text, n) return text:center(10 * n) end)
text_scenario('startswith', 300, function(text) return text:startswith(text) end)
text_scenario('endswith', 300, function(text) return text:endswith(text) end)
text_scenario('dostring', 100, function(text, n) return dostring(('local a = 1 '):rep(1) .. ('a = a + 1 '):rep(n)) end)

local function nested(depth)
    return depth == 0 and {} or {nested(depth - 1)}
end

scenario('table.copy', 300, function(n)
    local value = values.maps(n)
    return function() return table.copy(value) end
end)
scenario('table.deepcopy', 300, function(n)
    local value = values.maps(n)
    return function() return table.deepcopy(value) end
end)
scenario('table.deepcopy_shared', 300, function(n)
    local value = values.shared(n)
    return function() return table.deepcopy(value) end
end)
scenario('table.deepcopy_deep', 10, function(n)
    local value = nested(n)
    return function() return table.deepcopy(value) end
end)
scenario('tonumber64', 300, function(n)
    return function() for i = 1, n do tonumber64('12345678901234567890') end end
end)
scenario('fun.chain', 300, function(n)
    local numbers = values.integers(n)
    return function()
        return fun.iter(numbers):map(function(x) return x + 1 end):filter(function(x) return x % 2 == 0 end):totable()
    end
end)
scenario('fun.drop', 300, function(n)
    return function() return fun.range(n):drop(n - 1):totable() end
end)
scenario('fun.zip', 300, function(n)
    local numbers = values.integers(n)
    return function() return fun.zip(numbers, numbers):tomap() end
end)
scenario('fun.split', 300, function(n)
    local numbers = values.integers(n)
    return function() return fun.iter(numbers):partition(function(x) return x % 2 == 0 end):length() end
end)
scenario('fun.is_prefix', 300, function(n)
    local numbers = values.integers(n)
    return function() return fun.is_prefix_of(numbers, numbers) end
end)
scenario('fun.string', 300, function(n)
    local text = ('x'):rep(n)
    return function() return fun.iter(text):length() end
end)
