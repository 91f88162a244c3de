-- box.iproto: the supported parts of the binary protocol, in the form of 2.11.

local finish = require('box.finish')
local python = require('internal.python')

local described = finish.value(python.iproto_features())

local M = {protocol_version = described[1], protocol_features = {}, feature = {}}
for name, number in pairs(described[2]) do
    M.protocol_features[name], M.feature[name] = true, number
end

-- Loads the numbers of keys and of request types by name, when a program first uses them.
local function load_constants(iproto, name)
    local constants = require('box.iproto_constants')
    if constants[name] ~= nil then
        for kind, numbers in pairs(constants) do
            iproto[kind] = numbers
        end
        return constants[name]
    end
end

return setmetatable(M, {__index = load_constants})
