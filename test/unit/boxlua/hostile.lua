-- Calls every public function with arguments that nobody would give it; test_hostile.py judges the output. Usage:
-- EXECUTABLE hostile.lua short|full|SEED-COUNT [NAMES]. `short` tries each argument in one of its possible places, by
-- turns; `full` in all of them; SEED-COUNT makes COUNT calls with up to five random arguments. NAMES, separated by
-- commas, are the functions to call; without them all are called. A call may succeed or raise. Its error has to be a
-- box.error or a text, and no text may name anything of Python. Every call has a fiber of its own; a call that waits is
-- cancelled, and one that does not end then is reported and left behind.
local is_full, only = arg[1] == 'full', arg[2] and (',' .. arg[2] .. ',')
local seed, by_chance = arg[1]:match('^(%d+)-(%d+)$')
local clock, ffi, fiber, fio = require('clock'), require('ffi'), require('fiber'), require('fio')
local PATIENCE, STUCK, SLOW = 0.05, 10, 1.5

box.cfg{log = 'hostile.log', log_level = 4, memtx_memory = 256 * 1024 * 1024, checkpoint_interval = 0}

-- ---- arguments ------------------------------------------------------------------------------------------

local function raises() error('raised by the argument') end

local function refusing(fields)
    local metatable = {}
    for _, name in ipairs(fields) do metatable[name] = raises end
    return setmetatable({}, metatable)
end

local function proxy()
    local value = newproxy(true)
    local metatable = getmetatable(value)
    metatable.__index, metatable.__tostring, metatable.__call, metatable.__len = raises, raises, raises, raises
    return value
end

local cycle = {}
cycle[1], cycle.self = cycle, cycle
local function deep(depth)
    local value = {}
    for _ = 1, depth do value = {value} end
    return value
end
ffi.cdef('struct hostile { int32_t number; char text[8]; };')

local memory = ffi.new('char[64]')
local NOTHING = {}
local function arguments()
    return {
        {'nil', NOTHING}, {'box.NULL', box.NULL}, {'true', true}, {'0', 0}, {'-1', -1}, {'half', 0.5}, {'nan', 0 / 0},
        {'inf', 1 / 0}, {'-inf', -1 / 0}, {'2^53', 2 ^ 53}, {'-2^63', -2 ^ 63}, {'1e308', 1e308},
        {'max uint64', 18446744073709551615ULL}, {'min int64', -9223372036854775807LL - 1},
        {'empty', ''}, {'long', ('x'):rep(70000)}, {'bytes', '\255\254\0\1'}, {'format', '%s%d'},
        {'{}', {}}, {'list', {1, 2, 3}}, {'nested list', {{1, 'x'}, {'=', 2, 3}}}, {'map', {a = 1, b = {}}},
        {'nil key map', {[0.5] = 1, [-1] = 2}}, {'cycle', cycle}, {'deep', deep(200)},
        {'refuses index', refusing{'__index', '__newindex', '__len'}}, {'refuses text', refusing{'__tostring', '__concat'}},
        {'refuses serialize', setmetatable({}, {__serialize = raises})},
        {'odd serialize', setmetatable({}, {__serialize = 5})}, {'odd metatable', setmetatable({}, {__metatable = false})},
        {'table key', {[{}] = 1}}, {'nan in list', {0 / 0, 1 / 0}}, {'function in list', {print, {raises}}},
        {'function', raises}, {'coroutine', coroutine.create(raises)}, {'proxy', proxy()}, {'fiber', fiber.create(function() fiber.sleep(0.01) end)},
        {'cdata', ffi.new('struct hostile')}, {'pointer', ffi.cast('char *', memory)}, {'ctype', ffi.typeof('int')},
        {'tuple', box.tuple.new{1, 'x', {}}}, {'error', box.error.new{reason = 'x'}},
        {'decimal', require('decimal').new('1.5')}, {'uuid', require('uuid').new()},
    }
end

-- ---- what is called -------------------------------------------------------------------------------------

-- Functions that are not called: they end the process, read the terminal, start programs or stop the collector.
-- fio.rmtree removes the working directory if the path is empty, as in Tarantool.
local SKIPPED = {}
for name in ([[os.exit os.execute os.tmpname console.start console.eval debug.debug tap.test help box.internal
    socket.internal merger.internal buffer.internal fiber._internal log.box_api fio.c ffi strict.on
    digest.pbkdf2 digest.pbkdf2_hex net.box.establish_connection net.box.create_transport box.once fio.rmtree box.ctl.on_shutdown box.ctl.set_on_shutdown_timeout]]
):gmatch('%S+') do
    SKIPPED[name] = true
end
-- `tap` is missing, because it ends the process after a failed plan; so is help, which is a text.
local MODULES = {
    'fiber', 'net.box', 'msgpack', 'yaml', 'json', 'csv', 'uuid', 'decimal', 'digest', 'crypto', 'clock', 'log', 'errno',
    'fio', 'socket', 'uri', 'iconv', 'fun', 'buffer', 'http.client', 'pickle', 'tarantool', 'title', 'swim', 'key_def',
    'merger', 'utf8', 'xlog', 'console', 'pwd', 'internal.argparse', 'table.clear', 'table.new', 'tuple', 'strict',
    'msgpackffi', 'popen',
}

local functions = {}

local function add(name, call, owner)
    functions[#functions + 1] = {name = name, call = call, owner = owner}
end

local seen = {}
local function walk(name, value, level)
    if SKIPPED[name] or type(value) ~= 'table' or seen[value] or level > 3 then return end
    seen[value] = true
    local names = {}
    for key in next, value do
        if type(key) == 'string' then names[#names + 1] = key end
    end
    table.sort(names)
    for _, key in ipairs(names) do
        local item, full = rawget(value, key), name .. '.' .. key
        if type(item) == 'function' and not SKIPPED[full] and key:sub(1, 1) ~= '_' then
            add(full, item)
        elseif type(item) == 'table' then
            walk(full, item, level + 1)
        end
    end
end

-- Makes an object anew if a call has used it up.
local connection
local objects = {
    {'space', function()
        local space = box.space.hostile
        if space == nil or space.index[0] == nil or space.index.text == nil then
            if space ~= nil then space:drop() end
            space = box.schema.space.create('hostile', {format = {{'id', 'unsigned'}, {'text', 'string', is_nullable = true}}})
            space:create_index('pk')
            space:create_index('text', {parts = {2, 'string'}, unique = false})
        end
        if space:len() > 100 then space:truncate() end
        space:replace{1, 'one'}
        space:replace{2, 'two'}
        return space
    end},
    {'index', function(made) return made.space().index.pk end},
    {'secondary', function(made) return made.space().index.text end},
    {'tuple', function() return box.tuple.new{1, 'x', {3, {}}, box.NULL} end},
    {'sequence', function()
        return box.sequence.hostile or box.schema.sequence.create('hostile')
    end},
    {'fiber', function() return fiber.create(function() fiber.sleep(0.001) end) end},
    {'channel', function() return fiber.channel(1) end},
    {'cond', function() return fiber.cond() end},
    {'connection', function()
        if connection == nil or not connection:is_connected() then
            box.cfg{listen = 'unix/:./hostile.sock'}
            box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
            connection = require('net.box').connect('unix/:./hostile.sock')
        end
        return connection
    end},
    {'future', function(made) return made.connection():eval('return 1', {}, {is_async = true}) end},
    {'remote space', function(made)
        made.space()
        local remote = made.connection()
        remote:reload_schema()
        return remote.space.hostile
    end},
    {'remote index', function(made) return made['remote space']().index[0] end},
    {'error', function() return box.error.new{reason = 'hostile'} end},
    {'socket', function() return require('socket')('AF_INET', 'SOCK_STREAM', 0) end},
    {'file', function() return fio.open('hostile.txt', {'O_CREAT', 'O_RDWR'}, 420) end},
    {'ibuf', function() return require('buffer').ibuf() end},
    {'uuid', function() return require('uuid').new() end},
    {'key_def', function() return require('key_def').new{{fieldno = 1, type = 'unsigned'}} end},
    {'source', function() return require('merger').new_source_fromtable{{1}, {2}} end},
    {'iterator', function() return require('fun').iter{1, 2, 3} end},
    {'crc32', function() return require('digest').crc32.new() end},
    {'murmur', function() return require('digest').murmur.new() end},
    {'sha', function() return require('crypto').digest.sha1.new() end},
    {'cipher', function() return require('crypto').cipher.aes128.cbc.encrypt.new(('k'):rep(16), ('v'):rep(16)) end},
    {'converter', function() return require('iconv').new('UTF-16', 'UTF-8') end},
    {'tap', function() return require('tap').test('hostile') end},
    {'http', function() return require('http.client').new() end},
    {'user', function() return box.schema.user end},
}

local makers = {}
for _, entry in ipairs(objects) do
    local name, make = entry[1], entry[2]
    makers[name] = function() return make(makers) end
end

local function methods_of(object)
    local found, metatable = {}, debug.getmetatable(object)
    local function take(from)
        if type(from) == 'table' then
            for key, value in next, from do
                if type(key) == 'string' and type(value) == 'function' and key:sub(1, 1) ~= '_' then found[key] = true end
            end
        end
    end
    take(object)
    take(metatable)
    take(metatable and rawget(metatable, '__index'))
    take(metatable and rawget(metatable, 'methods'))
    return found
end

-- Methods that are hidden behind an __index function.
local HIDDEN = {
    tuple = box.tuple, uuid = {bin = 1, str = 1, isnil = 1}, fiber = fiber,
    error = {unpack = 1, raise = 1, match = 1, set_prev = 1, is = 1},
    key_def = require('key_def'), ibuf = {alloc = 1, reserve = 1, read = 1, recycle = 1, reset = 1, size = 1, unused = 1},
    channel = {put = 1, get = 1, close = 1, is_closed = 1, size = 1, count = 1, is_full = 1, is_empty = 1, has_readers = 1,
               has_writers = 1},
    cond = {wait = 1, signal = 1, broadcast = 1},
}

local function collect()
    for _, name in ipairs(MODULES) do
        local ok, module = pcall(require, name)
        if ok and type(module) == 'table' then
            walk(name, module, 1)
            local call = debug.getmetatable(module) and debug.getmetatable(module).__call
            if call then add(name, module) end
        elseif ok and type(module) == 'function' then
            add(name, module)
        end
    end
    walk('box', box, 1)
    add('box.error', box.error)
    add('box.cfg', box.cfg)
    for _, name in ipairs({'string', 'table', 'os', 'coroutine'}) do
        walk(name, _G[name], 1)
    end
    for _, name in ipairs({'tonumber64', 'dostring', 'print', 'tostring', 'pairs', 'ipairs', 'newproxy', 'load', 'loadstring',
                           'require', 'pcall', 'xpcall', 'error', 'setmetatable', 'rawset'}) do
        add(name, _G[name])
    end
    for _, entry in ipairs(objects) do
        local name = entry[1]
        local ok, object = pcall(makers[name])
        if ok and object ~= nil then
            local names = methods_of(object)
            for key, value in pairs(HIDDEN[name] or {}) do
                if type(value) ~= 'table' and type(key) == 'string' then names[key] = true end
            end
            local sorted = {}
            for key in pairs(names) do sorted[#sorted + 1] = key end
            table.sort(sorted)
            for _, key in ipairs(sorted) do
                add(name .. ':' .. key, function(self, ...) return self[key](self, ...) end, makers[name])
            end
            if debug.getmetatable(object) and type(object) ~= 'table' and rawget(debug.getmetatable(object), '__call') then
                add(name .. '()', object)
            end
        else
            io.stdout:write('NO OBJECT ', name, ' ', tostring(object), '\n')
        end
    end
end

-- ---- calls ----------------------------------------------------------------------------------------------

local BAD = {'Traceback', '%.py%f[%W]', 'NoneType', 'lupa', 'object has no attribute', 'object is not ', ' object cannot ',
             '%f[%w]%u%l+%u?%l*Error: ', 'unhashable', 'positional argument', 'unsupported operand', 'struct%.error',
             'codec can', 'surrogates not allowed', "'<' not supported", 'Python'}
local GOOD = {'LuajitError: ', 'ClientError: '}

local function is_bad(text)
    for _, pattern in ipairs(BAD) do
        local found = text:match(pattern)
        if found then return found end
    end
end

local calls, finds, stuck = 0, {}, {}

local function judge(what, problem)
    if problem == nil then return end
    local ok, text = pcall(function()
        if type(problem) == 'cdata' and box.error.is and box.error.is(problem) then return problem.message end
        return tostring(problem)
    end)
    local found = ok and type(text) == 'string' and is_bad(text)
    if found then
        finds[#finds + 1] = what
        io.stdout:write('FIND ', what, ': ', text:sub(1, 300):gsub('[^\32-\126]', '?'), '\n')
    end
end

-- Makes one call. Returns true if the function may be called again.
local function try(entry, what, ...)
    local count, given, done, problem = select('#', ...), {...}, false, nil
    calls = calls + 1
    local self
    if entry.owner then
        local ok
        ok, self = pcall(entry.owner)
        if not ok then
            judge('making of ' .. entry.name .. ' after ' .. what, self)
            return
        end
    end
    io.stderr:write(what, '\n')
    local started = clock.proc()
    local runner = fiber.create(function()
        local ok, result
        if entry.owner then
            ok, result = pcall(entry.call, self, unpack(given, 1, count))
        else
            ok, result = pcall(entry.call, unpack(given, 1, count))
        end
        done = true
        if not ok then problem = result end
        if box.is_in_txn() then box.rollback() end
    end)
    local deadline = fiber.clock() + PATIENCE
    while not done and fiber.clock() < deadline do fiber.sleep(0.001) end
    if not done then
        pcall(fiber.cancel, runner)
        deadline = fiber.clock() + STUCK
        while not done and fiber.clock() < deadline do fiber.sleep(0.001) end
        if not done then
            stuck[#stuck + 1] = what
            io.stdout:write('STUCK ', what, '\n')
        end
    end
    if clock.proc() - started > SLOW and not what:find('^log') then
        io.stdout:write(('SLOW %s: %.1f s\n'):format(what, clock.proc() - started))
    end
    judge(what, problem)
end

local function value_of(argument)
    if rawequal(argument[2], NOTHING) then return nil end
    return argument[2]
end

-- Tries each argument in the places that are due.
local function try_places(number, entry)
    local before = #stuck
    try(entry, entry.name .. '()')
    for place, argument in ipairs(arguments()) do
        local label, value = argument[1], value_of(argument)
        local turn = not is_full and (number + place) % 4
        if not turn or turn == 0 then try(entry, ('%s(%s)'):format(entry.name, label), value) end
        if not turn or turn == 1 then try(entry, ('%s(1, %s)'):format(entry.name, label), 1, value) end
        if not turn or turn == 2 then
            try(entry, ("%s('x', %s, %s)"):format(entry.name, label, label), 'x', value, value)
        end
        if not turn or turn == 3 then
            try(entry, ('%s(%s x 4)'):format(entry.name, label), value, value, value, value)
        end
        if #stuck > before + 3 then break end
    end
end

-- Calls a function with random arguments.
local function try_chances(entry, count)
    local before = #stuck
    for _ = 1, count do
        local choice, labels, values = arguments(), {}, {}
        local size = math.random(0, 5)
        for place = 1, size do
            local argument = choice[math.random(#choice)]
            labels[place], values[place] = argument[1], value_of(argument)
        end
        try(entry, ('%s(%s)'):format(entry.name, table.concat(labels, ', ')), unpack(values, 1, size))
        if #stuck > before + 3 then break end
    end
end

collect()
io.stdout:setvbuf('no')
math.randomseed(tonumber(seed or 1))
for number, entry in ipairs(functions) do
    if not only or only:find(',' .. entry.name .. ',', 1, true) then
        if by_chance then try_chances(entry, tonumber(by_chance)) else try_places(number, entry) end
    end
end
print(('%d functions, %d calls, %d finds, %d stuck'):format(#functions, calls, #finds, #stuck))
os.exit(0)
