-- Spaces, transactions, schema, merger, log files.
local scenario, directory, given = ...
local list, values, with_space = given.list, given.values, given.with_space
local fio = require('fio')

local function space_scenario(name, size, use, secondary)
    scenario('space.' .. name, size, function(n) return with_space(n, use, secondary) end)
end

space_scenario('select', 100, function(s) s:select() end)
space_scenario('select_offset', 100, function(s, n) s:select({}, {offset = n - 1, limit = 1}) end)
space_scenario('select_limit', 100, function(s) s:select({}, {limit = 10}) end)
space_scenario('select_reverse', 100, function(s, n) s:select(n, {iterator = 'LE'}) end)
space_scenario('select_secondary', 100, function(s) s.index.sk:select('name of 1') end, true)
space_scenario('pairs', 100, function(s) for _, t in s:pairs() do local _ = t end end)
space_scenario('pairs_secondary', 100, function(s) for _, t in s.index.sk:pairs('name of 1') do local _ = t end end, true)
space_scenario('get', 100, function(s, n) for id = 1, n do s:get(id) end end)
space_scenario('len', 100, function(s) s:len() end)
space_scenario('count', 100, function(s) s:count() end)
space_scenario('count_key', 100, function(s, n) s:count(n / 2, {iterator = 'GE'}) end)
space_scenario('count_secondary', 100, function(s) s.index.sk:count('name of 1') end, true)
space_scenario('min_max', 100, function(s) s.index.pk:min() s.index.pk:max() end)
space_scenario('random', 100, function(s) s.index.pk:random(42) end)
space_scenario('bsize', 100, function(s) s:bsize() s.index.pk:bsize() end)
space_scenario('update', 100, function(s, n) for id = 1, n do s:update(id, {{'=', 2, 'x'}}) end end)
space_scenario('upsert', 100, function(s, n) for id = 1, n do s:upsert({id, 'x'}, {{'=', 2, 'x'}}) end end)
space_scenario('replace', 100, function(s, n) for id = 1, n do s:replace{id, 'x'} end end, true)
space_scenario('delete_insert', 100, function(s, n)
    for id = 1, n do s:delete(id) end
    for id = 1, n do s:insert{id, 'x'} end
end, true)
space_scenario('auto_increment', 100, function(s, n)
    s:truncate()
    for _ = 1, n do s:auto_increment{'x'} end
end)
space_scenario('transaction', 100, function(s, n)
    box.begin()
    for id = 1, n do s:replace{id, 'y'} end
    box.commit()
end)
space_scenario('transaction_one_row', 100, function(s, n)
    box.begin()
    for _ = 1, n do s:replace{1, 'y'} end
    box.commit()
end)
space_scenario('rollback', 100, function(s, n)
    box.begin()
    for id = 1, n do s:replace{id, 'y'} end
    box.rollback()
end)
space_scenario('savepoints', 100, function(s, n)
    box.begin()
    for id = 1, n do
        local point = box.savepoint()
        s:replace{id, 'y'}
        box.rollback_to_savepoint(point)
    end
    box.commit()
end)
space_scenario('on_commit', 100, function(s, n)
    box.begin()
    for id = 1, n do
        s:replace{1, 'y'}
        box.on_commit(function() end)
    end
    box.commit()
end)
space_scenario('on_replace', 100, function(s, n)
    s:on_replace(function() end)
    for id = 1, n do s:replace{id, 'y'} end
end)
space_scenario('create_index', 100, function(s)
    s:create_index('other', {parts = {2, 'string'}, unique = false})
    s.index.other:drop()
end)
space_scenario('truncate', 100, function(s, n)
    s:truncate()
    for id = 1, n do s:insert{id} end
end)
space_scenario('fun', 100, function(s) s:pairs():filter(function(t) return t[1] % 2 == 0 end):length() end)
space_scenario('frommap', 30, function(s, n)
    if s:format()[1] == nil then
        s:truncate()
        s:format(list(function(i) return {name = 'field' .. i, type = 'any', is_nullable = i > 1} end)(n))
    end
    return s:frommap({field1 = 1})
end)
scenario('schema.spaces', 5, function(n)
    return function()
        for i = 1, n do box.schema.space.create('many' .. i):create_index('pk') end
        for i = n, 1, -1 do box.space['many' .. i]:drop() end
    end
end)
scenario('schema.lookup', 10, function(n)
    for i = 1, n do box.schema.space.create('many' .. i) end
    return function() return box.space['many' .. n] end, function()
        for i = n, 1, -1 do box.space['many' .. i]:drop() end
    end
end)
scenario('schema.users', 5, function(n)
    if n > 25 then return function() end end
    return function()
        for i = 1, n do
            box.schema.user.create('user' .. i)
            box.schema.user.grant('user' .. i, 'read', 'space', '_space')
        end
        for i = n, 1, -1 do box.schema.user.drop('user' .. i) end
    end
end)
scenario('schema.sequence', 100, function(n)
    local sequence = box.schema.sequence.create('growth')
    return function() for _ = 1, n do sequence:next() end end, function() sequence:drop() end
end)
scenario('merger', 100, function(n)
    local merger, key_def = require('merger'), require('key_def').new{{fieldno = 1, type = 'unsigned'}}
    local tuples = values.tuples(n)
    return function()
        local sources = {}
        for i = 1, 5 do sources[i] = merger.new_source_fromtable(tuples) end
        return merger.new(key_def, sources):select()
    end
end)
scenario('merger_sources', 10, function(n)
    local merger, key_def = require('merger'), require('key_def').new{{fieldno = 1, type = 'unsigned'}}
    local tuples = values.tuples(5)
    return function()
        local sources = {}
        for i = 1, n do sources[i] = merger.new_source_fromtable(tuples) end
        return merger.new(key_def, sources):select()
    end
end)
scenario('key_def.extract', 100, function(n)
    local key_def, tuples = require('key_def').new{{fieldno = 2, type = 'string'}}, values.tuples(n)
    return function() for i = 1, n do key_def:extract_key(tuples[i]) end end
end)
scenario('xlog.pairs', 30, function(n)
    local xlog = require('xlog')
    local path = fio.glob(fio.pathjoin(directory, '*.snap'))[1]
    return function()
        local count = 0
        while count < n do
            for _ in xlog.pairs(path) do
                count = count + 1
                if count == n then break end
            end
        end
    end
end)
