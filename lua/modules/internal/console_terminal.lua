-- Runs statements of the interactive session: Ctrl-C ends them, errors keep their stack, tables show their values.
local console_rows = require('internal.console_rows')
local interruption = require('internal.interruption')
local lua_error = require('internal.error')
local msgpack = require('internal.msgpack')
local python = require('internal.python')

local getinfo, traceback = debug.getinfo, debug.traceback

-- The frames below a statement on the stack: the console's own.
local BELOW = {
    'console', 'internal/console_terminal', 'internal/interruption', 'internal/protected_call', 'internal/scheduler',
    'internal/parking', 'internal/strand',
}
local is_below = {}
for _, name in ipairs(BELOW) do
    is_below['@builtin/' .. name .. '.lua'] = true
    is_below['@builtin/box/' .. name .. '.lua'] = true
end

-- Returns the place in the user's code, unless it is the single line that was entered.
local function position_of(source)
    for level = 3, 50 do
        local info = getinfo(level, 'Sl')
        if info == nil then
            return ''
        elseif info.what ~= 'C' and info.source:sub(1, 9) ~= '@builtin/' then
            if info.source:sub(1, 1) == '@' then
                return ('%s:%d'):format(info.source:sub(2), info.currentline)
            end
            return source:find('\n') and ('line %d'):format(info.currentline) or ''
        end
    end
    return ''
end

-- Returns the lines of a stack that belong to the user's code.
local function stack_text(problem)
    local lines = {}
    for line in traceback('', 4):gmatch('[^\n]+') do
        local place = line:match('^%s*(%S+%.lua):')
        if place and is_below['@' .. place] then
            break
        end
        lines[#lines + 1] = line
    end
    -- The frames of the protected call of the statement itself.
    while lines[#lines] and lines[#lines]:find("%[C%]: in function '[%a]*call'") do
        lines[#lines] = nil
    end
    local text = lua_error.is(problem) and problem.message or tostring(problem)
    if lua_error.is(problem) and problem.trace[1] then
        text = ('%s (%s, %s:%d)'):format(text, problem.type, problem.trace[1].file, problem.trace[1].line)
    end
    return text .. '\n' .. table.concat(lines, '\n')
end

local function run(chunk, source)
    local function failed(problem)
        local ok, stack = pcall(stack_text, problem)
        python.console_failed(ok and stack or '', position_of(source))
        return problem
    end
    if not python.console_compiles() then
        interruption.prepare(chunk)
    end
    return interruption.run(xpcall, chunk, failed)
end

-- Like `pcall`, for a function that Ctrl-C can end.
local function call(run_remote, ...)
    return interruption.run(pcall, run_remote, ...)
end

-- Returns the text of values as a table.
local function table_text(is_terminal, source, ...)
    local limit = is_terminal and python.console_limit() or 0
    local described, groups = pcall(console_rows.describe, limit, source, ...)
    if not described then
        return 'error: console: ' .. tostring(groups) .. '\n'
    elseif #groups == 0 then
        return ''
    end
    return (python.console_table(msgpack.encode(groups), not not is_terminal))
end

return {run = run, call = call, table_text = table_text}
