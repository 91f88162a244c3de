-- Checks arguments and tables of options, with Tarantool's texts (ER_ILLEGAL_PARAMS).

local box_error = require('box.error')

local M = {}

function M.illegal(text)
    box_error(box_error.ILLEGAL_PARAMS, text)
end

-- Returns the type of a value, like type(), but 'number' for 64-bit integers.
local function value_type(value)
    local kind = type(value)
    if kind == 'cdata' and tonumber64(value) ~= nil then
        return 'number'
    end
    return kind
end

local function is_one_of(kind, expected)
    for name in expected:gmatch('[^, ]+') do
        if name == kind then
            return true
        end
    end
    return false
end

function M.param(value, name, expected)
    if value_type(value) ~= expected then
        M.illegal(name .. ' should be a ' .. expected)
    end
end

local function check_option(name, value, expected)
    if expected == nil then
        M.illegal("unexpected option '" .. name .. "'")
    elseif expected == 'any' or is_one_of(value_type(value), expected) then
        return
    elseif expected:find(',', 1, true) then
        M.illegal("options parameter '" .. name .. "' should be one of types: " .. expected)
    end
    M.illegal("options parameter '" .. name .. "' should be of type " .. expected)
end

-- `template` maps an option to its Lua types: 'string, number', or 'any'. `dont_check` in the options
-- switches the check off.
function M.options(options, template)
    if options == nil then
        return
    end
    if type(options) ~= 'table' then
        M.illegal('options should be a table')
    end
    if options.dont_check then
        return
    end
    for name, value in pairs(options) do
        check_option(name, value, template[name])
    end
end

-- Returns the options, or an empty table: nil, false and box.NULL count as no options.
function M.given(options)
    return options ~= nil and options or {}
end

-- Returns a copy of `options`, where absent options have their defaults.
function M.with_defaults(options, defaults)
    local result = {}
    for name, value in pairs(defaults) do
        result[name] = value
    end
    for name, value in pairs(M.given(options)) do
        result[name] = value
    end
    return result
end

return M
