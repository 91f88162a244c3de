-- Synchronous replication: quorum, timeout and rollback, change of the limbo's owner, what replicas see.
test_run = require('test_run').new()
fiber = require('fiber')
quorum = box.cfg.replication_synchro_quorum
timeout = box.cfg.replication_synchro_timeout
box.schema.user.grant('guest', 'super')
s = box.schema.space.create('sync', {is_sync = true})
_ = s:create_index('pk')
a = box.schema.space.create('async')
_ = a:create_index('pk')
s.is_sync, a.is_sync
test_run:cmd('create server replica with rpl_master=default, script="replication/member.lua"')
test_run:cmd('start server replica with args="writable mvcc"')

-- Enough instances: the write returns when the replica has it.
box.cfg{replication_synchro_quorum = 2, replication_synchro_timeout = 1000}
s:replace{1}
test_run:wait_lsn('replica', 'default')
test_run:eval('replica', 'return box.space.sync:get(1)')

-- Too few: a rollback after the timeout, here and there.
box.cfg{replication_synchro_quorum = 3, replication_synchro_timeout = 0.1}
s:replace{2}
s:get(2)
test_run:wait_lsn('replica', 'default')
test_run:eval('replica', 'return box.space.sync:get(2)')
box.info.synchro.queue.len

-- A later transaction falls with the first; an asynchronous one waits for those before it.
box.cfg{replication_synchro_timeout = 1000}
results = {}
test_run:cmd("setopt delimiter ';'")
function try(name, space, key)
    return fiber.new(function()
        local ok, e = pcall(space.replace, space, {key})
        results[name] = ok and 'ok' or tostring(e)
    end)
end;
test_run:cmd("setopt delimiter ''");
f1 = try('first', s, 3)
f2 = try('second', s, 4)
f3 = try('async', a, 4)
test_run:wait_cond(function() return box.info.synchro.queue.len == 3 end)
next(results) == nil
test_run:wait_lsn('replica', 'default')
test_run:eval('replica', 'return box.space.sync:get(3), box.space.async:get(4)')
box.cfg{replication_synchro_timeout = 0.01}
test_run:wait_cond(function() return f1:status() == 'dead' and f2:status() == 'dead' and f3:status() == 'dead' end)
results.first
results.second
results.async
s:select(), a:select()

-- A lower quorum confirms what waits.
box.cfg{replication_synchro_quorum = 3, replication_synchro_timeout = 1000}
results = {}
f1 = try('first', s, 5)
f2 = try('async', a, 5)
test_run:wait_cond(function() return box.info.synchro.queue.len == 2 end)
box.cfg{replication_synchro_quorum = 2}
test_run:wait_cond(function() return f1:status() == 'dead' and f2:status() == 'dead' end)
results.first, results.async
test_run:wait_lsn('replica', 'default')
test_run:eval('replica', 'return box.space.sync:get(5), box.space.async:get(5)')

-- A formula for the quorum.
box.cfg{replication_synchro_quorum = 'N / 2 + 1'}
box.info.synchro.quorum
s:replace{6}
box.cfg{replication_synchro_quorum = 'N +'}
box.cfg{replication_synchro_quorum = 2}

-- Another instance may own the limbo once it is empty.
test_run:wait_lsn('replica', 'default')
test_run:switch('replica')
box.cfg{replication_synchro_quorum = 1}
box.space.sync:replace{7}
test_run:switch('default')
s:get(7)

-- A write that the journal refuses leaves nothing behind.
box.error.injection.set('ERRINJ_WAL_IO', true)
s:replace{8}
box.error.injection.set('ERRINJ_WAL_IO', false)
s:get(8)
s:replace{8}
box.cfg{replication_synchro_quorum = quorum, replication_synchro_timeout = timeout}
test_run:cmd('stop server replica')
test_run:cmd('delete server replica')
s:drop()
a:drop()
box.schema.user.revoke('guest', 'super')
test_run:cleanup_cluster()
