-- require('yaml'): encode, decode, new, cfg. Writing is done in internal/yaml_emitter.lua; reading
-- by Python's parser, which hands back a flat list of tokens (lua/bindings/yaml.py).
local serializer = require('internal.serializer')
local emitter = require('internal.yaml_emitter')
local new_table = require('table.new')

local ENCODE_USAGE = 'Usage: encode(object, {tag_prefix = <string>, tag_handle = <string>})'
local DECODE_USAGE = 'Usage: yaml.decode(document, [{tag_only = boolean}])'

-- Opcodes of the token list. The arguments of each follow it in the list.
local SCALAR, SEQUENCE, MAPPING, ALIAS, END, DOCUMENT = 1, 2, 3, 4, 5, 6
local NULL = serializer.NULL

-- The initial size of a table is Tarantool's, because it decides the order of pairs().
local ROOM = 5

local function check_finite(cfg, value)
    if type(value) == 'number' and value - value ~= 0 and not cfg.decode_invalid_numbers then
        error('number must not be NaN or Inf', 0)
    end
end

-- Reads a node. `reader` has the list of `tokens` and the position of the next one.
local function read_node(reader)
    local tokens = reader.tokens
    local code, first, second = tokens[reader.position], tokens[reader.position + 1], tokens[reader.position + 2]
    if code == END or code == DOCUMENT then
        reader.position = reader.position + 1
        return true
    elseif code == ALIAS then
        reader.position = reader.position + 2
        if reader.anchors[first] == nil then
            error('invalid reference: ' .. first, 0)
        end
        return false, reader.anchors[first]
    elseif code == SCALAR then
        reader.position = reader.position + 3
        check_finite(reader.cfg, second)
        if first ~= '' then
            reader.anchors[first] = second
        end
        return false, second
    end
    reader.position = reader.position + 2
    local result = code == MAPPING and new_table(0, ROOM) or new_table(ROOM, 0)
    if first ~= '' then
        reader.anchors[first] = result
    end
    local size = 0
    while true do
        local ended, item = read_node(reader)
        if ended then
            if reader.cfg.decode_save_metatables then
                setmetatable(result, code == MAPPING and serializer.map_mt or serializer.array_mt)
            end
            return false, result
        elseif code == SEQUENCE then
            size = size + 1
            result[size] = item
        else
            local _, value = read_node(reader)
            result[item] = value
        end
    end
end

local function python()
    return require('internal.python')
end

local function parse(text)
    local packed, message = python().yaml_parse(text)
    if not packed then
        error(message, 0)
    end
    return require('internal.msgpack').decode(packed)
end

local function decode(cfg, text)
    local reader = {tokens = parse(text), position = 1, cfg = cfg, anchors = {}}
    local values, count = {}, 0
    while reader.tokens[reader.position] ~= nil do
        local _, value = read_node(reader)
        count = count + 1
        values[count] = value
        reader.position = reader.position + 1    -- skip the end of the document
        reader.anchors = {}
    end
    return unpack(values, 1, count)
end

local function decode_tag(text)
    local handle, prefix = python().yaml_tag(text)
    if handle then
        return handle, prefix
    elseif prefix then
        return nil, prefix
    end
    return nil
end

local function is_string(value)
    return type(value) == 'string' or type(value) == 'number'
end

local function check_tag(options)
    if type(options) == 'nil' then
        return nil, nil
    end
    if type(options) ~= 'table' then
        error(ENCODE_USAGE, 3)
    end
    local handle, prefix = options.tag_handle, options.tag_prefix
    if (handle ~= nil and not is_string(handle)) or (prefix ~= nil and not is_string(prefix))
            or (handle == nil) ~= (prefix == nil) then
        error(ENCODE_USAGE, 3)
    end
    return handle, prefix
end

-- Returns why a tag cannot stand before a document, nil if it can.
local function tag_problem(handle, prefix)
    if handle:sub(1, 1) ~= '!' then
        return "tag handle must start with '!'"
    elseif handle:sub(-1) ~= '!' then
        return "tag handle must end with '!'"
    elseif prefix == '' then
        return 'tag prefix must not be empty'
    end
end

local function new()
    local cfg = serializer.options()
    return {
        encode = function(...)
            if select('#', ...) == 0 then
                error(ENCODE_USAGE, 2)
            end
            local value, options = ...
            local handle, prefix = check_tag(options)
            local problem = handle ~= nil and tag_problem(tostring(handle), prefix)
            if problem then
                return nil, problem
            end
            local ok, text = pcall(emitter.encode, cfg, value, handle, prefix)
            if not ok then
                error(text, 2)
            end
            return text
        end,
        decode = function(text, options)
            if not is_string(text) or (type(options) ~= 'nil' and type(options) ~= 'table') then
                error(DECODE_USAGE, 2)
            end
            if options and options.tag_only == true then
                return decode_tag(tostring(text))
            end
            return decode(cfg, tostring(text))
        end,
        new = new,
        cfg = serializer.public_cfg(cfg),
        NULL = NULL,
        array_mt = serializer.array_mt,
        map_mt = serializer.map_mt,
    }
end

return new()
