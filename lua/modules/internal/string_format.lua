-- string.format of LuaJIT 2.0, made to do what that of Tarantool does (LuaJIT 2.1):
-- - `%q` takes any value, not only strings and numbers.
-- - `%s` keeps what follows a zero byte in a string.
-- - Flags may be repeated, and a wrong conversion is named in the error.
local concat, find, format, gsub, match = table.concat, string.find, string.format, string.gsub, string.match
local sub = string.sub
local error, ipairs, pcall, select, type, unpack = error, ipairs, pcall, select, type, unpack
local tonumber, tostring = tonumber, tostring

-- Plans are kept by template until there are so many: a program that makes its templates from data must not fill the
-- memory.
local MOST_PLANS = 1000

local plans, count = {}, 0

-- Each flag once, because LuaJIT 2.0 refuses more than five.
local function once(flags)
    local kept = ''
    for flag in flags:gmatch('.') do
        if not find(kept, flag, 1, true) then
            kept = kept .. flag
        end
    end
    return kept
end

-- Splits the conversion at `from`. Returns its flags, width, precision (with the point) and letter, an empty text if it
-- has none, and the place after it. Width and precision have at most two digits.
local function split(template, from)
    local flags, width, point = match(template, '^%%([-+ #0]*)(%d?%d?)()', from)
    local precision, letter = match(template, '^(%.%d?%d?)()', point)
    if precision == nil then
        precision, letter = '', point
    end
    local kind = match(template, '^[cdiouxXaAeEfgGpsq]?', letter)
    return flags, width, precision, kind, letter + #kind
end

-- Returns what is known of a template:
-- - `native`: the template for LuaJIT, up to a wrong conversion;
-- - `wrong`: the text of that conversion, if there is one;
-- - `texts`: how many arguments `%s` shows;
-- - `any`: the places of the arguments for `%q`;
-- - `usual`: whether LuaJIT does the right thing with it, as long as no string has zeros;
-- - `parts`: literal texts (strings) and conversions ({conversion, place of its argument}), in their order.
local function plan_of(template)
    local plan = {texts = 0, any = {}, parts = {}}
    local parts, native, place, from = plan.parts, {}, 0, 1
    while plan.wrong == nil do
        local percent = find(template, '%', from, true)
        local literal = sub(template, from, (percent or 0) - 1)
        native[#native + 1], parts[#parts + 1] = literal, gsub(literal, '%%%%', '%%')
        if percent == nil then
            break
        elseif sub(template, percent + 1, percent + 1) == '%' then
            native[#native + 1], parts[#parts + 1] = '%%', '%'
            from = percent + 2
        else
            local flags, width, precision, kind, next_from = split(template, percent)
            if kind == '' then
                -- Printable characters are part of what the error shows.
                plan.wrong = sub(template, percent, next_from - 1) .. match(template, '^[^%z\1-\31]?', next_from)
                break
            end
            place = place + 1
            local text = '%' .. once(flags) .. width .. precision .. kind
            native[#native + 1], parts[#parts + 1] = text, {text, place}
            if kind == 's' then
                plan.texts = plan.texts + 1
            elseif kind == 'q' then
                plan.any[#plan.any + 1] = place
            end
            from = next_from
        end
    end
    plan.native = concat(native)
    plan.usual = plan.native == template and #plan.any == 0
    return plan
end

local function find_plan(template)
    local plan = plan_of(template)
    if count == MOST_PLANS then
        plans, count = {}, 0
    end
    plans[template], count = plan, count + 1
    return plan
end

local function has_zeros(a, b, ...)
    if type(a) == 'string' and find(a, '\0', 1, true) or type(b) == 'string' and find(b, '\0', 1, true) then
        return true
    end
    return select('#', ...) > 0 and has_zeros(...)
end

-- Shows a string by a `%s` with its flags, width and precision.
local function show(conversion, text)
    local flags, width, precision = split(conversion, 1)
    if precision ~= '' then
        text = sub(text, 1, tonumber(sub(precision, 2)) or 0)
    end
    local padding = (' '):rep((tonumber(width) or 0) - #text)
    return find(flags, '-', 1, true) and text .. padding or padding .. text
end

-- Formats piece by piece. All arguments fit.
local function format_parts(plan, ...)
    local shown = {}
    for i, part in ipairs(plan.parts) do
        if type(part) == 'string' then
            shown[i] = part
        else
            local conversion, place = unpack(part)
            local argument = select(place, ...)
            if sub(conversion, -1) == 's' and has_zeros(argument) then
                shown[i] = show(conversion, argument)
            else
                shown[i] = format(conversion, argument)
            end
        end
    end
    return concat(shown)
end

-- Returns the arguments; those for `%q` are replaced by their texts.
local function as_texts(plan, ...)
    local arguments, n = {...}, select('#', ...)
    for _, place in ipairs(plan.any) do
        if place <= n then
            arguments[place] = tostring(arguments[place])
        end
    end
    return unpack(arguments, 1, n)
end

-- What formats with a plan. LuaJIT's function is always the last call, so that errors name the caller.
local function format_planned(plan, ...)
    if plan.wrong ~= nil and pcall(format, plan.native, ...) then
        error(("invalid option '%s' to 'format'"):format(plan.wrong), 2)
    elseif plan.texts > 0 and has_zeros(...) and pcall(format, plan.native, ...) then
        return format_parts(plan, ...)
    end
    return format(plan.native, ...)
end

local function format_any(...)
    local template = ...
    if type(template) ~= 'string' then
        return format(...)
    end
    local plan = plans[template] or find_plan(template)
    if plan.usual and (plan.texts == 0 or not has_zeros(...)) then
        return format(...)
    elseif #plan.any > 0 then
        return format_planned(plan, as_texts(plan, select(2, ...)))
    end
    return format_planned(plan, select(2, ...))
end

if not pcall(format, '%q', true) then
    string.format = format_any
end
