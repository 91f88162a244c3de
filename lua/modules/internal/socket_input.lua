-- The input buffer of a socket. The time of all reads grows with the amount of data, however small the parts in which
-- it arrives and is read.
--
--   self._buffer   bytes; the first self._start of them have been read
--   self._more     a list of the parts that came after them, self._more_size bytes
--   self._reads    the number of reads so far: shows a waiting fiber that another one has read
local fiber = require('fiber')

local concat, find, max, min, sub = table.concat, string.find, math.max, math.min, string.sub

-- If the read part of the buffer is longer than this, it is cut off.
local READ_PART = 65536

local function available(self)
    return #self._buffer - self._start + self._more_size
end

local function joined(self)
    if self._more_size > 0 then
        self._buffer = sub(self._buffer, self._start + 1) .. concat(self._more)
        self._start, self._more, self._more_size = 0, {}, 0
    end
    return self._buffer, self._start
end

local function taken(self, count)
    local buffer, start = joined(self)
    local data = sub(buffer, start + 1, start + count)
    start = start + count
    if start == #buffer then
        buffer, start = '', 0
    elseif start > READ_PART and start > #buffer / 2 then
        buffer, start = sub(buffer, start + 1), 0
    end
    self._buffer, self._start, self._errno, self._reads = buffer, start, nil, self._reads + 1
    return data
end

local function append(self, data)
    self._more[#self._more + 1] = data
    self._more_size = self._more_size + #data
end

-- Returns the end of the delimiter that ends first in `text` after `from`; 0 for an empty delimiter.
local function end_of_first(text, from, delimiters)
    local found
    for _, delimiter in ipairs(delimiters) do
        if delimiter == '' then
            return from
        end
        local _, last = find(text, delimiter, from + 1, true)
        if last ~= nil and (found == nil or last < found) then
            found = last
        end
    end
    return found
end

-- Returns the length of the longest delimiter. Values that are no texts are refused when there is data to search.
local function longest_of(delimiters)
    local longest = 1
    for _, delimiter in ipairs(delimiters) do
        longest = type(delimiter) == 'string' and max(longest, #delimiter) or longest
    end
    return longest
end

-- Returns the last unread bytes, in which a delimiter may have begun.
local function tail_of(self, longest)
    return sub(self._buffer, max(self._start + 1, #self._buffer - longest + 2))
end

-- Returns the number of buffered bytes that a read can return now, nil if there are not enough.
local function enough(self, limit, delimiters)
    if limit == 0 then
        return 0
    elseif available(self) == 0 then
        return nil    -- an empty delimiter ends nothing either
    end
    local buffer, start = joined(self)
    local last = end_of_first(buffer, start, delimiters)
    if last ~= nil then
        return min(last - start, limit)
    end
    return available(self) >= limit and limit or nil
end

-- Like `enough`, for data that has just arrived. Only this is searched, and the `tail` before it for a delimiter that
-- began there. The second result is the tail for the next data.
local function enough_with(self, data, tail, limit, delimiters, longest)
    local window = tail .. data
    local last = end_of_first(window, 0, delimiters)
    if last ~= nil then
        return min(available(self) - #window + last, limit)
    elseif available(self) >= limit then
        return limit
    end
    return nil, longest > 1 and sub(window, -(longest - 1)) or ''
end

-- Makes read_until(self, limit, delimiters, timeout). `sysread(self, size)` returns bytes, '' at the end, or nil.
-- `wait(self, timeout)` returns false if there is nothing to wait for.
return function(sysread, wait, read_size)
    return function(self, limit, delimiters, timeout)
        local longest = longest_of(delimiters)
        local count, reads = enough(self, limit, delimiters), self._reads
        local tail = tail_of(self, longest)
        local deadline = count == nil and fiber.clock() + timeout
        while count == nil do
            local data = sysread(self, read_size)    -- even beyond the limit, as in Tarantool
            if data == '' then
                return taken(self, available(self))
            elseif data == nil then
                if not wait(self, deadline - fiber.clock()) then
                    return nil
                end
            else
                append(self, data)
            end
            if self._reads ~= reads then
                count, reads = enough(self, limit, delimiters), self._reads
                tail = tail_of(self, longest)
            elseif data ~= nil then
                count, tail = enough_with(self, data, tail, limit, delimiters, longest)
            end
        end
        return taken(self, count)
    end
end
