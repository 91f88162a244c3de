-- Writes the public names of an instance to the file of the first argument, one a line: fields of `box` and of modules with
-- dots, methods of objects with a colon, options of box.cfg, settings of sessions.
local MODULES = {
    'buffer', 'checks', 'clock', 'compat', 'console', 'crypto', 'csv', 'datetime', 'decimal', 'digest', 'errno', 'fiber',
    'fio', 'fun', 'http.client', 'iconv', 'json', 'key_def', 'log', 'luadebug', 'merger', 'metrics', 'misc', 'msgpack',
    'net.box', 'pickle', 'popen', 'pwd', 'socket', 'string', 'swim', 'sysprof', 'table', 'tap', 'tarantool', 'timezones',
    'title', 'uri', 'utf8', 'uuid', 'xlog', 'yaml',
}
-- Internals, and what differs from instance to instance.
local HIDDEN = {internal = true, _internal = true, _method = true, ['table.lib'] = true}

local names, seen = {}, {}

local function note(name)
    names[name] = true
end

local function walk(path, values, depth)
    if seen[values] or depth > 4 then
        return
    end
    seen[values] = true
    local keys = {}
    local function add(holder)
        for key in pairs(holder) do
            keys[#keys + 1] = type(key) == 'string' and key or nil
        end
    end
    add(values)
    -- Names of later versions, which `pairs` does not list.
    local is_partial = values == box or values == box.error or values == package.loaded.log
    local metatable = is_partial and debug.getmetatable(values)
    if metatable and type(metatable.__index) == 'table' then
        add(metatable.__index)
    end
    table.sort(keys)
    for _, key in ipairs(keys) do
        local value = values[key]
        if not HIDDEN[key] and not key:find('^_[^vs]') then
            note(path .. key)
            if type(value) == 'table' then
                walk(path .. key .. '.', value, depth + 1)
            end
        end
    end
end

local function methods_of(name, object, listed)
    for _, method in ipairs(listed) do
        local ok, value = pcall(function() return object[method] end)
        if ok and value ~= nil then
            note(name .. ':' .. method)
        end
    end
    local metatable = debug.getmetatable(object)
    local class = type(metatable) == 'table' and metatable.__index
    if type(class) == 'table' then
        for method in pairs(class) do
            if type(method) == 'string' and not method:find('^_') then
                note(name .. ':' .. method)
            end
        end
    end
end

box.cfg{log = 'log', listen = 'unix/:./census.sock', memtx_memory = 67108864}
box.schema.user.grant('guest', 'super')
local space = box.schema.space.create('census', {format = {{'id', 'unsigned'}}})
local index = space:create_index('pk')
local fiber = require('fiber')
local connection = require('net.box').connect('unix/:./census.sock')

-- What is made at the first use.
local _ = box.iproto and box.iproto.key
pcall(function() require('msgpack').cfg{encode_error_as_ext = true} end)
if not pcall(box.schema.func.create, 'census', {takes_raw_args = true}) then -- 2.8.1 has no such option
    box.schema.func.create('census')
end
for _, name in ipairs({'txn_timeout', 'txn_isolation'}) do
    pcall(box.cfg, {[name] = name == 'txn_timeout' and 1000 or 'best-effort'})
end

for _, module in ipairs(MODULES) do
    local ok, values = pcall(require, module)
    if ok and type(values) == 'table' then
        note(module)
        walk(module .. '.', values, 1)
    end
end
walk('box.', box, 0)
for name in pairs(box.cfg) do
    note('box.cfg.' .. name)
end
for _, name in ipairs({'id', 'version', 'schema_version', 'election', 'synchro'}) do
    local ok, value = pcall(function() return box.info[name] end)
    if ok and value ~= nil then
        note('box.info.' .. name)
    end
end
for name in pairs(box.stat()) do
    note('box.stat.' .. name)
end
for _, name in ipairs({'sql_seq_scan', 'sql_full_metadata'}) do
    if box.space._session_settings:get(name) ~= nil then
        note('_session_settings.' .. name)
    end
end
methods_of('space', space, {})
methods_of('index', index, {})
methods_of('tuple', space:replace{1}, {
    'bsize', 'find', 'findall', 'format', 'info', 'next', 'pairs', 'slice', 'tomap', 'totable', 'transform', 'unpack',
    'update', 'upsert',
})
methods_of('fiber', fiber.self(), {
    'cancel', 'csw', 'id', 'info', 'join', 'name', 'set_joinable', 'set_max_slice', 'status', 'storage', 'testcancel',
    'wakeup',
})
methods_of('error', box.error.new{code = 1, reason = 'x'}, {'match', 'raise', 'set_prev', 'unpack', 'prev', 'trace'})
methods_of('connection', connection, {
    'call', 'close', 'eval', 'new_stream', 'on_shutdown', 'peer_protocol_features', 'peer_protocol_version', 'watch',
})
if connection.new_stream then
    methods_of('stream', connection:new_stream(), {'begin', 'commit', 'rollback'})
end
methods_of('http', require('http.client').new(), {'decoders', 'encoders'})

local sorted = {}
for name in pairs(names) do
    sorted[#sorted + 1] = name
end
table.sort(sorted)
local file = io.open(arg[1], 'w')
file:write(table.concat(sorted, '\n'), '\n')
file:close()
os.exit(0)
