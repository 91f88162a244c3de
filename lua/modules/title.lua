-- require('title'): what the instance calls itself: 'tarantool script.lua <status>: text'.
local ipairs, rawget, tostring, type = ipairs, rawget, tostring, type

local FIELDS = {'interpretor_name', 'script_name', 'status', 'custom_title'}
local parts = {interpretor_name = 'tarantool'}
local current = ''

local function script_name()
    local arguments = rawget(_G, 'arg')
    local script = type(arguments) == 'table' and arguments[0]
    return type(script) == 'string' and script:match('[^/]*$') or nil
end

local function compose()
    local text = parts.interpretor_name or ''
    local script = parts.script_name or script_name()
    if script and script ~= '' then
        text = text .. ' ' .. script
    end
    if parts.status and parts.status ~= '' then
        text = text .. ' <' .. parts.status .. '>'
    end
    if parts.custom_title and parts.custom_title ~= '' then
        text = text .. ': ' .. parts.custom_title
    end
    return text
end

local title = {}

-- A text, or a table of the fields above; `__defer_update` in it leaves the title as it is for now.
function title.update(values)
    if type(values) == 'string' then
        values = {custom_title = values}
    elseif type(values) ~= 'table' then
        return
    end
    for _, name in ipairs(FIELDS) do
        if values[name] ~= nil then
            parts[name] = tostring(values[name])
        end
    end
    if not values.__defer_update then
        current = compose()
    end
end

-- The title and its parts.
function title.get()
    local shown = {script_name = parts.script_name or script_name()}
    for _, name in ipairs(FIELDS) do
        shown[name] = shown[name] or parts[name]
    end
    return current, shown
end

return title
