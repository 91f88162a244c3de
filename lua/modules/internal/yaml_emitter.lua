-- Writes Lua values as YAML in the form of Tarantool's emitter: width 80, indent 2, unicode unescaped,
-- tuples and hinted tables in flow style, everything else in block style.
--
-- The state of one document is a table `e`:
--   e[1..e.n]     pieces of the text           e.column      characters in the open line
--   e.indent      of the innermost collection  e.flow        depth of flow collections
--   e.whitespace  whether the text ends in white space, so that no separator is needed
--   e.indention   whether the line contains only indentation and `-`, `?` or `:` indicators
--   e.references  table -> false (seen once), true (seen more often), or its anchor's name
-- The style of a scalar depends on its characters and its place (flow, map key): see internal/yaml_scalar.lua.
local printable = require('internal.printable')
local scalar = require('internal.yaml_scalar')
local serializer = require('internal.serializer')

local format, next, type, rawget, error = string.format, next, type, rawget, error
local is_text = printable.is_text
local classify, STRING, ARRAY, MAP = serializer.classify, serializer.STRING, serializer.ARRAY, serializer.MAP
local put, write_indent, write_indicator = scalar.put, scalar.write_indent, scalar.write_indicator
local write_block_indicator, open_bracket = scalar.write_block_indicator, scalar.open_bracket
local increase_indent, write_scalar = scalar.increase_indent, scalar.write_scalar
local classes_of, is_simple_word = scalar.classes_of, scalar.is_simple_word
local find_break, WIDTH = scalar.find_break, scalar.WIDTH

local MAX_KEY_LENGTH = 128    -- longer keys get the explicit form `? key`
local MAX_DEPTH = 1000        -- a __serialize that nests for ever is an error, not an overflow

-- ---- collections ----------------------------------------------------------------------------

local write_node

-- Anchors: `&0` before the first occurrence of a repeated table, `*0` instead of its later ones.
-- Returns whether the alias is the whole node.
local function write_anchor(e, value)
    local name = e.references[value]
    if not name then
        return false
    elseif name ~= true then
        write_indicator(e, '*' .. name, true)
        return true
    end
    name = tostring(e.anchors)
    e.anchors = e.anchors + 1
    e.references[value] = name
    write_indicator(e, '&' .. name, true)
    return false
end

local function flow_item(e, first)
    if not first then
        write_indicator(e, ',', false)
    end
    if e.column > WIDTH then
        write_indent(e)
    end
end

local function close_flow(e, text, saved)
    e.flow = e.flow - 1
    e.indent = saved
    write_indicator(e, text, false)
end

local function write_flow_array(e, value, size)
    open_bracket(e, '[')
    local saved = increase_indent(e, true, false)
    e.flow = e.flow + 1
    for i = 1, size do
        flow_item(e, i == 1)
        write_node(e, false, false, classify(e.cfg, rawget(value, i)))
    end
    close_flow(e, ']', saved)
end

local function write_block_array(e, value, size, in_map)
    local saved = increase_indent(e, false, in_map and not e.indention)
    for i = 1, size do
        write_indent(e)
        write_block_indicator(e, '-')
        write_node(e, false, false, classify(e.cfg, rawget(value, i)))
    end
    e.indent = saved
end

-- Returns whether a map is empty. `next(map) == nil` would also be true for a map whose first key is box.NULL.
local function is_empty(map)
    return type(next(map)) == 'nil'
end

-- Returns whether a key may stand before a plain `:`. It must be short, on one line, and not a collection with
-- elements.
local function is_simple_key(e, kind, value, size)
    if kind == ARRAY then
        return size == 0 or type(e.references[value]) == 'string'
    elseif kind == MAP then
        return is_empty(value) or type(e.references[value]) == 'string'
    elseif kind ~= STRING then
        return #value <= MAX_KEY_LENGTH
    end
    local classes = classes_of(value)
    if is_simple_word(value, classes) then
        return #value <= MAX_KEY_LENGTH
    elseif not is_text(value) then
        return math.ceil(#value / 3) * 4 + #'!!binary' <= MAX_KEY_LENGTH
    end
    return #value <= MAX_KEY_LENGTH and not find_break(value, classes)
end

local function write_flow_map(e, map)
    open_bracket(e, '{')
    local saved = increase_indent(e, true, false)
    e.flow = e.flow + 1
    local first = true
    for key, item in next, map do
        flow_item(e, first)
        first = false
        local kind, value, size, compact = classify(e.cfg, key)
        if is_simple_key(e, kind, value, size) then
            write_node(e, true, true, kind, value, size, compact)
            write_indicator(e, ':', false)
        else
            write_indicator(e, '?', true)
            write_node(e, true, false, kind, value, size, compact)
            if e.column > WIDTH then
                write_indent(e)
            end
            write_indicator(e, ':', true)
        end
        write_node(e, true, false, classify(e.cfg, item))
    end
    close_flow(e, '}', saved)
end

local function write_block_map(e, map)
    local saved = increase_indent(e, false, false)
    for key, item in next, map do
        write_indent(e)
        local kind, value, size, compact = classify(e.cfg, key)
        if is_simple_key(e, kind, value, size) then
            write_node(e, true, true, kind, value, size, compact)
            write_indicator(e, ':', false)
        else
            write_block_indicator(e, '?')
            write_node(e, true, false, kind, value, size, compact)
            write_indent(e)
            write_block_indicator(e, ':')
        end
        write_node(e, true, false, classify(e.cfg, item))
    end
    e.indent = saved
end

-- Writes a node. `in_map`: it is a key or a value of a map. `is_key`: it stands before `:` on the same line.
write_node = function(e, in_map, is_key, kind, value, size, compact)
    if kind ~= ARRAY and kind ~= MAP then
        return write_scalar(e, kind, value, is_key)
    end
    if write_anchor(e, value) then
        return
    end
    e.depth = e.depth + 1
    if e.depth > MAX_DEPTH then
        error('Too high nest level', 0)
    end
    local flow = compact or e.flow > 0
    if kind == ARRAY then
        if flow or size == 0 then
            write_flow_array(e, value, size)
        else
            write_block_array(e, value, size, in_map)
        end
    elseif flow or is_empty(value) then
        write_flow_map(e, value)
    else
        write_block_map(e, value)
    end
    e.depth = e.depth - 1
end

-- ---- documents ------------------------------------------------------------------------------

local function find_references(references, value)
    local seen = references[value]
    if seen ~= nil then
        references[value] = true
        return
    end
    references[value] = false
    for key, item in next, value do
        if type(item) == 'table' then
            find_references(references, item)
        end
        if type(key) == 'table' then
            find_references(references, key)
        end
    end
end

-- Returns one document with `value`, from `---` to `...`. A tag is a pair like
-- `!push!` and `tag:tarantool.io/push,2018`.
local function encode(cfg, value, tag_handle, tag_prefix)
    local e = {
        cfg = cfg, n = 0, column = 0, indent = -1, flow = 0, whitespace = true, indention = true,
        references = {}, anchors = 0, depth = 0,
    }
    if type(value) == 'table' then
        find_references(e.references, value)
    end
    if tag_handle then
        put(e, format('%%TAG %s %s\n', tag_handle, tag_prefix), 0)
    end
    write_indicator(e, '---', false)
    write_node(e, false, false, classify(cfg, value))
    write_indent(e)
    put(e, '...\n', 0)
    return table.concat(e, '', 1, e.n)
end

return {encode = encode}
