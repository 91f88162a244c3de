-- The members of `box` that only a configured instance has: the schema, its objects and box.info.

local schema = require('box.schema')
local schema_objects = require('box.schema_objects')

for name, class in pairs(schema_objects.metatables) do
    schema[name] = class
end
schema.space.bless = schema_objects.bless

local _ = box.internal.session -- loads all of box.internal

-- This module registers with Python the functions that run requests.
require('box.call')

return {
    schema = schema, priv = require('box.schema.privilege').PRIV, info = require('box.info'),
    space = schema_objects.spaces, sequence = schema_objects.sequences, func = schema_objects.functions,
}
