-- Encodes and decodes values with json, msgpack and yaml.
local scenario, _, given = ...
local values = given.values
local json, msgpack, yaml = require('json'), require('msgpack'), require('yaml')

local VALUES = {
    'integers', 'doubles', 'strings', 'quoted', 'lists', 'maps', 'bigints', 'nulls', 'tuples', 'decimals', 'uuids', 'errors',
    'objects', 'lines', 'paragraphs', 'binaries', 'map', 'text', 'word', 'unicode', 'escapes', 'document', 'indented',
    'bytes', 'shared',
}

for _, codec in ipairs({{'json', json}, {'msgpack', msgpack}, {'yaml', yaml}}) do
    local name, module = codec[1], codec[2]
    for _, kind in ipairs(VALUES) do
        scenario(name .. '.encode.' .. kind, 300, function(n)
            local value = values[kind](n)
            return function() module.encode(value) end
        end)
        if not (name == 'json' and (kind == 'bytes' or kind == 'binaries')) then
            scenario(name .. '.decode.' .. kind, 300, function(n)
                local text = module.encode(values[kind](n))
                return function() module.decode(text) end
            end)
        end
    end
end
