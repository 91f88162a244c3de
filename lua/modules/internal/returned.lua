-- returned(pcall(f, ...)) returns the results of the protected call, or raises its error unchanged.
local error = error

return function(ok, ...)
    if not ok then
        error((...), 0)
    end
    return ...
end
