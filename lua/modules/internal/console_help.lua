-- `help` and `tutorial` of a console: texts for a person, which a table and the terminal show as they are.

local HELP = [[
To get help, see the Tarantool manual at https://tarantool.io/en/doc/
To start the interactive tutorial, type 'tutorial()' here.

Available backslash commands:

  \set language <language>   -- set language (lua or sql)
  \set output <format>       -- set output format (lua[,line|block] or yaml)
  \set delimiter <delimiter> -- set expression delimiter
  \help                      -- show this screen
  \quit                      -- quit interactive console
]]

-- `session` is set by the console: it returns a table that is the present session's own.
local M = {session = nil}

-- `help` without parentheses shows the screen, and so does `help()`.
M.help = setmetatable({HELP}, {
    __call = function(self)
        return self
    end,
})

-- The number of the screen that each session was shown last, and all texts that were shown.
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

-- Whether a value is a screen of the tutorial.
function M.is_screen(value)
    return screens[value] == true
end

-- The text of a value that is nothing but one, else nil.
function M.text_of(value)
    if rawequal(value, M.help) or rawequal(value, tutorial) then
        return HELP
    end
    return screens[value] and value
end

rawset(_G, 'help', M.help)
rawset(_G, 'tutorial', tutorial)

return M
