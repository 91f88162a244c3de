-- The log: levels, formats, destinations, log.cfg before and after box.cfg.

-- == kinds
log = require('log') for _, n in ipairs{'error', 'warn', 'info', 'verbose', 'debug'} do log[n]('x %d', 5) end

-- == kinds with a file
box.cfg{log = 'l', log_level = 6} local log = require('log') log.level(7) for _, n in ipairs{'error', 'warn', 'info', 'verbose',
'debug'} do log[n](n) end os.exit()

-- == kinds in json
box.cfg{log = 'l', log_format = 'json'} local log = require('log') for _, n in ipairs{'error', 'warn', 'info',
'debug'} do log[n](n) end os.exit()

-- == json of a table
box.cfg{log = 'l', log_format = 'json'} local log = require('log') log.info{a = 1, message = 'm', time = 5, level =
'x', pid = 3} log.info{1, 2} log.info{} log.error{b = {c = {1}}} log.info{message = {1}} os.exit()

-- == json of values
box.cfg{log = 'l', log_format = 'json'} local log = require('log') log.info(5) log.info(nil) log.info(true)
log.info('a"b\n\1\255é') os.exit()

-- == json with an error
box.cfg{log = 'l', log_format = 'json'} require('fiber').create(function() error('x') end)
require('fiber').create(function() box.error(1, 'y') end) os.exit()

-- == json before box.cfg
local log = require('log') log.cfg{format = 'json'} log.info('x') log.info{a = 1} log.warn('y')

-- == plain of a table
box.cfg{log = 'l'} local log = require('log') log.info{a = 1} log.info{level = 1, file = 2} log.info(nil)
log.info(5LL) log.info('%s', 1) log.info('%d%%') os.exit()

-- == bad format
local log = require('log') print(pcall(log.info, '%d', 'x')) print(pcall(log.info, '%y', 'x')) print(pcall(log.info,
'%d %d', 1))

-- == no argument
local log = require('log') print(pcall(log.info)) log.info('%d') log.info('100%')

-- == lines
box.cfg{log = 'l'} require('log').info('a\nb\n\nc') require('log').warn('\n') require('log').info('') os.exit()

-- == long line
box.cfg{log = 'l'} require('log').info(('x'):rep(2000)) os.exit()

-- == text with zeros
box.cfg{log = 'l'} require('log').info('a\0b') os.exit()

-- == place of a function
box.cfg{log = 'l'} local function f() require('log').warn('in f') end f() require('d.logs')() os.exit()

-- == place of a string
box.cfg{log = 'l'} loadstring('require("log").warn("s")')() loadstring('require("log").warn("s")', '=name')()
loadstring('require("log").warn("s")', '@x/y.lua')() os.exit()

-- == fiber names
box.cfg{log = 'l'} local f = require('fiber') f.create(function() f.name('me') require('log').info('x')
f.name(('n'):rep(40), {truncate = true}) require('log').info('y') end) os.exit()

-- == level
local log = require('log') log.level('debug') log.debug('d') log.level(4) log.info('no') log.warn('w')
print(pcall(log.level, 'x'), pcall(log.level, {}), pcall(log.level)) print(log.cfg.level)

-- == level after box.cfg
box.cfg{log = 'l'} local log = require('log') log.level('debug') log.debug('d') print(box.cfg.log_level,
log.cfg.level) log.level(9) print(box.cfg.log_level) log.level(-3) print(box.cfg.log_level) os.exit()

-- == log_format
local log = require('log') print(pcall(log.log_format, 'x')) log.log_format('json') log.info('j')
log.log_format('plain') log.info('p') print(log.cfg.format)

-- == log_format after box.cfg
box.cfg{log = 'l'} local log = require('log') log.log_format('json') log.info('j') box.cfg{log_format = 'plain'}
log.info('p') print(log.cfg.format) os.exit()

-- == cfg
local log = require('log') log.cfg{} print(log.cfg.level, log.cfg.format, log.cfg.log, log.cfg.nonblock)
log.info('x')

-- == cfg level
local log = require('log') print(pcall(log.cfg, {level = 'debug'})) print(log.cfg.level) log.debug('x')

-- == cfg level number
local log = require('log') print(pcall(log.cfg, {level = 7})) print(log.cfg.level) log.debug('x')

-- == cfg level later
local log = require('log') log.cfg{} print(pcall(log.cfg, {level = 'debug'})) print(log.cfg.level) log.debug('x')

-- == cfg wrong
local log = require('log') print(pcall(log.cfg, {level = 'x'})) print(pcall(log.cfg, {format = 'x'}))
print(pcall(log.cfg, {format = 5})) print(pcall(log.cfg, {nonblock = 5})) print(pcall(log.cfg, {log = 5}))
print(pcall(log.cfg, {nope = 5})) print(pcall(log.cfg, 5)) print(pcall(log.cfg, {level = {}}))

-- == cfg file
local log = require('log') log.cfg{log = 'l'} log.info('x') print(log.cfg.log) box.cfg{} log.info('y')
print(box.cfg.log) os.exit()

-- == cfg file twice
local log = require('log') log.cfg{log = 'l'} print(pcall(log.cfg, {log = 'm'})) print(pcall(log.cfg, {log = 'l'}))
print(pcall(log.cfg, {nonblock = true}))

-- == cfg file and box.cfg
local log = require('log') log.cfg{log = 'l'} print(pcall(box.cfg, {log = 'm'})) print(pcall(box.cfg, {log = 'l'}))
os.exit()

-- == cfg empty
local log = require('log') log.cfg{log = ''} log.info('x') print(log.cfg.log)

-- == cfg and box.cfg
local log = require('log') log.cfg{log = 'l', level = 6, format = 'json'} box.cfg{} log.verbose('x')
print(box.cfg.log_level, box.cfg.log_format, box.cfg.log) os.exit()

-- == cfg and box.cfg again
local log = require('log') log.cfg{log = 'l', level = 6} box.cfg{log_level = 5} log.verbose('x')
print(log.cfg.level) log.cfg{level = 7} print(box.cfg.log_level) os.exit()

-- == cfg after box.cfg
box.cfg{log = 'l'} local log = require('log') print(pcall(log.cfg, {log = 'm'})) print(pcall(log.cfg, {level = 6}))
print(box.cfg.log_level) log.verbose('v') print(pcall(log.cfg, {format = 'json'})) log.info('j') os.exit()

-- == cfg shows
local log = require('log') print(require('json').encode(log.cfg)) log.cfg{level = 6} local t = {} for k in
pairs(log.cfg) do t[#t + 1] = k end table.sort(t) print(unpack(t))

-- == cfg command
local log = require('log') log.cfg{log = '| cat > out.txt'} log.info('x') print(log.pid() > 0)
require('fiber').sleep(0.1)

-- == cfg bad file
local log = require('log') print(pcall(log.cfg, {log = 'no/l'}))

-- == cfg nonblock
local log = require('log') print(pcall(log.cfg, {log = 'l', nonblock = true})) print(log.cfg.nonblock)

-- == cfg bad kind
local log = require('log') print(pcall(log.cfg, {log = 'nope:x'})) print(pcall(log.cfg, {log = 'syslog:x=1'}))

-- == cfg syslog json
local log = require('log') print(pcall(log.cfg, {log = 'syslog:', format = 'json'}))

-- == members
local t = {} for k in pairs(require('log')) do t[#t + 1] = k end table.sort(t) print(unpack(t))
print(require('log').logger_pid())

-- == empty log
print(pcall(box.cfg, {log = ''}))

-- == empty log level
print(pcall(box.cfg, {log_level = ''}))

-- == level text
box.cfg{log = 'l', log_level = 'verbose'} require('log').verbose('x') print(box.cfg.log_level,
require('log').cfg.level) os.exit()

-- == level out of bounds
box.cfg{log = 'l', log_level = 99} require('log').debug('x') print(box.cfg.log_level, require('log').cfg.level)
os.exit()

-- == level 0
box.cfg{log = 'l', log_level = 0} require('log').error('x') print(box.cfg.log_level) os.exit()

-- == level negative
box.cfg{log = 'l', log_level = -5} require('log').error('x') print(box.cfg.log_level) os.exit()

-- == level fraction
box.cfg{log = 'l', log_level = 5.7} require('log').info('x') print(box.cfg.log_level) os.exit()

-- == bad level
print(pcall(box.cfg, {log_level = 'x'})) print(pcall(box.cfg, {log_level = {}})) print(pcall(box.cfg, {log_level =
true}))

-- == bad format option
print(pcall(box.cfg, {log_format = 'x'})) print(pcall(box.cfg, {log_format = 5}))

-- == bad log
print(pcall(box.cfg, {log = 5})) print(pcall(box.cfg, {log = {}}))

-- == bad kind
print(pcall(box.cfg, {log = 'nope:x'})) print(pcall(box.cfg, {log = 'pipe'}))

-- == syslog with json
print(pcall(box.cfg, {log = 'syslog:', log_format = 'json'}))

-- == syslog options
print(pcall(box.cfg, {log = 'syslog:nope=1'})) print(pcall(box.cfg, {log = 'syslog:identity='}))
print(pcall(box.cfg, {log = 'syslog:facility=x'}))

-- == syslog without a server
print(pcall(box.cfg, {log = 'syslog:server=unix:./no.sock'}))

-- == nonblock with a file
print(pcall(box.cfg, {log = 'l', log_nonblock = true}))

-- == nonblock false with a file
print(pcall(box.cfg, {log = 'l', log_nonblock = false})) print(box.cfg.log_nonblock) os.exit()

-- == nonblock of a wrong type
print(pcall(box.cfg, {log = 'l', log_nonblock = 5}))

-- == folder as log
print(pcall(box.cfg, {log = '.'}))

-- == file with a kind
box.cfg{log = 'file:l'} print(box.cfg.log) os.exit()

-- == pipe
box.cfg{log = '| cat > out.txt'} require('log').info('x') print(require('log').pid() > 0)
require('fiber').sleep(0.2) os.exit()

-- == pipe with a kind
box.cfg{log = 'pipe: cat > out.txt'} require('log').info('x') require('fiber').sleep(0.2) os.exit()

-- == pipe that ends
box.cfg{log = '| exit 0'} require('fiber').sleep(0.2) require('log').info('x') print('on') os.exit()

-- == rotate
box.cfg{log = 'l'} require('log').info('a') require('fio').rename('l', 'l.1') require('log').rotate()
require('fiber').sleep(0.1) require('log').info('b') os.exit()

-- == rotate stderr
require('log').rotate() box.cfg{} require('log').rotate() require('log').info('on') os.exit()

-- == level changes
box.cfg{log = 'l'} box.cfg{log_level = 7} box.cfg{log_level = 'info'} box.cfg{log_level = 5} box.cfg{log_format =
'json'} box.cfg{log_format = 'plain'} os.exit()

-- == wrong changes
box.cfg{log = 'l'} print(pcall(box.cfg, {log = 'm'})) print(pcall(box.cfg, {log = 'l'})) print(pcall(box.cfg,
{log_nonblock = true})) print(pcall(box.cfg, {log_level = 'x'})) print(pcall(box.cfg, {log_format = 'x'}))
print(box.cfg.log, box.cfg.log_level) os.exit()

-- == appends
box.cfg{log = 'l'} require('log').info('x') os.execute('echo other >> l') require('log').info('y') os.exit()

-- == verbose start
box.cfg{log = 'l', log_level = 6} os.exit()

-- == warnings only
box.cfg{log = 'l', log_level = 4} os.exit()

-- == print goes elsewhere
box.cfg{log = 'l'} print('out') io.stderr:write('err\n') os.exit()

-- == on stderr
box.cfg{} require('log').info('x') print('out') os.exit()
