-- What was acknowledged is there after a restart, from the snapshot, from the log, and after a kill.
test_run = require('test_run').new()
s = box.schema.space.create('kept', {format = {{'id', 'unsigned'}, {'what', 'string'}}})
_ = s:create_index('pk')
_ = s:create_index('what', {parts = {'what'}, unique = false})
box.schema.user.create('keeper', {password = 'secret'})
box.schema.user.grant('keeper', 'read,write', 'space', 'kept')
for i = 1, 100 do s:insert{i, 'snapshot'} end
box.snapshot()
for i = 101, 200 do s:insert{i, 'log'} end
s:update(1, {{'=', 2, 'updated'}})
s:upsert({2, 'x'}, {{'=', 2, 'upserted'}})
s:delete(3)
box.begin() s:replace{4, 'in'} s:replace{5, 'transaction'} box.commit()
box.begin() s:replace{6, 'rolled'} s:replace{7, 'back'} box.rollback()
t = box.schema.space.create('gone', {temporary = true})
_ = t:create_index('pk')
t:insert{1}
lsn = box.info.lsn
test_run:cmd('restart server default')
test_run = require('test_run').new()
s = box.space.kept
s:len(), s.index.what:count('log'), s.index.what:count('snapshot')
s:select({7}, {iterator = 'LE'})
box.space.gone:len()
#box.schema.user.info('keeper')
s:insert{201, 'after restart'}
box.snapshot()
s:insert{202, 'after snapshot'}

-- A killed server loses nothing that it has acknowledged.
test_run:cmd('create server victim with script="replication/victim.lua"')
test_run:cmd('start server victim')
test_run:switch('victim')
v = box.schema.space.create('v')
_ = v:create_index('pk')
for i = 1, 1000 do v:insert{i} end
test_run:switch('default')
test_run:cmd('stop server victim with signal=KILL')
test_run:cmd('start server victim')
test_run:switch('victim')
box.space.v:len(), box.space.v:get(1000)
test_run:switch('default')
test_run:cmd('stop server victim')
test_run:cmd('cleanup server victim')
test_run:cmd('delete server victim')
test_run:cmd('restart server default')
test_run = require('test_run').new()
box.space.kept:len()
box.space.kept:drop()
box.space.gone:drop()
box.schema.user.drop('keeper')
