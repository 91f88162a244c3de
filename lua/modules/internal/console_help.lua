-- `help` and `tutorial` of a console. A table and the terminal show these texts unquoted.

local HELP = [[
To get help, see the Tarantool manual at https://tarantool.io/en/doc/
To start the interactive Tarantool tutorial, type 'tutorial()' here.

Available backslash commands:

  \set language <language>   -- set language (lua or sql)
  \set output <format>       -- set output format (lua[,line|block] or yaml)
  \set delimiter <delimiter> -- set expression delimiter
  \help                      -- show this screen
  \quit                      -- quit interactive console
]]

local outside = {}

-- `session` returns a table of the current session. The console sets its own.
local M = {session = function() return outside end}

-- `help` without parentheses shows the screen, and so does `help()`.
M.help = setmetatable({HELP}, {
    __call = function(self)
        return self
    end,
})

-- The number of the last screen of each session, and the set of all texts that were shown.
local numbers, screens = setmetatable({}, {__mode = 'k'}), {}

-- `tutorial` without parentheses shows the screen of `help`.
local tutorial = setmetatable({HELP}, {
    __call = function(_, wanted)
        local session = M.session()
        local text, number = require('internal.tutorial').show(numbers[session] or 0, wanted)
        numbers[session], screens[text] = number, true
        return text
    end,
})

-- Returns whether a value is a screen of the tutorial.
function M.is_screen(value)
    return screens[value] == true
end

-- Returns the text if a value consists of nothing else, else nil.
function M.text_of(value)
    if rawequal(value, M.help) or rawequal(value, tutorial) then
        return HELP
    end
    return screens[value] and value
end

rawset(_G, 'help', M.help)
rawset(_G, 'tutorial', tutorial)

return M
