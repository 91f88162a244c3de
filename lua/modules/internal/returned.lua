-- returned(pcall(f, ...)): what the protected call returned; its error is raised again as it is.
local error = error

return function(ok, ...)
    if not ok then
        error((...), 0)
    end
    return ...
end
