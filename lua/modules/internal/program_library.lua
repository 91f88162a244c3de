-- os.execute and io.popen. On a simulated machine, which has no other programs, they fail; elsewhere they are Lua's
-- own.
local python = require('internal.python')
local wait = require('internal.wait')

if python.refuse ~= nil then
    -- Refuses to run a command; a call without a command asks whether there is a shell.
    function os.execute(command)
        if command == nil then
            return 0
        end
        wait(python.refuse('os.execute()'))
    end

    function io.popen()
        wait(python.refuse('io.popen()'))
    end
end

return true
