-- Decides which texts a console may show unchanged, and encodes the others in base64.
local byte, sub = string.byte, string.sub
local concat, floor = table.concat, math.floor
local band, rshift = bit.band, bit.rshift
-- The categories of characters; without this library every character counts as printable.
local python = package.loaded['internal.python'] or {}

local BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

-- Twelve bits -> two characters.
local PAIRS = {}
for bits = 0, 4095 do
    local high, low = floor(bits / 64) + 1, bits % 64 + 1
    PAIRS[bits] = sub(BASE64, high, high) .. sub(BASE64, low, low)
end

local function base64(text)
    local result, count = {}, 0
    local size = #text
    for position = 1, size - size % 3, 3 do
        local a, b, c = byte(text, position, position + 2)
        result[count + 1] = PAIRS[a * 16 + rshift(b, 4)]
        count = count + 2
        result[count] = PAIRS[band(b, 15) * 256 + c]
    end
    if size % 3 == 1 then
        result[count + 1] = PAIRS[byte(text, size) * 16] .. '=='
    elseif size % 3 == 2 then
        local a, b = byte(text, size - 1, size)
        result[count + 1] = PAIRS[a * 16 + rshift(b, 4)] .. sub(PAIRS[band(b, 15) * 256], 1, 1) .. '='
    end
    return concat(result)
end

local function code_point(char)
    local a, b, c, d = byte(char, 1, 4)
    return ((a % 8 * 64 + b % 64) * 64 + c % 64) * 64 + d % 64
end

-- Returns whether a character beyond the basic plane is printable: assigned, neither control nor private. Cached.
local is_assigned = setmetatable({}, {__index = function(known, char)
    local category = python.utf8_category
    local answer = category == nil or category(code_point(char)):sub(1, 1) ~= 'C'
    known[char] = answer
    return answer
end})

local function is_tail(code)
    return code ~= nil and code >= 128 and code <= 191
end

-- Returns the width of the character at a position that begins with a byte above 127; nil if it is malformed or not
-- printable.
local function width_at(text, position)
    local first, second = byte(text, position), byte(text, position + 1)
    if first < 0xC2 or first > 0xF4 or not is_tail(second) then
        return nil
    elseif first < 0xE0 then
        return (first ~= 0xC2 or second >= 0xA0) and 2 or nil
    end
    local third = byte(text, position + 2)
    if not is_tail(third) or (first == 0xE0 and second < 0xA0) or (first == 0xED and second >= 0xA0)
            or (first == 0xEF and second == 0xBB and third == 0xBF)
            or (first == 0xEF and second == 0xBF and third >= 0xBE) then
        return nil
    elseif first < 0xF0 then
        return 3
    end
    if not is_tail(byte(text, position + 3)) or (first == 0xF0 and second < 0x90)
            or (first == 0xF4 and second >= 0x90) or not is_assigned[sub(text, position, position + 3)] then
        return nil
    end
    return 4
end

-- Returns whether a text is well-formed UTF-8 whose characters above 0x7F are printable.
local function is_text(text)
    local position, size = 1, #text
    while position <= size do
        local width = byte(text, position) < 128 and 1 or width_at(text, position)
        if not width then
            return false
        end
        position = position + width
    end
    return true
end

return {is_text = is_text, base64 = base64}
