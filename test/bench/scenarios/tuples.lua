-- Tuples.
local scenario, _, given = ...
local list, values = given.list, given.values
local fun = require('fun')

local function tuple_scenario(name, size, use)
    scenario('tuple.' .. name, size, function(n)
        local tuple = box.tuple.new(values.integers(n))
        return function() use(tuple, n) end
    end)
end

scenario('tuple.new', 300, function(n)
    local fields = values.integers(n)
    return function() box.tuple.new(fields) end
end)
tuple_scenario('totable', 300, function(t) t:totable() end)
tuple_scenario('totable_part', 300, function(t, n) t:totable(2, n) end)
tuple_scenario('unpack', 30, function(t) return select('#', t:unpack()) end)
tuple_scenario('pairs', 300, function(t) for _, v in t:pairs() do local _ = v end end)
tuple_scenario('ipairs', 300, function(t) for _, v in ipairs(t) do local _ = v end end)
tuple_scenario('fun', 300, function(t) return fun.iter(t):length() end)
tuple_scenario('next', 300, function(t)
    local pos = t:next()
    while pos do pos = t:next(pos) end
end)
tuple_scenario('length', 300, function(t) return #t end)
tuple_scenario('last', 300, function(t, n) return t[n] end)
tuple_scenario('tostring', 300, function(t) return tostring(t) end)
tuple_scenario('find', 300, function(t, n) return t:find(n) end)
tuple_scenario('findall', 300, function(t, n) return t:findall(n) end)
tuple_scenario('slice', 30, function(t, n) return select('#', t:slice(0, n - 1)) end)
tuple_scenario('transform', 300, function(t, n) return t:transform(2, n - 2, 'x') end)
tuple_scenario('update_one', 300, function(t, n) return t:update{{'=', n, 0}} end)
tuple_scenario('tomap', 300, function(t) return t:tomap() end)
tuple_scenario('equal', 300, function(t) return t == box.tuple.new{1} end)
tuple_scenario('bsize', 300, function(t) return t:bsize() end)
scenario('tuple.update_many', 30, function(n)
    local tuple, ops = box.tuple.new(values.integers(n)), {}
    for i = 1, n do ops[i] = {'=', i, 0} end
    if n > 4000 then return function() end end
    return function() tuple:update(ops) end
end)
scenario('tuple.path', 30, function(n)
    local tuple = box.tuple.new{{values.integers(n)}}
    local path = ('[1][1][%d]'):format(n)
    return function() return tuple[path] end
end)
scenario('tuple.format', 30, function(n)
    local format = list(function(i) return {name = 'field' .. i, type = 'any'} end)(n)
    local space = box.schema.space.create('formatted', {format = format})
    space:create_index('pk', {parts = {1, 'unsigned'}})
    local tuple = space:replace(values.integers(n))
    return function() return tuple['field' .. n] end, function() space:drop() end
end)
