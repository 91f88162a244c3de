-- The metatables of decoded arrays and maps: how they are encoded again, empty ones too, and printed in one line. A new
-- key takes the mark off, as in Tarantool: an empty array that gets a name becomes a map.
local rawset, setmetatable = rawset, setmetatable

local function take_off(marked, key, value)
    setmetatable(marked, nil)
    rawset(marked, key, value)
end

return {
    array_mt = {__serialize = 'seq', __newindex = take_off},
    map_mt = {__serialize = 'map', __newindex = take_off},
}
