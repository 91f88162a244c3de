-- A master, two replicas, a full mesh, reconfiguration at run time, a restart in between.
test_run = require('test_run').new()
box.schema.user.grant('guest', 'super')
s = box.schema.space.create('shared')
_ = s:create_index('pk')
for i = 1, 10 do s:insert{i, 'before join'} end
test_run:cmd('create server one with rpl_master=default, script="replication/member.lua"')
test_run:cmd('start server one')
test_run:cmd('create server two with rpl_master=default, script="replication/member2.lua"')
test_run:cmd('start server two')
test_run:wait_lsn('one', 'default')
test_run:eval('one', 'return box.space.shared:len(), box.info.id, box.info.ro')
test_run:eval('two', 'return box.space.shared:len(), box.info.id, box.info.status')
for i = 11, 20 do s:insert{i, 'after join'} end
box.begin() s:replace{21, 'one'} s:replace{22, 'transaction'} box.commit()
test_run:wait_lsn('one', 'default')
test_run:wait_lsn('two', 'default')
test_run:eval('two', "return box.space.shared:select({20}, {iterator = 'GT'})")
test_run:wait_downstream(test_run:get_server_id('one'), {status = 'follow'})
test_run:wait_downstream(test_run:get_server_id('two'), {status = 'follow'})

-- Everybody follows everybody.
one = test_run:eval('one', 'return box.cfg.listen')[1]
two = test_run:eval('two', 'return box.cfg.listen')[1]
mesh = {box.cfg.listen, one, two}
box.cfg{replication = mesh}
test_run:wait_upstream(test_run:get_server_id('one'), {status = 'follow'})
test_run:switch('one')
mesh = {box.cfg.replication[1], box.cfg.listen, test_run:eval('two', 'return box.cfg.listen')[1]}
box.cfg{replication = mesh}
test_run:switch('two')
mesh = {box.cfg.replication[1], box.cfg.listen, test_run:eval('one', 'return box.cfg.listen')[1]}
box.cfg{replication = mesh}
test_run:switch('default')
test_run:wait_fullmesh({'default', 'one', 'two'})
test_run:eval('one', "box.space.shared:insert{101, 'from one'}")
test_run:eval('two', "box.space.shared:insert{102, 'from two'}")
s:insert{103, 'from the master'}
vclock = test_run:get_cluster_vclock({'default', 'one', 'two'})
_ = test_run:wait_cluster_vclock({'default', 'one', 'two'}, vclock)
s:select({100}, {iterator = 'GT'})
test_run:eval('one', 'return box.space.shared:count()')
test_run:eval('two', 'return box.space.shared:count()')

-- A replica that was away catches up.
test_run:cmd('stop server one')
for i = 201, 210 do s:insert{i} end
box.snapshot()
for i = 211, 220 do s:insert{i} end
test_run:cmd('start server one')
test_run:wait_lsn('one', 'default')
test_run:eval('one', "return box.space.shared:count({200}, {iterator = 'GT'})")

-- Without replication nothing arrives; with it again everything does.
test_run:switch('two')
replication = box.cfg.replication
box.cfg{replication = {}}
box.info.replication[1].upstream
test_run:switch('default')
s:insert{300}
test_run:switch('two')
box.space.shared:get(300)
box.cfg{replication = replication}
test_run:wait_lsn('two', 'default')
box.space.shared:get(300)

-- A conflict stops the applier with the error's text.
box.cfg{replication = {}}
test_run:eval('default', 'box.cfg{replication = {}}')
test_run:eval('one', 'box.cfg{replication = {}}')
box.space.shared:insert{400, 'mine'}
test_run:switch('default')
s:insert{400, 'theirs'}
test_run:switch('two')
box.cfg{replication = {replication[1]}}
test_run:wait_upstream(1, {status = 'stopped', message_re = 'Duplicate key'})
box.info.status, box.info.ro
box.cfg{replication = {}}
box.info.status, box.info.ro
box.space.shared:delete(400)
box.cfg{replication = {replication[1]}}
test_run:wait_lsn('two', 'default')
box.space.shared:get(400)

-- A read-only instance applies rows and refuses its own.
box.cfg{read_only = true}
box.info.ro
box.space.shared:insert{500}
test_run:switch('default')
s:insert{501}
test_run:wait_lsn('two', 'default')
test_run:eval('two', 'return box.space.shared:get(501)')
test_run:cmd('stop server one')
test_run:cmd('delete server one')
test_run:cmd('stop server two')
test_run:cmd('delete server two')
s:drop()
box.schema.user.revoke('guest', 'super')
test_run:cleanup_cluster()
