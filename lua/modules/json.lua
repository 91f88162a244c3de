-- require('json'): encode, decode, new, cfg. The work is done in internal/json_encode.lua and internal/json_decode.lua.
local arguments = require('internal.arguments')
local decode = require('internal.json_decode')
local encode = require('internal.json_encode')
local serializer = require('internal.serializer')

local error, format, pcall, select, tostring, type = error, string.format, pcall, select, tostring, type
local NULL = serializer.NULL

local function check_count(count)
    if count ~= 1 and count ~= 2 then
        arguments.bad(1, 'expected 1 or 2 arguments', 3)
    end
end

-- Any value that has fields may hold options; those of a text are the functions of `string`.
local INDEXABLE = {table = true, string = true, cdata = true}

local function first_option(overrides)
    return overrides.encode_sparse_convert
end

local function call_cfg(cfg, count, overrides)
    if count == 1 then
        return cfg
    elseif not INDEXABLE[type(overrides)] then
        error(format('attempt to index a %s value', type(overrides)), 3)
    end
    local ok, problem = pcall(first_option, overrides)
    if not ok then
        -- As of C code: without a place.
        error(type(problem) == 'string' and problem:gsub('^builtin/json%.lua:%d+: ', '') or problem, 0)
    end
    return serializer.with_options(cfg, overrides)
end

-- Returns the results of encode() or decode(); their errors name the place of the caller.
local function finish(ok, ...)
    if not ok then
        local problem = ...
        error(problem, 3)
    end
    return ...
end

local function new()
    local cfg = serializer.options()
    return {
        encode = function(...)
            local value, overrides = ...
            check_count(select('#', ...))
            local result = finish(pcall(encode, call_cfg(cfg, select('#', ...), overrides), value))
            return result
        end,
        decode = function(...)
            local text, overrides = ...
            check_count(select('#', ...))
            local options = call_cfg(cfg, select('#', ...), overrides)
            if type(text) == 'number' then
                text = tostring(text)
            elseif type(text) ~= 'string' then
                arguments.bad(1, 'string expected, got ' .. type(text), 2)
            end
            local result = finish(pcall(decode, options, text))
            return result
        end,
        new = new,
        cfg = serializer.public_cfg(cfg),
        NULL = NULL,
        null = NULL,
        array_mt = serializer.array_mt,
        map_mt = serializer.map_mt,
    }
end

return new()
