-- A replica whose registration the master undoes joins anew until it is let in.
test_run = require('test_run').new()
box.schema.user.grant('guest', 'replication')
space = box.schema.space.create('sync', {is_sync = true})
_ = space:create_index('pk')

-- The registration becomes a synchronous transaction that finds no quorum.
box.cfg{replication_synchro_quorum = 2, replication_synchro_timeout = 0.05}
trigger = box.space._cluster:on_replace(function() space:replace{1} end)

test_run:cmd('create server replica with script="replication/member.lua", rpl_master=default')
test_run:cmd('start server replica with wait=False')
test_run:wait_log('replica', 'ER_SYNC_QUORUM_TIMEOUT', nil, 60) ~= nil
box.space._cluster:count()
box.space._cluster:on_replace(nil, trigger)

test_run:cmd('switch replica')
test_run:wait_upstream(1, {status = 'follow'})
box.space.sync:select()

test_run:cmd('switch default')
box.space._cluster:count()
test_run:cmd('stop server replica')
test_run:cmd('delete server replica')
space:drop()
