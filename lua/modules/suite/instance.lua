-- How the suite runner starts an instance script: `EXE instance.lua SCRIPT ARGUMENTS...`.
--
-- All instances of a test share a working directory, so that a script knows the places of the sockets of the
-- others. Unless its script says otherwise, an instance keeps its data in a directory below, named TEST_INSTANCE,
-- and its process id in the file of that name with `.pid`. arg[0] is the file name of the script, as if it had been
-- started by itself.
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
