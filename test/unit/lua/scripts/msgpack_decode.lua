local msgpack, ffi = require('msgpack'), require('ffi')
local function show(ok, value, position)
    local kind = type(value)
    local metatable = kind == 'table' and getmetatable(value)
    print(ok, kind, kind == 'table' and #value or tostring(value), tostring(position):gsub('0x%x+', 'ADDRESS'),
        metatable and metatable.__serialize)
end
for text in ('00 7f ff e0 cc80 cdffff ceffffffff cf00005af3107a3fff cf00005af3107a4000 cfffffffffffffffff d080 d18000 ' ..
        'd280000000 d38000000000000000 d3ffffffffffffffff cb3ff8000000000000 ca3fc00000 c0 c2 c3 a0 a161 d90161 ' ..
        'da000161 db0000000161 c40161 c5000161 90 9101 dc000101 dd0000000101 80 81a16101 de0001a16101 ' ..
        'df00000001a16101 93 d9 81a161 cd01 92 dc00'):gmatch('%x+') do
    local bytes = text:gsub('..', function(pair) return string.char(tonumber(pair, 16)) end)
    io.write(text, ' ')
    show(pcall(msgpack.decode, bytes))
end
show(pcall(msgpack.decode)) show(pcall(msgpack.decode, '')) show(pcall(msgpack.decode, 5))
show(pcall(msgpack.decode, '\1\2', 2)) show(pcall(msgpack.decode, '\1\2', 3)) show(pcall(msgpack.decode, '\1', 0))
local memory = ffi.cast('const char *', '\147\1\2\3')
show(pcall(msgpack.decode, memory, 4)) show(pcall(msgpack.decode, memory, 3)) show(pcall(msgpack.decode, memory))
show(pcall(msgpack.decode, memory, -1)) show(pcall(msgpack.decode_unchecked, memory))
print(pcall(msgpack.decode_array_header)) print(pcall(msgpack.decode_array_header, 'x', 1))
print(select('#', msgpack.decode_array_header(memory, 4)), (msgpack.decode_array_header(memory, 4)))
print(pcall(msgpack.decode_map_header, memory, 4)) print(pcall(msgpack.decode_array_header, memory, -1))
print(pcall(msgpack.decode_array_header, ffi.cast('const char *', '\220\1'), 1))
