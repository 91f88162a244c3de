local msgpack, ffi = require('msgpack'), require('ffi')
local function hex(text) return (text:gsub('.', function(c) return ('%02x'):format(c:byte()) end)) end
local function show(value, options)
    local ok, result = pcall(msgpack.encode, value)
    print(ok and hex(result) or type(result) .. ' ' .. tostring(result))
end
for _, power in ipairs({0, 5, 7, 8, 15, 16, 31, 32, 47, 53, 62, 63, 64}) do
    for delta = -1, 1 do show(2 ^ power + delta) show(-2 ^ power + delta) end
end
for _, value in ipairs({0.5, -0.0, 0/0, 1/0, -1/0, 1e300, '', 'text', ('x'):rep(31), ('x'):rep(32), true, false,
        1LL, -1LL, 1ULL, 18446744073709551615ULL, -9223372036854775807LL - 1, 4294967296ULL, -4294967296LL}) do
    show(value)
end
show(('x'):rep(300):len()) show(nil) show(box.NULL) show(print) show(coroutine.create(print)) show(io.stdout)
show(ffi.new('char[5]')) show(ffi.new('float', 1.5)) show(ffi.new('double', 2)) show(ffi.new('int8_t', -5))
for _, value in ipairs({{}, {1, 2}, {1, nil, 3}, {a = 1}, {[0] = 1}, {[1.5] = 1}, {[10] = 1}, {[-1] = 1}, {1, a = 1},
        {{}, {{}}}}) do
    show(value)
end
show({[11] = 1, [1] = 2} and {[30] = 3}) show({[20] = 1})
for _, hint in ipairs({'seq', 'sequence', 'array', 'map', 'mapping', 'other', 5}) do
    show(setmetatable({1, 2}, {__serialize = hint})) show(setmetatable({}, {__serialize = hint}))
end
show(setmetatable({1}, {__serialize = function(x) return {x[1], 2} end}))
show(setmetatable({1}, {__serialize = function() return 'text' end}))
show(setmetatable({1}, {__serialize = function() error('broken', 0) end}))
show(setmetatable({[5] = 1}, {__serialize = 'seq'}))
msgpack.cfg{encode_sparse_convert = false} show({[30] = 3}) msgpack.cfg{encode_sparse_convert = true}
msgpack.cfg{encode_sparse_ratio = 0} show({[12] = 3}) msgpack.cfg{encode_sparse_ratio = 2}
msgpack.cfg{encode_invalid_as_nil = true} show(print) show({print}) msgpack.cfg{encode_invalid_as_nil = false}
msgpack.cfg{encode_invalid_numbers = false} show(0/0) msgpack.cfg{encode_invalid_numbers = true}
msgpack.cfg{encode_load_metatables = false}
show(setmetatable({1}, {__serialize = 'map'})) msgpack.cfg{encode_load_metatables = true}
local nested = {} local deepest = nested
for _ = 1, 100 do deepest[1] = {} deepest = deepest[1] end
show(nested)
