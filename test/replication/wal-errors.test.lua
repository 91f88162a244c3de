-- Failures of the journal: the statement is undone, the error has its code, the node goes on.
test_run = require('test_run').new()
fiber = require('fiber')
errinj = box.error.injection
s = box.schema.space.create('t')
_ = s:create_index('pk')
_ = s:create_index('sk', {parts = {2, 'string'}})
s:insert{1, 'one'}
errinj.set('ERRINJ_WAL_IO', true)
s:insert{2, 'two'}
s:update(1, {{'=', 2, 'changed'}})
s:delete(1)
box.begin() s:replace{1, 'x'} s:replace{2, 'y'} s:delete(1) box.commit()
s:select()
s.index.sk:select()
errinj.set('ERRINJ_WAL_IO', false)
errinj.set('ERRINJ_WAL_WRITE', true)
s:insert{2, 'two'}
box.schema.space.create('never')
box.space.never
errinj.set('ERRINJ_WAL_WRITE', false)
errinj.set('ERRINJ_WAL_WRITE_DISK', true)
s:insert{2, 'two'}
errinj.set('ERRINJ_WAL_WRITE_DISK', false)
errinj.set('ERRINJ_WAL_ROTATE', true)
s:insert{2, 'two'}
errinj.set('ERRINJ_WAL_ROTATE', false)
s:insert{2, 'two'}

-- Transactions that wait for the journal are there in order; a failure undoes them newest first.
errinj.set('ERRINJ_WAL_DELAY', true)
results = {}
for i = 10, 14 do fiber.create(function() table.insert(results, {pcall(s.replace, s, {i, 'n' .. i})}) end) end
_ = fiber.create(function() table.insert(results, {pcall(s.update, s, 2, {{'=', 2, 'late'}})}) end)
#results
s:get(2)
errinj.set('ERRINJ_WAL_WRITE', true)
errinj.set('ERRINJ_WAL_DELAY', false)
test_run:wait_cond(function() return #results == 6 end)
for i = 1, 6 do results[i] = tostring(results[i][2]) end
results
s:select()
errinj.set('ERRINJ_WAL_WRITE', false)
errinj.set('ERRINJ_WAL_DELAY_COUNTDOWN', 1)
s:insert{20, 'passes'}
f = fiber.create(function() s:insert{21, 'waits'} end)
test_run:wait_cond(function() return errinj.get('ERRINJ_WAL_DELAY') end)
f:status()
errinj.set('ERRINJ_WAL_DELAY', false)
test_run:wait_cond(function() return f:status() == 'dead' end)
s:get(21)
errinj.set('ERRINJ_NOTHING', true)
errinj.get('ERRINJ_NOTHING')
errinj.info().ERRINJ_WAL_IO
test_run:cmd('restart server default')
box.space.t:select()
box.space.t:drop()
