-- A queue of waiting strands. Any of them can be removed.
local wait_queue = {}
wait_queue.__index = wait_queue

function wait_queue.new()
    return setmetatable({first = 1, last = 0, count = 0}, wait_queue)
end

-- Adds a waiter at the end. Pass the result to `remove`.
function wait_queue:push(waiter)
    self.last = self.last + 1
    self[self.last] = waiter
    self.count = self.count + 1
    return self.last
end

-- Adds a waiter before all others.
function wait_queue:push_front(waiter)
    self.first = self.first - 1
    self[self.first] = waiter
    self.count = self.count + 1
    return self.first
end

function wait_queue:peek()
    if self.count == 0 then
        return nil
    end
    while self[self.first] == nil do
        self.first = self.first + 1
    end
    return self[self.first]
end

function wait_queue:pop()
    local waiter = self:peek()
    if waiter ~= nil then
        self[self.first] = nil
        self.count = self.count - 1
        if self.count == 0 then
            self.first, self.last = 1, 0
        else
            self.first = self.first + 1
        end
    end
    return waiter
end

function wait_queue:remove(place, waiter)
    if self[place] == waiter then
        self[place] = nil
        self.count = self.count - 1
        if self.count == 0 then
            self.first, self.last = 1, 0
        end
    end
end

return wait_queue
