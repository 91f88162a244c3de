-- Transactions, savepoints and triggers.
test_run = require('test_run').new()
fiber = require('fiber')
s = box.schema.space.create('acc', {format = {{'id', 'unsigned'}, {'sum', 'integer'}}})
_ = s:create_index('pk')
_ = s:create_index('sum', {parts = {'sum'}, unique = false})
box.begin()
box.is_in_txn()
s:insert{1, 10}
s:insert{2, 20}
box.begin()
box.rollback()
box.is_in_txn(), s:len()
box.begin() s:insert{1, 10} s:insert{2, 20} box.commit()
s:select()
box.commit()
box.rollback()

-- An error in a transaction undoes its statement alone.
box.begin() s:insert{3, 30} ok, e = pcall(s.insert, s, {1, 1}) s:insert{4, 40} box.commit()
ok, tostring(e)
s:select({2}, {iterator = 'GT'})

-- Savepoints.
test_run:cmd("setopt delimiter ';'")
box.begin()
s:update(1, {{'+', 2, 1}})
a = box.savepoint()
s:update(1, {{'+', 2, 100}})
b = box.savepoint()
s:delete(2)
box.rollback_to_savepoint(a)
ok, e = pcall(box.rollback_to_savepoint, b)
box.commit();
test_run:cmd("setopt delimiter ''");
ok, tostring(e)
s:select()
box.savepoint()
box.rollback_to_savepoint(a)

-- box.atomic.
box.atomic(function(n) s:replace{5, n} return n, 'done' end, 50)
box.atomic(function() s:delete(5) error('changed my mind') end)
s:get(5)

-- Triggers of a transaction.
log = {}
test_run:cmd("setopt delimiter ';'")
box.begin()
box.on_commit(function(iterator)
    for _, old, new, space_id in iterator() do
        table.insert(log, {old or 'none', new or 'none', space_id == s.id})
    end
end)
s:replace{6, 60}
s:update(6, {{'+', 2, 6}})
s:delete(6)
box.commit();
box.begin()
box.on_rollback(function() table.insert(log, 'rolled back') end)
s:replace{7, 70}
box.rollback();
test_run:cmd("setopt delimiter ''");
log

-- Triggers of a space.
log = {}
f = s:on_replace(function(old, new, name, op) table.insert(log, {old or 'none', new or 'none', name, op}) end)
s:insert{8, 80}
s:update(8, {{'+', 2, 8}})
s:upsert({8, 0}, {{'-', 2, 8}})
s:delete(8)
log
s:on_replace(nil, f)
f = s:on_replace(function() error('not allowed') end)
s:insert{8, 80}
s:get(8)
_ = s:on_replace(nil, f)
f = s:before_replace(function(old, new) if new ~= nil then return new:update{{'=', 2, new[2] * 10}} end end)
s:insert{8, 80}
s:delete(8)
s:get(8)
_ = s:before_replace(nil, f)
f = s:before_replace(function(old, new) return old end)
s:insert{9, 90}
s:delete(8)
_ = s:before_replace(nil, f)
f = s:before_replace(function(old, new) return 'wrong' end)
s:insert{9, 90}
_ = s:before_replace(nil, f)
s:delete(8)
s:select()
s.index.sum:select()
s:drop()
