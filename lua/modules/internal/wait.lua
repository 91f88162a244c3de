-- `wait(python.f(...))` completes a bound call. It returns values, raises `false, bytes` as an error object, and waits
-- for a token, which is a negative number.
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
