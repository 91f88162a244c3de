-- Strands in the order in which they began to wait, with removal from the middle.
local wait_queue = {}
wait_queue.__index = wait_queue

function wait_queue.new()
    return setmetatable({first = 1, last = 0, count = 0}, wait_queue)
end

-- Add a waiter at the end; the result is for `remove`.
function wait_queue:push(waiter)
    self.last = self.last + 1
    self[self.last] = waiter
    self.count = self.count + 1
    return self.last
end

-- Add a waiter before all others.
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
