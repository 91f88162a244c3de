-- What fiber.top() gives: names, types, shares and what stays; times themselves differ.
local fiber = require('fiber')

local function show(...)
    local texts = {}
    for i = 1, select('#', ...) do
        texts[i] = tostring((select(i, ...)))
    end
    io.write(table.concat(texts, ' '), '\n')
end

local function names(map)
    local list = {}
    for name, value in pairs(map) do
        list[#list + 1] = name .. ' ' .. type(value)
    end
    table.sort(list)
    return table.concat(list, ', ')
end

local function work(seconds)
    local clock = require('clock')
    local ends = clock.thread() + seconds
    while clock.thread() < ends do end
end

show(pcall(fiber.top))
show(select('#', fiber.top_disable()))
show(select('#', fiber.top_enable()), select('#', fiber.top_enable(1, 2)))

local top = fiber.top()
show(names(top), getmetatable(top), getmetatable(top.cpu))
show(names(top.cpu['1/sched']))
show(top.cpu['1/sched'].instant, top.cpu['1/sched'].average)

local name, rounds = 'busy', 0
local busy = fiber.new(function()
    fiber.name(name)
    for _ = 1, 40 do
        work(0.003)
        fiber.sleep(0.001)
        rounds = rounds + 1
    end
end)
busy:set_joinable(true)
local idle = fiber.create(function() fiber.name('idle') fiber.sleep(100) end)
-- An average needs turns, and a busy machine takes long for them.
while rounds < 30 do
    fiber.sleep(0.001)
end
local function entry(object, title)
    return fiber.top().cpu[('%d/%s'):format(object:id(), title)]
end
local measured = entry(busy, name)
show(names(measured), measured.time > 0, measured.average > 20, measured.average <= 100, measured.instant <= 100)
show(entry(idle, 'idle').average < 20, entry(idle, 'idle').time < 0.01)
local sum = 0
for _, each in pairs(fiber.top().cpu) do
    sum = sum + each.average
end
show(sum > 80, sum < 101)
busy:join()
show(entry(busy, name))

-- Measured times stay after fiber.top_disable(), and begin at zero with the next fiber.top_enable().
show(type(fiber.info()[fiber.id()].time), fiber.info()[fiber.id()].time > 0)
fiber.top_disable()
show(pcall(fiber.top))
local info = fiber.info()[fiber.id()]
work(0.002)
fiber.sleep(0.001)
show(fiber.info()[fiber.id()].time == info.time)
fiber.top_enable()
show(fiber.info()[fiber.id()].time)
fiber.top_disable()
idle:cancel()
