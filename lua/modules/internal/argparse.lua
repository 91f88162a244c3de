-- require('internal.argparse'): parses the arguments of a command line. parse(arguments, options) returns a table with
-- the options by name, and all other arguments in its array part:
--     --name value, --name=value, --flag, -abc
-- `options` is a list of names or of {name, type}; type is boolean, number or string, with a '+' for many values.
local error, ipairs, pairs, select, tonumber, type = error, ipairs, pairs, select, tonumber, type

local LONG_NAME = '^[%a_][%w_-]+$'

-- The lines in Tarantool's module, which its errors begin with.
local BAD_VALUE, BAD_SHORT, BAD_LONG_VALUE, BAD_LONG, UNKNOWN = 45, 120, 130, 140, 173

local function fail(line, ...)
    error(('builtin/internal.argparse.lua:%d: '):format(line) .. (...):format(select(2, ...)), 0)
end

local function invalid(line, position)
    fail(line, 'bad argument #%d: ID not valid', position)
end

-- Returns 'long' or 'short' for an option, 'dash' for a single dash, 'value' for anything else.
local function kind_of(param)
    if param == nil then
        return nil
    elseif param:find('^%-%-') then
        return 'long'
    elseif param == '-' then
        return 'dash'
    end
    return param:find('^%-') and 'short' or 'value'
end

local function add(result, name, value)
    if result[name] == nil then
        result[name] = value
    elseif type(result[name]) == 'table' then
        table.insert(result[name], value)
    else
        result[name] = {result[name], value}
    end
end

local function bad_value(name, got, expected)
    local reason
    if type(got) == 'boolean' then
        reason = ('Expected %s, got nothing'):format(expected)
    elseif expected == 'boolean' or expected == 'boolean+' then
        reason = ('No value expected, got "%s"'):format(got)
    else
        reason = ('Expected %s, got "%s"'):format(expected, got)
    end
    fail(BAD_VALUE, 'Bad value for parameter "%s". %s', name, reason)
end

local CONVERTERS = {
    number = tonumber,
    boolean = function(value)
        return type(value) == 'boolean' and value or nil
    end,
    string = function(value)
        return type(value) == 'string' and value or nil
    end,
}

local function converted(name, value, expected)
    local convert = CONVERTERS[expected]
    if convert == nil then
        error(('Bad conversion format "%s" provided for %s'):format(expected, name), 0)
    end
    -- A flag without a value is a boolean, which tonumber() refuses.
    local result
    if not (expected == 'number' and type(value) == 'boolean') then
        result = convert(value)
    end
    if result == nil then
        bad_value(name, value, expected)
    end
    return result
end

local function convert_all(name, value, expected)
    if expected:sub(-1) ~= '+' then
        return converted(name, type(value) == 'table' and value[#value] or value, expected)
    end
    local list = {}
    for i, item in ipairs(type(value) == 'table' and value or {value}) do
        list[i] = converted(name, item, expected:sub(1, -2))
    end
    return list
end

-- Option name -> its type, or true if it has none.
local function types_of(options)
    local types = {}
    for _, option in ipairs(options) do
        if type(option) == 'table' then
            types[option[1]] = option[2] or true
        else
            types[option] = true
        end
    end
    return types
end

local function takes_value(expected)
    return expected ~= 'boolean' and expected ~= 'boolean+'
end

-- Takes the long option at a position. Returns the position after it and its value.
local function take_long(arguments, position, types, result)
    local text = arguments[position]:sub(3)
    local name, value = text:match('^([^=]*)=(.*)$')
    name = name or text
    if not name:find(LONG_NAME) then
        invalid(value ~= nil and BAD_LONG_VALUE or BAD_LONG, position)
    end
    if value ~= nil then
        if not takes_value(types[name]) then
            bad_value(name, value, types[name])
        end
        add(result, name, value)
        return position + 1
    end
    local kind = takes_value(types[name]) and kind_of(arguments[position + 1])
    add(result, name, kind == 'value' and arguments[position + 1] or true)
    return (kind == 'value' or kind == 'dash') and position + 2 or position + 1
end

local function take_short(arguments, position, result)
    local letters = arguments[position]:sub(2)
    if not letters:find('^%a+$') then
        invalid(BAD_SHORT, position)
    end
    for letter in letters:gmatch('%a') do
        add(result, letter, true)
    end
    return position + 1
end

local function finish(result, types)
    local unknown = {}
    for name, value in pairs(result) do
        if type(name) == 'string' then
            if types[name] == nil then
                table.insert(unknown, name)
            elseif types[name] ~= true then
                result[name] = convert_all(name, value, types[name])
            end
        end
    end
    if #unknown > 0 then
        fail(UNKNOWN, 'unknown options: %s', table.concat(unknown, ', '))
    end
    return result
end

local function parse(arguments, options)
    arguments = arguments or {}
    ipairs(arguments)    -- raises an error unless it is a table
    local types, result, position = types_of(options or {}), {}, 1
    while arguments[position] ~= nil do
        local kind = kind_of(arguments[position])
        if kind == 'long' then
            position = take_long(arguments, position, types, result)
        elseif kind == 'short' then
            position = take_short(arguments, position, result)
        else
            table.insert(result, arguments[position])
            position = position + 1
        end
    end
    return options and finish(result, types) or result
end

return {parse = parse}
