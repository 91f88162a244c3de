# Signals, second instances, the background, restarts, and the environment.

# == terminate
cat > s.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} require('log').info('is up')
END
$T s.lua & await 'is up' l
end TERM $!

# == interrupt
cat > s.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} require('log').info('is up')
END
set -m
$T s.lua & await 'is up' l
end INT $!

# == kill
cat > s.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} require('log').info('is up')
END
$T s.lua & await 'is up' l
end KILL $!
$T -e 'box.cfg{log = "m"} os.exit()'

# == hangup
cat > s.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} require('log').info('is up')
END
$T s.lua & await 'is up' l
mv l l.1
kill -HUP $!
await reopened l
end TERM $!

# == hangup without a file
$T -e 'box.cfg{}' 2>e.txt & await ready e.txt
kill -HUP $!
sleep 0.2
end TERM $!

# == snapshot by a signal
cat > s.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} require('log').info('is up')
END
$T s.lua & await 'is up' l
kill -USR1 $!
sleep 0.5
end TERM $!

# == terminate without a pid file
$T -e 'box.cfg{log = "l"}' & await 'event loop' l
end TERM $!

# == terminate before box.cfg
$T -e 'print(1) require("fiber").sleep(100)' & sleep 1.5
end TERM $!

# == terminate with a trigger
cat > t.lua <<'END'
box.ctl.on_shutdown(function() require('log').info('bye') print('bye') end) box.cfg{log = 'l'}
require('log').info('is up')
END
$T t.lua & await 'is up' l
end TERM $!

# == terminate with an exit in a trigger
cat > t.lua <<'END'
box.ctl.on_shutdown(function() print('bye') os.exit(5) end) box.cfg{log = 'l'} require('log').info('is up')
END
$T t.lua & await 'is up' l
end TERM $!

# == terminate with a slow trigger
cat > t.lua <<'END'
box.ctl.on_shutdown(function() require('fiber').sleep(0.7) print('bye') end) box.cfg{log = 'l'}
require('log').info('is up')
END
$T t.lua & await 'is up' l
kill -TERM $!
sleep 0.2
kill -TERM $!
wait $!
echo $?

# == terminate with a busy fiber
cat > t.lua <<'END'
box.cfg{log = 'l'} local f = require('fiber') f.create(function() while true do f.sleep(0) end end)
require('log').info('is up')
END
$T t.lua & await 'is up' l
end TERM $!

# == second instance
cat > s.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} require('log').info('is up')
END
$T s.lua & await 'is up' l
$T -e 'box.cfg{log = "m"} print(1)'
echo $?
end TERM $!

# == second instance with the pid file
cat > s.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} require('log').info('is up')
END
$T s.lua & await 'is up' l
$T -e 'box.cfg{pid_file = "p.pid"} print(1)' 2>&1 | sed 's/PID [0-9]*/PID/'
end TERM $!

# == second instance in standby
cat > s.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} require('log').info('is up')
END
$T s.lua & await 'is up' l
$T -e 'box.cfg{log = "m", hot_standby = true} require("log").info("second")' & await -i 'standby' m
end TERM %1
await second m
end TERM %2

# == stale pid file
cat > s.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} require('log').info('is up')
END
echo 99999 > p.pid
$T s.lua & await 'is up' l
end TERM $!
ls

# == background
cat > b.lua <<'END'
box.cfg{background = true, log = 'l', pid_file = 'p.pid'} print('printed') require('log').info('is up')
END
$T b.lua
echo $?
await 'is up' l
kill $(cat p.pid)
await 'got signal' l
sleep 0.3
ls

# == background with a failure
cat > b.lua <<'END'
box.cfg{background = true, log = 'l', pid_file = 'p.pid'} error('x')
END
$T b.lua
echo $?
sleep 1.5
ls

# == background with a failed start
cat > b.lua <<'END'
box.cfg{background = true, log = 'l', pid_file = 'p.pid', memtx_dir = 'no'}
END
$T b.lua
echo $?
sleep 1.5
ls

# == background by a pipe
cat > b.lua <<'END'
box.cfg{background = true, log = '| cat >> out.txt', pid_file = 'p.pid'} print('printed') require('log').info('is
up')
END
$T b.lua
echo $?
await 'is up' out.txt
kill $(cat p.pid)
await 'got signal' out.txt
sleep 0.3
ls

# == start again
cat > a2.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} s = box.schema.space.create('a', {if_not_exists =
true}) s:create_index('p', {if_not_exists = true}) s:replace{box.info.lsn} print(s:count()) os.exit()
END
$T a2.lua
$T a2.lua

# == start from a snapshot
cat > a2.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} s = box.schema.space.create('a', {if_not_exists =
true}) s:create_index('p', {if_not_exists = true}) s:replace{1} box.snapshot() print(s:count()) os.exit()
END
$T a2.lua
$T a2.lua

# == start of a log without its end
cat > a2.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} s = box.schema.space.create('a', {if_not_exists =
true}) s:create_index('p', {if_not_exists = true}) s:replace{1} s:replace{2} print(s:count()) os.exit()
END
$T a2.lua
for f in *.xlog; do head -c -3 $f > x; mv x $f; done; $T a2.lua

# == start of a broken log
cat > a2.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} s = box.schema.space.create('a', {if_not_exists =
true}) s:create_index('p', {if_not_exists = true}) s:replace{1} s:replace{2} print(s:count()) os.exit()
END
$T a2.lua
f=$(ls *.xlog | tail -n 1)
printf 'xxxxxxxxxx' | dd of=$f bs=1 seek=300 conv=notrunc 2>/dev/null
$T a2.lua
echo $?

# == start of a broken snapshot
cat > a2.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} s = box.schema.space.create('a', {if_not_exists =
true}) s:create_index('p', {if_not_exists = true}) s:replace{1} print(s:count()) os.exit()
END
$T a2.lua
f=$(ls *.snap | tail -n 1)
printf 'xxxxxxxxxx' | dd of=$f bs=1 seek=300 conv=notrunc 2>/dev/null
$T a2.lua
echo $?

# == start of a broken snapshot by force
cat > a2.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} s = box.schema.space.create('a', {if_not_exists =
true}) s:create_index('p', {if_not_exists = true}) s:replace{1} print(s:count()) os.exit()
END
$T a2.lua
f=$(ls *.snap | tail -n 1)
printf 'xxxxxxxxxx' | dd of=$f bs=1 seek=300 conv=notrunc 2>/dev/null
$T -e 'box.cfg{log = "m", force_recovery = true} os.exit()'
echo $?

# == start without the snapshot
cat > a2.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} s = box.schema.space.create('a', {if_not_exists =
true}) s:create_index('p', {if_not_exists = true}) s:replace{1} print(s:count()) os.exit()
END
$T a2.lua
rm *.snap
$T a2.lua
echo $?

# == start with an unfinished snapshot
cat > a2.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} s = box.schema.space.create('a', {if_not_exists =
true}) s:create_index('p', {if_not_exists = true}) print(s:count()) os.exit()
END
$T a2.lua
: > 00000000000000000099.snap.inprogress
$T a2.lua
ls

# == start with foreign files
cat > a2.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} s = box.schema.space.create('a', {if_not_exists =
true}) s:create_index('p', {if_not_exists = true}) print(s:count()) os.exit()
END
echo x > 5.snap
echo y > 00000000000000000001.xlog
$T a2.lua
echo $?

# == start with an empty log file
cat > a2.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} s = box.schema.space.create('a', {if_not_exists =
true}) s:create_index('p', {if_not_exists = true}) print(s:count()) os.exit()
END
$T a2.lua
: > 00000000000000000099.xlog
$T a2.lua
echo $?

# == start with other uuids
cat > a2.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} s = box.schema.space.create('a', {if_not_exists =
true}) s:create_index('p', {if_not_exists = true}) os.exit()
END
$T a2.lua
$T -e 'box.cfg{log = "m", instance_uuid = "11111111-1111-4111-8111-111111111111"}'
echo $?
$T -e 'box.cfg{log = "n", replicaset_uuid = "11111111-1111-4111-8111-111111111111"}'
echo $?

# == start without memory
cat > m.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} s = box.schema.space.create('a', {if_not_exists =
true}) s:create_index('p', {if_not_exists = true}) for i = 1, 100 do s:replace{i, ('x'):rep(1000)} end os.exit()
END
$T m.lua
$T -e 'box.cfg{log = "m", memtx_memory = 33554432} print(box.space.a:count()) os.exit()'
echo $?

# == locked directory
cat > s.lua <<'END'
box.cfg{log = 'l', pid_file = 'p.pid', listen = 'unix/:./sock'} require('log').info('is up')
END
$T s.lua & await 'is up' l
mkdir w
$T -e 'box.cfg{work_dir = "w", wal_dir = ".."}' 2>&1
echo $?
end TERM $!

# == unwritable log
mkdir -p ro
touch ro/l
chmod 0 ro/l
su nobody -s /bin/sh -c true
$T -e 'box.cfg{log = "ro"}'
echo $?

# == console listens
cat > c.lua <<'END'
box.cfg{log = 'l'} require('console').listen('unix/:./sock') require('log').info('is up')
END
$T c.lua & await 'is up' l
printf '1 + 1\n' | nc -U -N s 2>/dev/null | tail -n 3
end TERM $!

# == replica joins
cat > s1.lua <<'END'
box.cfg{log = 'l1', listen = 'unix/:./s1'} box.schema.user.grant('guest', 'replication') require('log').info('is
up')
END
cat > s2.lua <<'END'
require('fio').mkdir('two') box.cfg{log = 'l2', work_dir = 'two', replication = 'unix/:../s1'} print(box.info.id)
os.exit()
END
$T s1.lua & await 'is up' l1
$T s2.lua
echo $?
end TERM %1

# == replica without rights
cat > s1.lua <<'END'
box.cfg{log = 'l1', listen = 'unix/:./s1'} require('log').info('is up')
END
cat > s2.lua <<'END'
require('fio').mkdir('two') box.cfg{log = 'l2', work_dir = 'two', replication = 'unix/:../s1',
replication_connect_timeout = 1} print(box.info.id) os.exit()
END
$T s1.lua & await 'is up' l1
$T s2.lua
echo $?
end TERM %1

# == syslog
cat > y.lua <<'END'
local s = require('socket')('AF_UNIX', 'SOCK_DGRAM', 0) s:bind('unix/', 'sys') local f = require('fiber')
f.create(function() local out = io.open('got.txt', 'w') while true do local m = s:recv(4000) if m then
out:write((m:gsub('%u%l%l +%d+ %d+:%d+:%d+', 'DATE'):gsub('%[%d+%]', '[PID]')), '\n') out:flush() end f.sleep(0.01)
end end) box.cfg{log = 'syslog:identity=me,facility=local3,server=unix:sys'} require('log').warn('is up')
END
$T y.lua & await 'is up' got.txt
end TERM $!

# == lua path
LUA_PATH='d/?.lua;;' $T -e 'print(require("m").x, package.path:sub(1, 9))'

# == lua path alone
LUA_PATH='d/?.lua' $T -e 'print(require("m").x, package.path)'

# == lua cpath
LUA_CPATH='d/?.so;;' $T -e 'print(package.cpath:sub(1, 9))'

# == lua init
LUA_INIT='print(1)' $T -e 'print(2)'

# == other cwd
cd d
$T -e 'print(require("m").x)' && $T m.lua && $T -e 'print(require("rock").z)'

# == script of another folder
cat > d/r.lua <<'END'
print(pcall(require, 'd.m')) print((pcall(require, 'm')))
END
$T d/r.lua

# == environment
TT_LOG=l TT_LISTEN=unix/:./sock TT_READAHEAD=20000 TT_READ_ONLY=true $T -e 'box.cfg{} print(box.cfg.listen, box.cfg.readahead, box.cfg.read_only) os.exit()'

# == environment below options
TT_LOG=l TT_READAHEAD=20000 $T -e 'box.cfg{readahead = 30000} print(box.cfg.readahead) os.exit()'

# == environment of a wrong number
TT_READAHEAD=abc $T -e 'print(pcall(box.cfg, {}))'

# == environment of a wrong boolean
TT_READ_ONLY=1 $T -e 'print(pcall(box.cfg, {}))'

# == environment of booleans
TT_LOG=l TT_READ_ONLY=TRUE TT_FORCE_RECOVERY=False $T -e 'box.cfg{} print(box.cfg.read_only, box.cfg.force_recovery) os.exit()'

# == environment of a list
TT_LOG=l TT_REPLICATION=unix/:./a,3302 TT_REPLICATION_CONNECT_TIMEOUT=0.2 TT_REPLICATION_CONNECT_QUORUM=0 $T -e 'print(pcall(box.cfg, {})) print(require("json").encode(box.cfg.replication)) os.exit()'

# == environment of an unknown
TT_NOPE=5 TT_LOG=l $T -e 'box.cfg{} os.exit()'

# == environment that is empty
TT_LOG=l TT_READAHEAD= $T -e 'box.cfg{} print(box.cfg.readahead) os.exit()'

# == environment of a level
TT_LOG=l TT_LOG_LEVEL=verbose $T -e 'box.cfg{} print(box.cfg.log_level) os.exit()'

# == environment of a wrong level
TT_LOG_LEVEL=nope $T -e 'print(pcall(box.cfg, {}))'

# == environment of a quorum
TT_LOG=l TT_REPLICATION_SYNCHRO_QUORUM=N/2+1 $T -e 'box.cfg{} print(box.cfg.replication_synchro_quorum) os.exit()'

# == environment shown
TT_LISTEN=3301 TT_LOG_NONBLOCK=true $T -e 'print(require("json").encode(box.internal.cfg.env))'

# == environment of a deprecated option
TT_SNAP_DIR=d TT_LOG=l $T -e 'box.cfg{} print(box.cfg.memtx_dir) os.exit()'

# == environment after the start
TT_LOG=l $T -e 'box.cfg{} os.setenv("TT_READAHEAD", "20000") box.cfg{} print(box.cfg.readahead) os.exit()'
