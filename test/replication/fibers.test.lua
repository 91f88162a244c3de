-- Fibers: life cycle, waiting in odd places, conditions, channels, cancellation.
test_run = require('test_run').new()
fiber = require('fiber')

-- A fiber runs at once until its first wait; fiber.new waits for the next round.
trace = {}
function note(what) table.insert(trace, what) end
test_run:cmd("setopt delimiter ';'")
do
    local f = fiber.create(function() note('created') fiber.sleep(0.01) note('woken') end)
    note('creator')
    local g = fiber.new(function() note('new') end)
    note('creator of new')
    while f:status() ~= 'dead' or g:status() ~= 'dead' do fiber.sleep(0.001) end
end;
test_run:cmd("setopt delimiter ''");
trace

-- A fiber may wait inside pcall, inside a user's coroutine and inside a sort function's caller.
test_run:cmd("setopt delimiter ';'")
function in_pcall()
    local ok, value = pcall(function()
        fiber.sleep(0)
        return 'slept in pcall'
    end)
    return ok, value
end;
function in_coroutine()
    local co = coroutine.create(function(a)
        fiber.sleep(0)
        local b = coroutine.yield(a + 1)
        fiber.yield()
        return b * 2
    end)
    local _, first = coroutine.resume(co, 10)
    local _, second = coroutine.resume(co, 21)
    return first, second, coroutine.status(co)
end;
test_run:cmd("setopt delimiter ''");
in_pcall()
in_coroutine()
wrapped = coroutine.wrap(function() for i = 1, 3 do fiber.sleep(0) coroutine.yield(i) end end)
wrapped(), wrapped(), wrapped()

-- Errors of a fiber reach who joins it.
function joined(...) local f = fiber.new(...) f:set_joinable(true) return f:join() end
joined(function() error('oops') end)
joined(function(...) return select('#', ...), ... end, 1, nil, 'x')
ok, e = joined(function() box.error(box.error.ILLEGAL_PARAMS, 'from a fiber') end)
ok, e.message, e.code == box.error.ILLEGAL_PARAMS

-- Cancellation is an error at the next wait.
f = fiber.create(function() fiber.self():storage() end)
f:status()
f = fiber.create(function() fiber.sleep(1000) end)
f:status()
f:cancel()
test_run:wait_cond(function() return f:status() == 'dead' end)
f = fiber.create(function() fiber.self():set_joinable(true) fiber.sleep(1000) end)
f:cancel()
ok, e = f:join()
ok, tostring(e)

-- Names, ids, storage.
fiber.self():name('inspector')
fiber.self():name()
f = fiber.create(function() fiber.self().storage.key = 'value' fiber.sleep(1000) end)
f:name('worker')
f:name(), f.storage.key, f:id() > 100, fiber.find(f:id()):name()
fiber.info()[f:id()].name
f:cancel()

-- Conditions.
cond = fiber.cond()
woken = 0
for i = 1, 3 do fiber.create(function() cond:wait() woken = woken + 1 end) end
cond:signal()
fiber.sleep(0)
woken
cond:broadcast()
fiber.sleep(0)
woken
cond:wait(0.001)

-- Channels.
ch = fiber.channel(1)
ch:put('first')
ch:is_full(), ch:count(), ch:size()
ch:put('second', 0.001)
f = fiber.create(function() ch:put('third') end)
ch:has_writers(), ch:get(), ch:get(), ch:get(0.001)
f = fiber.create(function() got = ch:get() end)
ch:has_readers()
ch:put({1, {a = 'b'}})
fiber.sleep(0)
got
ch:close()
ch:is_closed(), ch:get(), ch:put(1)

-- Ten thousand fibers wait at once.
gate = fiber.cond()
done = 0
for i = 1, 10000 do fiber.new(function() gate:wait() done = done + 1 end) end
fiber.sleep(0)
gate:broadcast()
test_run:wait_cond(function() return done == 10000 end)
done

-- A fiber that raises is logged and the node goes on.
_ = fiber.create(function() error('nobody joins me') end)
test_run:grep_log('default', 'nobody joins me') ~= nil
