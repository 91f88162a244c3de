-- require('test_run').new(): lets a test script control its runner and the nodes of the test.
--
-- Commands go to the runner's inspector (INSPECTOR_HOST, INSPECTOR_PORT): one line out, one YAML
-- document back. Conditions are polled until a deadline; the waiting functions return true, or
-- false and what they saw last, except those that a script calls for their effect alone.
local fiber = require('fiber')
local log = require('log')
local yaml = require('yaml')

local TIMEOUT = 60      -- the default timeout of the wait_* functions, seconds
local POLL = 0.01       -- seconds between two checks of a condition
local LOG_TAIL = 65536  -- bytes at the end of a log that are searched

-- ---- talking to the inspector ---------------------------------------------------------------

local function exchange_by_socket(host, port, line)
    local socket = require('socket').tcp_connect(host, port)
    if not socket then
        error('cannot connect to the inspector', 0)
    end
    socket:write(line)
    local reply = socket:read('\n...\n')
    socket:close()
    return reply
end

local function exchange(inspector, line)
    local host, port = inspector.host, tonumber(inspector.port)
    local ok, python = pcall(require, 'internal.python')
    if ok and python.console_exchange then
        return require('internal.wait')(python.console_exchange(host, port, line))
    end
    return exchange_by_socket(host, port, line)
end

local function command(inspector, text)
    local reply = exchange(inspector, (text:gsub('\\?\n', ' ')) .. '\n')
    if reply == nil or reply == '' then
        error('the inspector does not answer', 0)
    end
    return yaml.decode(reply)
end

local function quote(text)
    return '"' .. text:gsub('[\\"]', '\\%0') .. '"'
end

-- ---- methods: commands ----------------------------------------------------------------------

local methods = {}

-- Returns the value of the reply; raises a failure as a string.
function methods:cmd(text)
    local result = command(self, text)
    if type(result) == 'table' and result.error ~= nil then
        error(result.error, 0)
    end
    return result
end

-- Returns the list of the values of `expression` on a node; for an error, `{{error = text}}`.
function methods:eval(node, expression)
    return self:cmd(('eval %s %s'):format(node, quote(expression)))
end

local function eval_one(self, node, expression)
    local result = self:eval(node, expression)
    return result and result[1]
end

function methods:switch(node)
    return self:cmd(('switch %s'):format(node))
end

methods.switch_server = methods.switch

function methods:get_cfg(name)
    if self.run_conf == nil then
        self.run_conf = self:cmd(('config %s'):format(name))
    end
    return self.run_conf[name]
end

-- Returns a list with one element: `box.info` of a node, or a member of it.
function methods:get_param(node, name)
    return self:eval(node, name and ('return box.info.%s'):format(name) or 'return box.info')
end

function methods:get_server_name()
    return os.getenv('TEST_SERVER_NAME')
end

-- ---- methods: positions ---------------------------------------------------------------------

-- Returns the lsn up to which a node has the rows of an instance, nil if it has none.
function methods:get_lsn(node, id)
    return tonumber(self:get_vclock(node)[tonumber(id)])
end

function methods:get_vclock(node)
    return eval_one(self, node, 'box.info.vclock')
end

local function vclock_reached(vclock, target)
    for id, lsn in pairs(target) do
        if id ~= 0 and (vclock[id] or 0) < lsn then
            return false
        end
    end
    return true
end

local function poll(condition, timeout, delay)
    local deadline = fiber.time() + (timeout or TIMEOUT)
    while true do
        local results = {pcall(condition)}
        if results[1] and results[2] then
            return true, results
        elseif fiber.time() >= deadline then
            return false, results
        end
        fiber.sleep(delay or POLL)
    end
end

-- Returns the id of a node. A starting node may not have one yet: nil if it gets none in time.
function methods:get_server_id(node)
    local id
    poll(function()
        id = tonumber(eval_one(self, node, 'box.info.id'))
        return id
    end)
    return id
end

-- Waits until `waiter` has all rows that `master` has originated.
function methods:wait_lsn(waiter, master)
    local id = self:get_server_id(master)
    local lsn = self:get_lsn(master, id) or 0
    local reached = poll(function()
        return (self:get_lsn(waiter, id) or 0) >= lsn
    end)
    if not reached then
        error(('%s has not reached lsn %s of %s'):format(waiter, lsn, master), 0)
    end
end

function methods:wait_vclock(node, target)
    local reached = poll(function()
        return vclock_reached(self:get_vclock(node), target)
    end)
    if not reached then
        error(('%s has not reached the vclock'):format(node), 0)
    end
end

function methods:get_cluster_vclock(nodes)
    local result = {}
    for _, node in pairs(nodes) do
        for id, lsn in pairs(self:get_vclock(node)) do
            if id ~= 0 and lsn > (result[id] or 0) then
                result[id] = lsn
            end
        end
    end
    return setmetatable(result, {__serialize = 'map'})
end

function methods:wait_cluster_vclock(nodes, target)
    for _, node in pairs(nodes) do
        self:wait_vclock(node, target)
    end
    return target
end

-- ---- methods: conditions --------------------------------------------------------------------

-- Calls `condition` by pcall until it returns something true. Returns its last results; raises its last error.
function methods:wait_cond(condition, timeout, delay)
    assert(type(condition) == 'function')
    local _, results = poll(condition, timeout, delay)
    if not results[1] then
        error(results[2])
    end
    -- As in Tarantool's runner, trailing nils are no results: nothing is shown for a condition that returned nil.
    table.remove(results, 1)
    return unpack(results)
end

local function matches(info, options)
    if info == nil then
        return false
    elseif options.status and info.status ~= options.status then
        return false
    elseif type(options.message_re) == 'nil' then
        return true
    elseif options.message_re == nil then -- box.NULL: no message at all
        return info.message == nil
    end
    return info.message ~= nil and tostring(info.message):match(options.message_re) ~= nil
end

local function wait_side(side, absent)
    return function(_, id, options, timeout)
        options = options or {}
        local replica
        local reached = poll(function()
            replica = box.info.replication[id]
            local info = replica and replica[side]
            if options[absent] then
                return info == nil
            end
            return matches(info, options)
        end, options.timeout or timeout)
        if reached then
            return true
        end
        return false, replica
    end
end

methods.wait_upstream = wait_side('upstream', 'no_upstream')
methods.wait_downstream = wait_side('downstream', 'no_downstream')

-- Waits until `node` follows the instance `id`. Returns false if it has stopped.
local function wait_follows(self, node, id)
    local expression = ('(box.info.replication[%d].upstream or {status = "none"}).status'):format(id)
    local status
    poll(function()
        status = eval_one(self, node, expression)
        return status == 'follow' or status == 'stopped'
    end)
    if status == 'stopped' then
        return false
    end
    return status == 'follow' or nil
end

-- Waits until every node follows every other one. Returns false, and waits no longer, if one of them has stopped.
function methods:wait_fullmesh(nodes)
    log.info('starting full mesh')
    for _, other in ipairs(nodes) do
        local id = self:get_server_id(other)
        log.info('%s: bootstrapped', other)
        for _, node in ipairs(nodes) do
            local follows = node == other or wait_follows(self, node, id)
            if follows == false then
                log.info('fullmesh failed to connect %s -> %s', node, other)
                return false
            elseif not follows then
                error(('%s does not follow %s'):format(node, other), 0)
            end
        end
    end
    log.info('full mesh connected')
end

-- ---- methods: clusters ----------------------------------------------------------------------

-- Creates the nodes of a cluster, all of them before the first is started. With `return_listen_uri`, returns their
-- addresses.
function methods:create_cluster(nodes, suite, options)
    options = options or {}
    local arguments = options.args and (', args="%s"'):format(options.args) or ''
    local create = 'create server %s with script="%s/%s.lua"' ..
        (options.return_listen_uri and ', return_listen_uri=True' or '')
    local addresses = {}
    for i, node in ipairs(nodes) do
        addresses[i] = self:cmd(create:format(node, suite or 'replication', node))
    end
    for _, node in ipairs(nodes) do
        self:cmd(('start server %s with wait_load=False, wait=False%s'):format(node, arguments))
    end
    if options.return_listen_uri then
        return addresses
    end
end

methods.deploy_cluster = methods.create_cluster

-- Stops and removes the nodes of a cluster; nodes that are stopped already are skipped.
function methods:drop_cluster(nodes)
    for _, node in ipairs(nodes) do
        pcall(self.cmd, self, ('stop server %s'):format(node))
        self:cmd(('cleanup server %s'):format(node))
        self:cmd(('delete server %s'):format(node))
    end
end

-- Removes every other member from the cluster of this node.
function methods:cleanup_cluster()
    local cluster = box.space._cluster
    for _, member in cluster:pairs() do
        if member[1] ~= box.info.id then
            cluster:delete(member[1])
        end
    end
end

-- ---- methods: files -------------------------------------------------------------------------

local function read_tail(path, bytes)
    local file, reason = io.open(path, 'rb')
    if not file then
        error(('cannot open %s: %s'):format(path, reason), 0)
    end
    local size = file:seek('end')
    file:seek('set', math.max(0, size - (bytes or LOG_TAIL)))
    local text = file:read('*a')
    file:close()
    return text
end

-- Returns the last match of a pattern in the log of a node, since its start.
function methods:grep_log(node, pattern, bytes, options)
    options = options or {}
    local path = options.filename or self:cmd(('get_log server %s'):format(node))
    local found
    for line in read_tail(path, bytes):gmatch('[^\n]+') do
        if not options.noreset and line:find('Starting instance', 1, true) then
            found = nil
        else
            found = line:match(pattern) or found
        end
    end
    return found
end

-- Waits for a match; returns nil if there is none in time.
function methods:wait_log(node, pattern, bytes, timeout, options)
    assert(timeout ~= nil)
    return self:wait_cond(function()
        return self:grep_log(node, pattern, bytes, options)
    end, timeout, options and options.delay)
end

function methods:copy_file(from, to)
    local source, reason = io.open(from, 'rb')
    if not source then
        error(('cannot open %s: %s'):format(from, reason), 0)
    end
    local target
    target, reason = io.open(to, 'wb')
    if not target then
        source:close()
        error(('cannot open %s: %s'):format(to, reason), 0)
    end
    target:write(source:read('*a'))
    target:close()
    source:close()
end

-- ---- the module -----------------------------------------------------------------------------

local method_table = {__index = methods}

local function new(host, port)
    local inspector = {
        host = host or os.getenv('INSPECTOR_HOST') or 'localhost',
        port = port or tonumber(os.getenv('INSPECTOR_PORT')),
    }
    if inspector.port == nil then
        error('Inspector not started')
    end
    return setmetatable(inspector, method_table)
end

return {new = new}
