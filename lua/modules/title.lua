-- require('title'): the title of the process, such as 'tarantool script.lua <status>: text'.
local python = require('internal.python')
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

-- Sets fields from a text or a table. With `__defer_update` in the table the title itself does not change yet.
function title.update(values)
    if type(values) == 'string' then
        values = {custom_title = values}
    elseif type(values) ~= 'table' then
        return
    end
    for _, name in ipairs(FIELDS) do
        if values[name] ~= nil then
            local text = tostring(values[name])
            parts[name] = text ~= '' and text or nil
        end
    end
    if not values.__defer_update then
        current = compose()
        if python.title_show ~= nil then
            python.title_show(current)
        end
    end
end

-- Returns the title and its parts.
function title.get()
    local shown = {script_name = parts.script_name or script_name()}
    for _, name in ipairs(FIELDS) do
        shown[name] = shown[name] or parts[name]
    end
    return current, shown
end

return title
