-- outermost(f, ...) returns the results of f(...), or raises its error unchanged. `f` finds C functions at the levels
-- above it, as in Tarantool, where C code calls the functions of requests: error(text, 2) and (text, 3) show no place.
local error, pcall = error, pcall

local function finish(_, ok, ...)
    if not ok then
        error((...), 0)
    end
    return ...
end

return function(f, ...)
    return finish(pcall(pcall, f, ...))
end
