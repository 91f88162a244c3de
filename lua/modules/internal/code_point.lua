-- Returns the number of bytes of a code point in UTF-8: 1 below 0x80, 2 below 0x800, 3 below 0x10000, else 4.
local char, floor = string.char, math.floor

return function(code)
    if code < 0x80 then
        return char(code)
    end
    local last, rest = 0x80 + code % 64, floor(code / 64)
    if code < 0x800 then
        return char(0xC0 + rest, last)
    elseif code < 0x10000 then
        return char(0xE0 + floor(rest / 64), 0x80 + rest % 64, last)
    end
    return char(0xF0 + floor(rest / 4096), 0x80 + floor(rest / 64) % 64, 0x80 + rest % 64, last)
end
