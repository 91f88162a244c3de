-- os.execute and io.popen of a machine without other programs: they say so. Elsewhere they are those of Lua.
local python = require('internal.python')
local wait = require('internal.wait')

if python.refuse ~= nil then
    -- Without a command Lua asks whether there is a shell.
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
