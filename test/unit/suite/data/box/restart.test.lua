test_run = require('test_run').new()
s = box.schema.space.create('test')
_ = s:create_index('pk')
s:replace{1, 'one'}
test_run:cmd('restart server default')
test_run = require('test_run').new()
box.space.test:select{}
test_run:cmd('create server other with script="box/box.lua"')
test_run:cmd('start server other')
test_run:switch('other')
box.space.test
test_run:cmd('set variable uri to "default.listen"')
uri ~= nil
test_run:switch('default')
test_run:cmd('stop server other')
test_run:cmd('cleanup server other')
test_run:cmd('delete server other')
box.space.test:drop()
