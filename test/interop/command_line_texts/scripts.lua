-- Scripts: errors in every place, os.exit in every place, what a program finds.

-- == error
error('x')

-- == error in a fiber
require('fiber').create(function() error('x') end) print('on')

-- == error in a new fiber
local f = require('fiber') f.new(function() error('x') end) f.sleep(0.01) print('on')

-- == error in a fiber after box.cfg
box.cfg{} require('fiber').create(function() error('x') end) os.exit()

-- == error in a joinable fiber
local f = require('fiber').new(function() error('x') end) f:set_joinable(true) print(f:join())

-- == box error in a fiber
require('fiber').create(function() box.error(1, 'y') end) print('on')

-- == error of a table in a fiber
require('fiber').create(function() error({}) end) print('on')

-- == error after box.cfg
box.cfg{} error('x')

-- == error after box.cfg with a log
box.cfg{log = 'l'} error('x')

-- == error of a statement
box.cfg{log = 'l'} box.space.nope:insert{1}

-- == error of the box
box.cfg{log = 'l'} box.schema.space.create('a') box.schema.space.create('a')

-- == error in on_commit
box.cfg{log = 'l'} local s = box.schema.space.create('a') s:create_index('p') box.begin() box.on_commit(function()
error('in commit') end) s:insert{1} box.commit() print('on') os.exit()

-- == error in on_rollback
box.cfg{log = 'l'} box.begin() box.on_rollback(function() error('in r') end) box.rollback() os.exit()

-- == error in on_replace
box.cfg{log = 'l'} local s = box.schema.space.create('a') s:create_index('p') s:on_replace(function() error('in
replace') end) print(pcall(s.insert, s, {1})) os.exit()

-- == error in on_shutdown
box.cfg{log = 'l'} box.ctl.on_shutdown(function() error('in s') end) os.exit(3)

-- == error in on_schema_init
box.ctl.on_schema_init(function() error('in init') end) print(pcall(box.cfg, {log = 'l'}))

-- == error in on_connect
box.cfg{log = 'l', listen = 'unix/:./sock'} box.session.on_connect(function() error('no') end) local c =
require('net.box').connect('unix/:./sock') print(c.state, c.error) os.exit()

-- == error in on_disconnect
box.cfg{log = 'l', listen = 'unix/:./sock'} box.session.on_disconnect(function() error('no') end) local c =
require('net.box').connect('unix/:./sock') c:close() require('fiber').sleep(0.1) os.exit()

-- == error of a call
box.cfg{log = 'l', listen = 'unix/:./sock'} local c = require('net.box').connect('unix/:./sock') print(pcall(c.call,
c, 'nope')) print(pcall(c.eval, c, 'error(1)')) os.exit()

-- == on_shutdown order
for i = 1, 3 do box.ctl.on_shutdown(function() print(i) end) end

-- == on_shutdown waits
box.ctl.on_shutdown(function() require('fiber').sleep(0.05) print('waited') end)

-- == on_shutdown exits
box.ctl.on_shutdown(function() print(1) os.exit(7) print(2) end) os.exit(3)

-- == on_shutdown exits at the end
box.ctl.on_shutdown(function() print(1) os.exit(7) print(2) end)

-- == on_shutdown twice
local function f() print('f') end box.ctl.on_shutdown(f) box.ctl.on_shutdown(f) os.exit(1)

-- == on_shutdown removed
local function f() print('f') end box.ctl.on_shutdown(f) box.ctl.on_shutdown(nil, f)

-- == on_shutdown after box.cfg
box.cfg{log = 'l'} box.ctl.on_shutdown(function() print(box.info.status) end) os.exit()

-- == on_shutdown writes
box.cfg{log = 'l'} local s = box.schema.space.create('a') s:create_index('p') box.ctl.on_shutdown(function()
print(s:insert{1}) end) os.exit()

-- == exit
os.exit()

-- == exit 0
os.exit(0)

-- == exit 300
os.exit(300)

-- == exit -1
os.exit(-1)

-- == exit 1.7
os.exit(1.7)

-- == exit true
os.exit(true)

-- == exit false
os.exit(false)

-- == exit text
os.exit('3')

-- == exit 3ULL
os.exit(3ULL)

-- == exit in pcall
pcall(os.exit, 4) print('on')

-- == exit in a fiber
require('fiber').create(function() os.exit(5) print('on') end) print('main')

-- == exit in a later fiber
require('fiber').new(function() os.exit(5) end) print('main')

-- == exit in a coroutine
coroutine.wrap(function() os.exit(5) end)() print('on')

-- == exit in a trigger
box.cfg{log = 'l'} local s = box.schema.space.create('a') s:create_index('p') s:on_replace(function() os.exit(6)
end) s:insert{1} print('on')

-- == exit in a transaction
box.cfg{log = 'l'} box.begin() os.exit(6)

-- == exit in a call
box.cfg{log = 'l', listen = 'unix/:./sock'} function f() os.exit(8) end box.schema.user.grant('guest', 'super')
require('net.box').connect('unix/:./sock'):call('f') print('on')

-- == exit in on_schema_init
box.ctl.on_schema_init(function() os.exit(9) end) box.cfg{log = 'l'} print('on')

-- == exit twice
require('fiber').create(function() os.exit(1) end) os.exit(2)

-- == exit of exec
os.execute('exit 3') print(os.execute('exit 3'))

-- == end of the script
print(1)

-- == end with a waiting fiber
local f = require('fiber') f.create(function() f.sleep(0.1) print('late') os.exit(2) end)

-- == end with a dead fiber
require('fiber').create(function() end)

-- == end with a sleeping fiber
local f = require('fiber') f.create(function() f.sleep(0.1) print('late') end)

-- == yield of the main chunk
print(pcall(coroutine.yield, 1))

-- == print kinds
print(nil, true, 1.5, 'x', 10LL, box.NULL, 1e100, 0/0, 2^53)

-- == write
io.write('a', 1, '\n') io.stdout:write('b\n') io.stderr:write('c\n') print('d')

-- == buffered
io.stdout:setvbuf('full') io.write('x') io.stderr:write('y\n') print('z')

-- == environment
print(os.getenv('HOME') ~= nil, os.environ().HOME ~= nil, os.getenv('NOPE'))

-- == setenv
os.setenv('X', '5') print(os.getenv('X')) os.execute('echo $X')

-- == strict
print(pcall(require('strict').on)) print(pcall(function() return nowhere end))

-- == strict with a declaration
require('strict').on() x = 1 print(x, pcall(loadstring('return y')))

-- == paths
print(package.path:gsub(require('fio').cwd(), 'CWD'):sub(1, 80))

-- == cpaths
print((package.cpath:gsub(require('fio').cwd(), 'CWD')):sub(1, 60))

-- == loaders
print(#package.loaders, package.search('json'), package.searchroot() == require('fio').cwd())

-- == setsearchroot
package.setsearchroot('d') print(package.searchroot() == require('fio').cwd() .. '/d') print(require('m').x)

-- == require with a dot
print(require('d.m').x, package.loaded['d.m'].x)

-- == require of init
print(require('e').y)

-- == require of a rock
print(require('rock').z)

-- == require twice
print(require('d.m') == require('d.m'))

-- == require missing
print((select(2, pcall(require, 'nope')):gsub(require('fio').cwd(), 'CWD'):sub(1, 300)))

-- == dofile
print(pcall(dofile, 'nope.lua')) print(dofile('d/m.lua').x)

-- == loadfile
print(loadfile('nope.lua')) print(loadfile('bad.lua'))

-- == source dir
print(debug.sourcefile(), debug.sourcedir(), debug.__file__, debug.__dir__)

-- == globals
local t = {} for k in pairs(_G) do t[#t + 1] = tostring(k) end table.sort(t) print(table.concat(t, ' '))

-- == loaded
local t = {} for k in pairs(package.loaded) do t[#t + 1] = k end table.sort(t) print(table.concat(t, ' '))

-- == os members
local t = {} for k in pairs(os) do t[#t + 1] = k end table.sort(t) print(table.concat(t, ' '))

-- == debug members
local t = {} for k in pairs(debug) do t[#t + 1] = k end table.sort(t) print(table.concat(t, ' '))

-- == package members
local t = {} for k in pairs(package) do t[#t + 1] = k end table.sort(t) print(table.concat(t, ' '))

-- == string members
local t = {} for k in pairs(string) do t[#t + 1] = k end table.sort(t) print(table.concat(t, ' '))

-- == table members
local t = {} for k in pairs(table) do t[#t + 1] = k end table.sort(t) print(table.concat(t, ' '))

-- == box before
local t = {} for k in pairs(box) do t[#t + 1] = k end table.sort(t) print(table.concat(t, ' '))

-- == box after
box.cfg{log = 'l'} local t = {} for k in pairs(box) do t[#t + 1] = k end table.sort(t) print(table.concat(t, ' '))
os.exit()

-- == box internal
local t = {} for k in pairs(box.internal) do t[#t + 1] = k end table.sort(t) print(table.concat(t, ' '))

-- == tarantool
local t = require('tarantool') print(t.version:sub(1, 5), t.package, t.pid() > 0, t.uptime() >= 0, _TARANTOOL:sub(1,
5))

-- == box before box.cfg
print(pcall(function() return box.space end))

-- == box.info before
print(pcall(box.info))

-- == box.execute before
print(box.execute('select 1').rows[1]) os.exit()

-- == box.cfg is a function
print(type(box.cfg)) box.cfg{log = 'l'} print(type(box.cfg), pcall(function() box.cfg.x = 1 end)) os.exit()

-- == box.cfg of text
print(pcall(box.cfg, 'x'))

-- == box.cfg of a number
print(pcall(box.cfg, 5))

-- == box.cfg of nothing
box.cfg() print(box.info.status) os.exit()

-- == box.cfg shows
box.cfg{log = 'l'} print(require('yaml').encode(box.cfg)) os.exit()

-- == box.cfg twice at once
local f = require('fiber') local c = f.channel(2) for i = 1, 2 do f.create(function() box.cfg{log = 'l',
checkpoint_count = i} c:put(i) end) end print(c:get(), c:get(), box.cfg.checkpoint_count) os.exit()

-- == stays up for box.cfg
box.cfg{log = 'l'} require('fiber').create(function() require('fiber').sleep(0.1) print(1) os.exit() end)

-- == popen
local p = require('popen').shell('echo hi; exit 3', 'r') print(p:read()) print(p:wait().exit_code)

-- == lua version
print(_VERSION, jit.version:sub(1, 10), jit.status())

-- == gc
print(collectgarbage('count') > 0)

-- == title
local t = require('title') print(t.get():gsub('.*/', ''), t.get_interpretor_name and 1) t.update('x')
print((t.get()))

-- == deep error
local function a() error(setmetatable({}, {__tostring = 1})) end a()

-- == traceback
print((debug.traceback('x'):gsub('0x%x+', 'A')))

-- == xpcall traceback
print(select(2, xpcall(function() error('x') end, debug.traceback)))

-- == error with a newline
error('a\nb')

-- == error with bytes
error('\255\0x')

-- == error that is long
error(('x'):rep(2000), 0)

-- == warn of a deprecated option
box.cfg{log = 'l', slab_alloc_arena = 0.1, snapshot_count = 3, logger_nonblock = nil} os.exit()
