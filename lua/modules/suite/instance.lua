-- How the suite runner starts an instance script: `EXE instance.lua SCRIPT ARGUMENTS...`.
--
-- All instances of a test share a working directory, so that a script can tell where the sockets of the
-- others are. What an instance keeps goes to a directory of its own below it, named TEST_INSTANCE, unless its
-- script says otherwise, and its process id to the file of that name with `.pid`. The script finds its own file name in arg[0], as if it had been started by itself.
local directory = os.getenv('TEST_WORKDIR') .. '/' .. os.getenv('TEST_INSTANCE')
local defaults = {wal_dir = directory, memtx_dir = directory, vinyl_dir = directory}

local script = arg[1]
arg[0] = script:match('[^/]*$')
for i = 1, #arg do
    arg[i] = arg[i + 1]
end

local configure = box.cfg
box.cfg = function(options)
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
    return configure(complete)
end

dofile(script)
