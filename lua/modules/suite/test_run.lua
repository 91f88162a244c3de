-- require('test_run').new(): lets a test script control its runner and the nodes of the test.
--
-- Commands go to the runner's inspector (INSPECTOR_HOST, INSPECTOR_PORT): one line out, one YAML
-- document back. Conditions are polled until a deadline; the waiting functions return true, or
-- false and what they saw last, except those that a script calls for their effect alone.
local fiber = require('fiber')
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

local function exchange(line)
    local host, port = os.getenv('INSPECTOR_HOST'), os.getenv('INSPECTOR_PORT')
    if not host or not port then
        error('INSPECTOR_HOST and INSPECTOR_PORT are not set: not run by a test runner', 0)
    end
    local ok, python = pcall(require, 'internal.python')
    if ok and python.console_exchange then
        return require('internal.wait')(python.console_exchange(host, tonumber(port), line))
    end
    return exchange_by_socket(host, tonumber(port), line)
end

local function command(text)
    local reply = exchange((text:gsub('\\?\n', ' ')) .. '\n')
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
    local result = command(text)
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
    local value = self:cmd(('config %s'):format(name))
    if value == nil then
        return nil
    end
    return value
end

methods.get_param = methods.get_cfg

function methods:get_server_name()
    return os.getenv('TEST_SERVER_NAME')
end

-- ---- methods: positions ---------------------------------------------------------------------

function methods:get_lsn(node, id)
    return eval_one(self, node, ('box.info.vclock[%d] or 0'):format(id))
end

function methods:get_vclock(node)
    local vclock = eval_one(self, node, 'box.info.vclock')
    if type(vclock) == 'table' then
        setmetatable(vclock, nil)
    end
    return vclock
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

-- Returns the id of a node. A starting node may not have one yet.
function methods:get_server_id(node)
    local id
    poll(function()
        id = eval_one(self, node, 'box.info.id')
        return type(id) == 'number'
    end)
    return id
end

-- Waits until `waiter` has all rows that `master` has originated.
function methods:wait_lsn(waiter, master)
    local id = self:get_server_id(master)
    local lsn = self:get_lsn(master, id)
    local reached = poll(function()
        return self:get_lsn(waiter, id) >= lsn
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
    return self:get_cluster_vclock(nodes)
end

-- ---- methods: conditions --------------------------------------------------------------------

-- Calls `condition` by pcall until it returns something true. Returns its results, or false and its
-- last results.
function methods:wait_cond(condition, timeout, delay)
    local reached, results = poll(condition, timeout, delay)
    if reached then
        return unpack(results, 2, table.maxn(results))
    end
    return false, results[2]
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
        local info
        local reached = poll(function()
            local replica = box.info.replication[id]
            info = replica and replica[side]
            if options[absent] then
                return info == nil
            end
            return matches(info, options)
        end, options.timeout or timeout)
        if reached then
            return true
        end
        return false, info
    end
end

methods.wait_upstream = wait_side('upstream', 'no_upstream')
methods.wait_downstream = wait_side('downstream', 'no_downstream')

-- Waits until every node follows every other one.
function methods:wait_fullmesh(nodes)
    for _, node in pairs(nodes) do
        for _, other in pairs(nodes) do
            if node ~= other then
                local id = self:get_server_id(other)
                local expression = ('(box.info.replication[%d].upstream or {status = "none"}).status'):format(id)
                local reached = poll(function()
                    return eval_one(self, node, expression) == 'follow'
                end)
                if not reached then
                    error(('%s does not follow %s'):format(node, other), 0)
                end
            end
        end
    end
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

function methods:wait_log(node, pattern, bytes, timeout, options)
    local found
    local reached = poll(function()
        found = self:grep_log(node, pattern, bytes, options)
        return found
    end, timeout)
    if not reached then
        error(('the log of %s has no %q'):format(node, pattern), 0)
    end
    return found
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

local function new()
    return setmetatable({}, method_table)
end

return {new = new}
