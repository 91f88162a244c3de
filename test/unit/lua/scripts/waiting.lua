local fiber = require('fiber')
local cond, channel = fiber.cond(), fiber.channel(1)
print(cond, channel, getmetatable(cond), getmetatable(channel), type(cond))
for _, call in ipairs({{cond.wait}, {cond.wait, cond, 'x'}, {cond.wait, cond, -1}, {cond.signal}, {cond.broadcast, 1},
        {channel.put}, {channel.put, channel}, {channel.put, channel, 1, 'x'}, {channel.put, channel, 1, -1},
        {channel.get}, {channel.get, channel, 'x'}, {channel.get, channel, -1}, {channel.size}, {channel.close},
        {fiber.channel, 'x'}, {fiber.channel, -1}}) do
    print(pcall(unpack(call)))
end
print(channel:put(nil), channel:put(1, 0), channel:get(), channel:get(0), channel:put(2), channel:close(), channel:get())
print(channel, channel:count(), channel:size(), channel:is_full(), channel:is_empty(), channel:put(1), channel:is_closed())
local function waiter(run)
    local f = fiber.create(run)
    f:cancel()
    fiber.yield()
end
waiter(function() local c = fiber.channel() print('get', pcall(c.get, c)) end)
waiter(function() local c = fiber.channel() print('put', pcall(c.put, c, 1)) end)
waiter(function() print('sleep', pcall(fiber.sleep, 100)) end)
local first, second = fiber.channel(), fiber.channel(3)
for i = 1, 3 do fiber.create(function() print('got', i, first:get()) end) end
for i = 1, 3 do print('put', i, first:put(i)) end
fiber.yield()
for i = 1, 5 do fiber.create(function() print('in', i, second:put(i)) end) end
for i = 1, 5 do print('out', second:get()) end
fiber.yield()
