-- How the suite runner starts an instance script: `EXE instance.lua SCRIPT ARGUMENTS...`.
--
-- All instances of a test share a working directory, so that a script knows the places of the sockets of the
-- others. Unless its script says otherwise, an instance keeps its data in a directory below, named TEST_INSTANCE, its
-- log in the file of that name with `.log`, and its process id in the one with `.pid`. A start with a wrong
-- configuration ends the process, even inside `pcall`. arg[0] is the file name of the script, as if it had been
-- started by itself.
local fiber = require('fiber')
local log = require('log')

local instance = os.getenv('TEST_INSTANCE')
local directory = os.getenv('TEST_WORKDIR') .. '/' .. instance
local defaults = {
    wal_dir = directory,
    memtx_dir = directory,
    vinyl_dir = directory,
    log = directory .. '.log',
    replication_sync_timeout = tonumber(os.getenv('REPLICATION_SYNC_TIMEOUT')),
}

local script = arg[1]
arg[0] = script:match('[^/]*$')
for i = 1, #arg do
    arg[i] = arg[i + 1]
end

local configure = box.cfg
box.cfg = function(options)
    fiber.name(instance, {truncate = true})
    local complete = {}
    for name, value in pairs(options or {}) do
        complete[name] = value
    end
    for name, value in pairs(defaults) do
        if complete[name] == nil then
            complete[name] = value
        end
    end
    complete.pid_file = directory .. '.pid'
    local ok, result = pcall(configure, complete)
    if not ok then
        log.error('Configuration failed: %s', result)
        os.exit(1)
    end
    return result
end

dofile(script)
