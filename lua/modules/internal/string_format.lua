-- string.format of LuaJIT 2.0 only accepts strings and numbers for `%q`. Tarantool's uses the text of any value.
local find, format, gmatch = string.find, string.format, string.gmatch
local select, tostring, type, unpack = select, tostring, type, unpack

-- Returns the arguments; those for `%q` are replaced by their texts.
local function as_texts(template, ...)
    local arguments, place = {...}, 0
    for conversion in gmatch(template, '%%[-+ #0]*%d*%.?%d*(.)') do
        if conversion ~= '%' then
            place = place + 1
        end
        if conversion == 'q' and place <= select('#', ...) then
            arguments[place] = tostring(arguments[place])
        end
    end
    return unpack(arguments, 1, select('#', ...))
end

-- Formats with any values for `%q`. Both calls are tail calls, so that errors name the caller.
local function format_any(...)
    local template = ...
    if type(template) == 'string' and find(template, '%q', 1, true) then
        return format(template, as_texts(...))
    end
    return format(...)
end

if not pcall(format, '%q', true) then
    string.format = format_any
end
