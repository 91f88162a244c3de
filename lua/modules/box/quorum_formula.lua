-- Why a formula of replication_synchro_quorum is wrong, in the words of Lua. Python evaluates formulas (box/instance/quorum.py)
-- and refuses wrong ones, but cannot say what Lua says of them.

-- What Tarantool lets a formula use.
local NAMES = {'ceil', 'floor', 'abs', 'random', 'min', 'max', 'sqrt', 'fmod'}
-- The most replicas that a set may have.
local REPLICAS = 31

local allowed = {}
for _, name in ipairs(NAMES) do
    allowed[name] = math[name]
end

-- Returns a text after the place that Tarantool's own chunk, which begins with the formula, gives it.
local function at_line(line, formula, text)
    local chunk = loadstring(('local expr = [[%s]]'):format(formula) .. ('\n'):rep(line - 1) .. 'error(...)')
    if chunk == nil then
        return 'attempt to call a string value' -- the formula closes the text around it
    end
    return select(2, pcall(chunk, text))
end

local function evaluate(formula, count)
    local run, problem = loadstring('return (' .. formula .. ')')
    if run == nil then
        return nil, at_line(3, formula, ('Failed to load %s:%s'):format(formula, problem))
    end
    local ok, result = pcall(setfenv(run, {N = count, math = allowed}))
    if not ok then
        return nil, result
    elseif type(result) ~= 'number' then
        return nil, at_line(7, formula, 'Expression should return a number')
    end
    return result
end

-- Returns the text for a formula that is no number for some size of the replica set, or nil.
return function(formula)
    for count = 1, REPLICAS do
        local value, problem = evaluate(formula, count)
        if value == nil then
            return tostring(problem)
        end
    end
end
