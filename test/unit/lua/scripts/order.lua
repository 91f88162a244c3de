-- The order in which fibers run.
local fiber = require('fiber')
local log = {}
local function say(text) log[#log + 1] = text end
local function show()
    for _ = 1, 100 do fiber.yield() end
    print(table.concat(log, ' '))
    log = {}
end

for _, name in ipairs({'a', 'b', 'c', 'd'}) do
    fiber.create(function() for i = 1, 3 do say(name .. i) fiber.yield() end end)
end
say('m1') fiber.yield() say('m2') fiber.yield() say('m3')
show()

local channel = fiber.channel()
for i = 1, 3 do
    fiber.create(function() for _ = 1, 2 do say(i .. ' got ' .. tostring(channel:get())) end end)
end
for i = 1, 6 do channel:put(i) say('put ' .. i) end
show()

local first
first = fiber.create(function() fiber.sleep(100) say('first') end)
local second = fiber.create(function() fiber.sleep(100) say('second') end)
second:wakeup() first:wakeup() second:wakeup()
fiber.self():wakeup()
fiber.yield() say('main')
show()
