-- Spaces, indexes, tuples: what is stored comes back, in the index's order.
test_run = require('test_run').new()

s = box.schema.space.create('goods', {format = {{'id', 'unsigned'}, {'name', 'string'}, {'price', 'number', is_nullable = true}}})
pk = s:create_index('pk')
by_name = s:create_index('by_name', {parts = {{'name'}}, unique = false})
by_pair = s:create_index('by_pair', {parts = {'price', 'id'}, type = 'TREE'})
hash = s:create_index('hash', {parts = {{'id'}, {'name'}}, type = 'HASH'})
s:insert{1, 'pear', 10}
s:insert{2, 'apple', 7.5}
s:replace{3, 'fig', 7.5}
s:insert{4, 'apple', 100}
s:insert{18446744073709551615ULL, 'last', 0}
s:get{1}
s:get(2).name, s:get(2)[3], s:get(2).price
s:select()
s:select({2}, {iterator = 'GE', limit = 2})
s:select({}, {iterator = 'LT', offset = 1, limit = 2})
by_name:select('apple')
by_name:select({'b'}, {iterator = 'LE'})
by_pair:select{7.5}
by_pair:select({7.5, 2}, {iterator = 'REQ'})
by_pair:min(), by_pair:max(), by_pair:count(7.5), by_pair:count()
hash:get{3, 'fig'}
hash:select({3}, {iterator = 'EQ'})
hash:select({3, 'fig'}, {iterator = 'GE'})
s:len(), s:count(), pk:count({2}, {iterator = 'GT'})

-- Updates.
s:update(1, {{'=', 'name', 'peach'}, {'+', 3, 2.5}})
s:update(1, {{'!', 4, 'extra'}, {'!', -1, 'tail'}})
s:update(1, {{'#', 4, 2}})
s:update(1, {{'-', 'price', 0.5}})
s:update(1, {{':', 2, 1, 1, 'P'}})
s:update(100, {{'=', 2, 'nobody'}})
s:upsert({5, 'kiwi', 1}, {{'+', 3, 1}})
s:upsert({5, 'kiwi', 1}, {{'+', 3, 1}})
s:get(5)
by_name:update({'apple'}, {{'=', 3, 1}})
s:update(1, {{'=', 1, 2}})
s:update(1, {{'+', 'name', 1}})
s:update(1, {{'?', 2, 1}})

-- Deletes.
s:delete(5)
s:delete(5)
hash:delete{4, 'apple'}
s:len()

-- pairs sees a consistent order even when the space changes meanwhile.
ids = {}
for _, t in s:pairs() do table.insert(ids, t.id) if #ids < 4 then s:delete(3) end end
ids
for _, t in by_name:pairs('pear', {iterator = 'GE'}) do ids = t end
ids

-- Tuples.
t = box.tuple.new{'a', 2, {x = {y = {10, 20}}}, box.NULL, true}
t
#t, t[1], t[-1], t[4] == nil, t[6]
t:unpack(1, 2)
t:totable(2, 2)
t:slice(1, 3)
t:find('a'), t:find(2), t:findall(true)
t:update({{'=', 1, 'b'}, {'=', '[3].x.y[2]', 21}})
t:transform(2, 3, 'cut')
t:bsize()
t['[3].x.y[1]'], t['[3].x.z']
t == t, t == box.tuple.new{'a'}
box.tuple.is(t), box.tuple.is({})
s:frommap({id = 9, name = 'mapped'})
s:get(1):tomap({names_only = true})
tostring(box.tuple.new{1, 'x', {y = 1.5}})

-- Truncate and drop.
s:truncate()
s:len(), by_name:len()
s:insert{1, 'again', 1}
s:drop()
box.space.goods == nil
