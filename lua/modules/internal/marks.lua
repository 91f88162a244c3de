-- The metatables of decoded arrays and maps. They keep the kind of an empty table when it is encoded again, and print
-- it in one line. As in Tarantool a new key removes the metatable: an empty array that gets a named key becomes a map.
local rawset, setmetatable = rawset, setmetatable

local function take_off(marked, key, value)
    setmetatable(marked, nil)
    rawset(marked, key, value)
end

return {
    array_mt = {__serialize = 'seq', __newindex = take_off},
    map_mt = {__serialize = 'map', __newindex = take_off},
}
