-- The start of an instance with options of every kind, and what its log says.

-- == empty
box.cfg{} os.exit()

-- == log
box.cfg{log = 'l'} os.exit()

-- == missing memtx_dir
print(pcall(box.cfg, {memtx_dir = 'no'}))

-- == missing wal_dir
print(pcall(box.cfg, {wal_dir = 'no'}))

-- == missing vinyl_dir
print(pcall(box.cfg, {vinyl_dir = 'no'})) os.exit()

-- == missing work_dir
print(pcall(box.cfg, {work_dir = 'no'}))

-- == work_dir is a file
print(pcall(box.cfg, {work_dir = 'd/m.lua'}))

-- == memtx_dir is a file
print(pcall(box.cfg, {memtx_dir = 'd/m.lua'}))

-- == work_dir
box.cfg{work_dir = 'd', log = 'l', pid_file = 'p.pid'} print(require('fio').cwd(), box.cfg.work_dir) os.exit()

-- == directories
box.cfg{log = 'l', memtx_dir = 'd', wal_dir = 'e', vinyl_dir = '.'} os.exit()

-- == unknown user
print(pcall(box.cfg, {username = 'nobody-here'}))

-- == background without log
print(pcall(box.cfg, {background = true}))

-- == background without pid
print(pcall(box.cfg, {background = true, log = 'l'}))

-- == pid file
box.cfg{log = 'l', pid_file = 'p.pid'} print(io.open('p.pid'):read('*a') == tostring(box.info.pid)) os.exit()

-- == pid file in a missing folder
print(pcall(box.cfg, {log = 'l', pid_file = 'no/p.pid'}))

-- == pid file is a folder
print(pcall(box.cfg, {log = 'l', pid_file = 'd'}))

-- == listen taken
local s = require('socket').tcp_server('127.0.0.1', 0, function() end) print(pcall(box.cfg, {log = 'l', listen =
'127.0.0.1:' .. s:name().port}))

-- == listen to a unix path
box.cfg{log = 'l', listen = 'unix/:./sock'} print(box.info.listen) os.exit()

-- == listen to a missing folder
print(pcall(box.cfg, {log = 'l', listen = 'unix/:./no/s'}))

-- == listen to a file
print(pcall(box.cfg, {log = 'l', listen = 'unix/:./d/m.lua'}))

-- == listen to a number
print(pcall(box.cfg, {log = 'l', listen = 0})) print(box.cfg.listen) os.exit()

-- == listen to an unknown host
print(pcall(box.cfg, {log = 'l', listen = 'nope.invalid:3301'}))

-- == listen again
box.cfg{log = 'l', listen = 'unix/:./sock'} box.cfg{listen = 'unix/:./sock2'} print(pcall(box.cfg, {listen =
'unix/:./no/t'})) print(box.cfg.listen) box.cfg{listen = box.NULL} os.exit()

-- == replication without a peer
print(pcall(box.cfg, {log = 'l', replication = 'unix/:./no', replication_connect_timeout = 0.3}))

-- == replication with itself
box.cfg{log = 'l', listen = 'unix/:./sock', replication = 'unix/:./sock'} print(box.info.status) os.exit()

-- == replication later without a peer
box.cfg{log = 'l', replication_connect_timeout = 0.3} print(pcall(box.cfg, {replication = 'unix/:./no'}))
print(box.info.status) os.exit()

-- == replication twice the same
box.cfg{log = 'l', listen = 'unix/:./sock', replication_connect_timeout = 0.3} print(pcall(box.cfg, {replication =
{'unix/:./sock', 'unix/:./sock'}})) os.exit()

-- == replication with a password
box.cfg{log = 'l', replication_connect_timeout = 0.2, replication_connect_quorum = 0} print(pcall(box.cfg,
{replication = 'me:secret@unix/:./no'})) os.exit()

-- == anon
print(pcall(box.cfg, {log = 'l', replication_anon = true}))

-- == anon and read_only
print(pcall(box.cfg, {log = 'l', replication_anon = true, read_only = true}))

-- == uuids
box.cfg{log = 'l', instance_uuid = '11111111-1111-4111-8111-111111111111', replicaset_uuid =
'22222222-2222-4222-8222-222222222222'} print(box.info.uuid, box.info.cluster.uuid) os.exit()

-- == read_only
box.cfg{log = 'l', read_only = true} print(box.info.ro) os.exit()

-- == read_only empty
print(pcall(box.cfg, {log = 'l', read_only = true, replication_anon = true}))

-- == hot standby alone
box.cfg{log = 'l', hot_standby = true} os.exit()

-- == wal none
box.cfg{log = 'l', wal_mode = 'none'} os.exit()

-- == election
box.cfg{log = 'l', election_mode = 'candidate'} require('fiber').sleep(0.3) print(box.info.election.state) os.exit()

-- == mvcc
box.cfg{log = 'l', memtx_use_mvcc_engine = true} os.exit()

-- == many options
box.cfg{log = 'l', readahead = 32000, checkpoint_count = 3, checkpoint_interval = 0, too_long_threshold = 1,
net_msg_max = 1000, worker_pool_threads = 8} os.exit()

-- == snapshot
box.cfg{log = 'l'} print(box.snapshot()) os.exit()

-- == snapshots
box.cfg{log = 'l', checkpoint_count = 1} local s = box.schema.space.create('a') s:create_index('p') for i = 1, 3 do
s:insert{i} box.snapshot() end os.exit()

-- == snapshot again
box.cfg{log = 'l'} box.snapshot() box.snapshot() os.exit()

-- == checkpoint interval
box.cfg{log = 'l', checkpoint_interval = 1000} box.cfg{checkpoint_interval = 0} box.cfg{checkpoint_interval = 500}
os.exit()

-- == cleanup delay
box.cfg{log = 'l', wal_cleanup_delay = 0} os.exit()

-- == cleanup delay later
box.cfg{log = 'l'} box.cfg{wal_cleanup_delay = 0} box.cfg{wal_cleanup_delay = 100} os.exit()

-- == cleanup with a replica
box.cfg{log = 'l', listen = 'unix/:./sock'} box.space._cluster:insert{2, '11111111-1111-4111-8111-111111111111'}
box.snapshot() box.space._cluster:delete(2) os.exit()

-- == wal_max_size
box.cfg{log = 'l', wal_max_size = 1024} local s = box.schema.space.create('a') s:create_index('p') for i = 1, 40 do
s:insert{i, ('x'):rep(100)} end os.exit()

-- == slow request
box.cfg{log = 'l', too_long_threshold = 0} local s = box.schema.space.create('a') s:create_index('p') s:insert{1}
s:select() os.exit()

-- == upgrade
box.cfg{log = 'l'} box.schema.upgrade() os.exit()

-- == vinyl
box.cfg{log = 'l'} print(pcall(box.schema.space.create, 'v', {engine = 'nope'})) os.exit()

-- == proc title
box.cfg{log = 'l', custom_proc_title = 'mine'} print((io.open('/proc/self/cmdline'):read('*a'):gsub('%z.*',
''):gsub('^.*/', ''))) os.exit()

-- == coredump
box.cfg{log = 'l', coredump = true} os.exit()

-- == force recovery
box.cfg{log = 'l', force_recovery = true} os.exit()

-- == two engines of options
print(pcall(box.cfg, {nope = 1})) print(pcall(box.cfg, {[1] = 5})) print(pcall(box.cfg, {a = {b = 1}}))

-- == deprecated
print(pcall(box.cfg, {rows_per_wal = 5, log = 'l'})) os.exit()

-- == deprecated all
print(pcall(box.cfg, {logger = 'l', snapshot_period = 100, snap_dir = '.', panic_on_wal_error = true,
slab_alloc_minimal = 32})) os.exit()

-- == deprecated and new
print(pcall(box.cfg, {snapshot_count = 3, checkpoint_count = 4}))

-- == dont_check
print(pcall(box.cfg, {dont_check = true}))
