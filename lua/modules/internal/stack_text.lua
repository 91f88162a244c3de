-- Texts of stacks for debug.traceback. Of a deep stack LuaJIT shows the first and the last frames only. Ours has more frames
-- than that of Tarantool, and a caller removes them from the text. So this module returns more lines of a deep stack than
-- are shown, and shortens the text afterwards.
--
--     frames(co, level)    the lines of the frames of a coroutine, each after a newline. A level of the running coroutine
--                          counts as for a function that `frames` calls: 1 is `frames`, 2 its caller.
--     shorten(text, level) the lines that are shown of those that begin at a level of the caller's
local raw_getinfo, raw_traceback = debug.getinfo, debug.traceback
local concat, floor, max, min = table.concat, math.floor, math.max, math.min
local tostring = tostring

-- LuaJIT 2.1 shows the frames below level TOP; then, if there are more than LAST + 1, dots and LAST frames.
local TOP, LAST = 12, 10
-- LuaJIT 2.0 shows less of a stack, but never dots if it has so few frames.
local WHOLE = 10
-- The first lines of a deep stack that are returned, and the last ones: some are for frames that are removed.
local HEAD, TAIL = 3 * TOP, 3 * LAST
local DOTS, LINE = '\n\t...', '\n\t[^\n]*'

-- Returns the line of a frame, as LuaJIT writes it.
local function line_of(frame)
    local builtin = frame.namewhat == '' and tostring(frame.func):match('builtin#%d+')
    local place = '\n\t' .. (builtin and '[' .. builtin .. ']' or frame.short_src) .. ':'
    if frame.currentline > 0 then
        place = place .. frame.currentline .. ':'
    end
    if frame.namewhat ~= '' then
        return ("%s in function '%s'"):format(place, frame.name)
    elseif frame.what == 'main' then
        return place .. ' in main chunk'
    elseif frame.what == 'C' then
        return place .. ' at ' .. (tostring(frame.func):match('0x%x+') or '0x0')
    end
    return ('%s in function <%s:%d>'):format(place, frame.short_src, frame.linedefined)
end

local function frames(co, level)
    local text = raw_traceback(co, '', level):gsub('^\n[^\n]*', '', 1)
    if not text:find(DOTS .. '\n', 1, true) then
        return text
    end
    -- `last` becomes the level of the last frame, between one that exists and one that does not.
    local last, none = level + WHOLE, level + 2 * WHOLE
    while raw_getinfo(co, none, 'l') do
        last, none = none, 2 * none
    end
    while none - last > 1 do
        local middle = floor((last + none) / 2)
        if raw_getinfo(co, middle, 'l') then
            last = middle
        else
            none = middle
        end
    end
    local lines, head = {}, min(level + HEAD - 1, last)
    for place = level, head do
        lines[#lines + 1] = line_of(raw_getinfo(co, place, 'nSlf'))
    end
    if last - head > TAIL then
        head = last - TAIL
        lines[#lines + 1] = DOTS
    end
    for place = head + 1, last do
        lines[#lines + 1] = line_of(raw_getinfo(co, place, 'nSlf'))
    end
    return concat(lines)
end

local function shorten(text, level)
    local lines, first = {}, max(TOP - level, 0)
    for line in text:gmatch(LINE) do
        lines[#lines + 1] = line
    end
    if #lines - first <= LAST + 1 then
        return text
    end
    return concat(lines, '', 1, first) .. DOTS .. concat(lines, '', #lines - LAST + 1)
end

return {frames = frames, shorten = shorten}
