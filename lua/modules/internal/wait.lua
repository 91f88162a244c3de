-- `wait(python.f(...))`: the end of a bound call. Values are returned, `false, bytes` is raised as an error object,
-- a negative number is the token of something to wait for.
local scheduler = require('internal.scheduler')

local function wait(result, ...)
    if result == false then
        require('internal.error').raise((...))
    end
    if type(result) == 'number' and result < 0 then
        return scheduler.wait(result)
    end
    return result, ...
end

return wait
