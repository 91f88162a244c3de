-- string.format of LuaJIT 2.0 ends texts at a zero byte, rounds halves to even digits, accepts only strings and numbers for
-- `%q`, and has other texts for wrong options. This one formats as that of the LuaJIT 2.1 of Tarantool, which rounds halves away
-- from zero; later ones do not. A template is read once. The module returns LuaJIT's function, which rounds like the C library.
local byte, char, find, format, gmatch = string.byte, string.char, string.find, string.format, string.gmatch
local gsub, match, rep, sub, concat = string.gsub, string.match, string.rep, string.sub, table.concat
local abs, floor, frexp, log10 = math.abs, math.floor, math.frexp, math.log10
local error, ipairs, pcall, select, tonumber, tostring, type, unpack =
    error, ipairs, pcall, select, tonumber, tostring, type, unpack

local MOST_TEMPLATES, LONGEST_TEMPLATE = 1000, 1000    -- that are kept, in bytes
local PERCENT, PERIOD = 37, 46
local MANY_FLAGS = '%%' .. rep('[-+ #0]', 6)

-- Template -> what read_template has found.
local templates, count = {}, 0

-- Reads the conversion at `first`. Returns its last position and its letter; or nil and the wrong option.
local function read_conversion(template, first)
    local last = select(2, find(template, '^[-+ #0]*%d?%d?%.?', first + 1))
    if byte(template, last) == PERIOD then
        last = select(2, find(template, '^%d?%d?', last + 1))
    end
    local letter = sub(template, last + 1, last + 1)
    if find(letter, '^[AEFGXacdefgiopqsux]') then
        return last + 1, letter
    end
    return nil, sub(template, first, find(letter, '^[^%z\1-\31]') and last + 1 or last)
end

-- Returns the number of digits that a conversion of a fraction shows: behind the period, or for `%e` and `%g` altogether.
local function digits_of(conversion, letter)
    local precision = match(conversion, '%.(%d*)')
    local digits = precision and (tonumber(precision) or 0) or 6
    if find(letter, '[eE]') then
        return digits + 1
    end
    return find(letter, '[gG]') and digits == 0 and 1 or digits
end

-- Returns a template with each flag of a conversion once: LuaJIT 2.0 refuses more than five.
local function with_single_flags(template)
    return (gsub(template, '%%([-+ #0%%]*)', function(flags)
        local kept = ''
        for flag in gmatch(flags, '.') do
            if flag == '%' then
                return nil
            elseif not find(kept, flag, 1, true) then
                kept = kept .. flag
            end
        end
        return '%' .. kept
    end))
end

-- Returns {conversions, mistake, from, is_easy, has_byte, short}. `short` is a template to use instead. A conversion has a
-- letter, its bounds and, for fractions, the number of digits. `mistake` is a wrong option at `from`. LuaJIT's function
-- formats all arguments right if `is_easy`.
local function read_template(template)
    local read = {conversions = {}, is_easy = true}
    local short = find(template, MANY_FLAGS) and with_single_flags(template) or template
    if short ~= template then
        read.short = short
    end
    local place = find(template, '%', 1, true)
    while place ~= nil do
        if byte(template, place + 1) == PERCENT then
            place = place + 1
        else
            local last, letter = read_conversion(template, place)
            if last == nil then
                read.mistake, read.from, read.is_easy = letter, place, false
                break
            end
            read.conversions[#read.conversions + 1] = {
                letter = letter, first = place, last = last, is_fixed = letter == 'f',
                digits = find(letter, '[eEfgG]') and digits_of(sub(template, place, last), letter) or nil,
            }
            read.is_easy = read.is_easy and not find(letter, '[csqeEfgG]')
            read.has_byte = read.has_byte or letter == 'c'
            place = last
        end
        place = find(template, '%', place + 1, true)
    end
    if #template <= LONGEST_TEMPLATE then
        if count >= MOST_TEMPLATES then
            templates, count = {}, 0
        end
        templates[template], count = read, count + 1
    end
    return read
end

-- Returns the next number away from zero if a number is halfway between two texts of a conversion; otherwise nil.
local function above_half(number, conversion)
    local size, places = abs(number), conversion.digits
    if not conversion.is_fixed and size > 0 then
        local exponent = floor(log10(size))
        if 10 ^ exponent > size then
            exponent = exponent - 1
        elseif 10 ^ (exponent + 1) <= size then
            exponent = exponent + 1
        end
        places = places - 1 - exponent
    end
    -- Only a number whose last binary digit is one place behind the last decimal digit is halfway.
    local unit = 10 ^ -places
    local is_half = places >= 0 and size * 2 ^ (places + 1) % 2 == 1 or places < 0 and size % unit == unit / 2
    if is_half then
        local step = 2 ^ (select(2, frexp(size)) - 53)
        return step < unit / 2 and (number < 0 and number - step or number + step) or nil
    end
end

-- Returns a text of any bytes as `%s` shows it.
local function shown(conversion, text)
    local flags, width, precision = match(conversion, '^%%([-+ #0]*)(%d*)(%.?%d*)')
    if precision ~= '' then
        text = sub(text, 1, tonumber(sub(precision, 2)) or 0)
    end
    local filling = rep(' ', (tonumber(width) or 0) - #text)
    return find(flags, '-', 1, true) and text .. filling or filling .. text
end

-- Formats conversion by conversion, because arguments have zero bytes.
local function in_pieces(template, conversions, arguments)
    local pieces, from = {}, 1
    for place, conversion in ipairs(conversions) do
        local argument, letter = arguments[place], conversion.letter
        local text = sub(template, conversion.first, conversion.last)
        pieces[#pieces + 1] = format(sub(template, from, conversion.first - 1))
        if letter == 's' then
            pieces[#pieces + 1] = shown(text, argument)
        elseif letter == 'c' then
            pieces[#pieces + 1] = shown(text, char(argument % 256))
        else
            pieces[#pieces + 1] = format(text, argument)
        end
        from = conversion.last + 1
    end
    pieces[#pieces + 1] = format(sub(template, from))
    return concat(pieces)
end

-- Replaces arguments of `%s` and `%q` by their texts, and numbers that would be rounded wrong. Returns whether a text has a
-- zero byte, or is one of `%c`.
local function prepare(conversions, arguments, size)
    local has_zero = false
    for place, conversion in ipairs(conversions) do
        local letter, argument = conversion.letter, arguments[place]
        if place > size then
            return has_zero
        elseif letter == 'c' then
            local code = tonumber(argument)
            has_zero = has_zero or code ~= nil and code % 256 < 1
        elseif letter == 's' or letter == 'q' then
            arguments[place] = tostring(tostring(argument))    -- a __tostring may return anything
            has_zero = has_zero or letter == 's' and find(arguments[place], '%z') ~= nil
        elseif conversion.digits and (type(argument) == 'number' or type(argument) == 'string') then
            local number = tonumber(argument)
            arguments[place] = number and above_half(number, conversion) or argument
        end
    end
    return has_zero
end

-- Formats what LuaJIT's function may format wrong. Calls of it that may fail are tail calls, so that errors name the caller.
local function format_carefully(template, read, ...)
    local arguments, size = {...}, select('#', ...)
    local has_zero = prepare(read.conversions, arguments, size)
    if read.mistake ~= nil then
        template = sub(template, 1, read.from - 1)
    end
    if (has_zero or read.mistake ~= nil) and pcall(format, template, unpack(arguments, 1, size)) then
        if read.mistake ~= nil then
            error(("invalid option '%s' to 'format'"):format(read.mistake), 2)
        end
        return in_pieces(template, read.conversions, arguments)
    end
    return format(template, unpack(arguments, 1, size))
end

-- Returns whether LuaJIT's function formats these arguments right: texts without a zero byte, and numbers not halfway.
local function are_simple(conversions, _, ...)
    for place = 1, math.min(select('#', ...), #conversions) do
        local argument, conversion = select(place, ...), conversions[place]
        local kind = type(argument)
        if kind == 'number' then
            if conversion.digits and above_half(argument, conversion) then
                return false
            end
        elseif kind ~= 'string' or conversion.digits or find(argument, '%z') then
            return false
        end
    end
    return true
end

local format_any

function format_any(...)
    local template = ...
    if type(template) == 'string' then
        local read = templates[template] or read_template(template)
        if read.short ~= nil then
            return format_any(read.short, select(2, ...))
        end
        if not read.is_easy and (read.mistake ~= nil or read.has_byte or not are_simple(read.conversions, ...)) then
            return format_carefully(template, read, select(2, ...))
        end
    end
    return format(...)
end

if format('%.0f', 2.5) ~= '3' then
    string.format = format_any
end

return {of_luajit = format}
