-- Tells which texts a console may show unchanged, and encodes the others in base64.
local byte, find, rep, sub = string.byte, string.find, string.rep, string.sub
local concat, floor = table.concat, math.floor
-- The categories of characters; without this library every character counts as printable.
local python = package.loaded['internal.python'] or {}

local BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

local function base64(text)
    local result = {}
    for position = 1, #text, 3 do
        local a, b, c = byte(text, position, position + 2)
        local bits = a * 65536 + (b or 0) * 256 + (c or 0)
        local quad = {}
        for shift = 0, 3 do
            local index = floor(bits / 64 ^ (3 - shift)) % 64
            quad[shift + 1] = sub(BASE64, index + 1, index + 1)
        end
        if not b then
            quad[3], quad[4] = '=', '='
        elseif not c then
            quad[4] = '='
        end
        result[#result + 1] = concat(quad)
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

-- Returns whether a text is well-formed UTF-8 whose characters above 0x7F are printable.
local function is_text(text)
    if not find(text, '[\128-\255]') then
        return true
    end
    local position, size = 1, #text
    while true do
        position = find(text, '[\128-\255]', position)
        if not position then
            return true
        end
        local first, second, third = byte(text, position, position + 2)
        local width = first >= 0xF0 and 4 or first >= 0xE0 and 3 or 2
        if first < 0xC2 or first > 0xF4 or position + width - 1 > size
                or not find(text, '^' .. rep('[\128-\191]', width - 1), position + 1)
                or (first == 0xC2 and second < 0xA0) or (first == 0xE0 and second < 0xA0)
                or (first == 0xED and second >= 0xA0) or (first == 0xF0 and second < 0x90)
                or (first == 0xF4 and second >= 0x90)
                or (first == 0xEF and second == 0xBB and third == 0xBF)
                or (first == 0xEF and second == 0xBF and third >= 0xBE)
                or (width == 4 and not is_assigned[sub(text, position, position + 3)]) then
            return false
        end
        position = position + width
    end
end

return {is_text = is_text, base64 = base64}
