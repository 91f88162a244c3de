-- Fibers, channels, conditions.
local scenario = ...
local fiber = require('fiber')

scenario('fiber.create', 100, function(n)
    return function() for _ = 1, n do fiber.create(function() end) end end
end)
scenario('fiber.join', 100, function(n)
    return function()
        local fibers = {}
        for i = 1, n do
            fibers[i] = fiber.new(function() end)
            fibers[i]:set_joinable(true)
        end
        for i = 1, n do fibers[i]:join() end
    end
end)
scenario('fiber.yield', 100, function(n)
    return function() for _ = 1, n do fiber.yield() end end
end)
scenario('fiber.sleep', 100, function(n)
    return function()
        local left = fiber.channel(1)
        local count = n
        for _ = 1, n do
            fiber.create(function()
                fiber.sleep(0.0001)
                count = count - 1
                if count == 0 then left:put(true) end
            end)
        end
        left:get()
    end
end)
scenario('fiber.info', 100, function(n)
    local stop = fiber.cond()
    for _ = 1, n do fiber.create(function() stop:wait() end) end
    return function() fiber.info() end, function() stop:broadcast() fiber.sleep(0.01) end
end)
scenario('fiber.cancel', 100, function(n)
    return function()
        local fibers = {}
        for i = 1, n do fibers[i] = fiber.create(function() fiber.sleep(100) end) end
        for i = n, 1, -1 do fibers[i]:cancel() end
        fiber.sleep(0)
    end
end)
scenario('channel.put_get', 100, function(n)
    return function()
        local channel = fiber.channel(n)
        for i = 1, n do channel:put(i) end
        for _ = 1, n do channel:get() end
    end
end)
scenario('channel.readers', 100, function(n)
    return function()
        local channel = fiber.channel(0)
        for _ = 1, n do fiber.create(function() channel:get() end) end
        for i = 1, n do channel:put(i) end
    end
end)
scenario('channel.timeouts', 100, function(n)
    return function()
        local channel = fiber.channel(0)
        for _ = 1, n do fiber.create(function() channel:get(0.0001) end) end
        fiber.sleep(0.001)
        channel:put(1, 0)
    end
end)
scenario('cond.broadcast', 100, function(n)
    return function()
        local cond = fiber.cond()
        for _ = 1, n do fiber.create(function() cond:wait() end) end
        cond:broadcast()
        fiber.yield()
    end
end)
scenario('cond.signal', 100, function(n)
    return function()
        local cond = fiber.cond()
        for _ = 1, n do fiber.create(function() cond:wait() end) end
        for _ = 1, n do cond:signal() end
        fiber.yield()
    end
end)
