-- require('tap'): tests that report in the Test Anything Protocol, version 13.
local ffi = require('ffi')
local output = require('internal.standard_output')
-- Diagnostics must be able to show any value.
local yaml = require('yaml').new()
yaml.cfg({
    encode_invalid_numbers = true, encode_load_metatables = true, encode_use_tostring = true,
    encode_invalid_as_nil = true,
})

local debug, error, next, pairs = debug, error, next, pairs
local getmetatable, setmetatable, tostring, type = getmetatable, setmetatable, tostring, type
local format, rep = string.format, string.rep

local methods = {}
local test_mt = {__index = methods}

local function say(test, indent, text)
    output.write(rep(' ', 4 * test.level + indent) .. text .. '\n')
end

local function frame_of(info)
    return {
        source = info.source, src = info.short_src, line = info.linedefined or 0, what = info.what, name = info.name,
        namewhat = info.namewhat, filename = info.source:sub(1, 1) == '@' and info.source:sub(2) or 'eval',
    }
end

-- Returns the calls above `level`, without those of the runtime that begin a fiber.
local function traceback(level)
    local frames = {}
    local info = debug.getinfo(level, 'nSl')
    while info do
        frames[#frames + 1] = frame_of(info)
        level = level + 1
        info = debug.getinfo(level, 'nSl')
    end
    while #frames > 1 do
        local source = frames[#frames].source
        if source ~= '=[C]' and not source:find('^@builtin/internal/') then
            break
        end
        frames[#frames] = nil
    end
    return frames
end

-- Report a result. `depth` is the number of functions between this one and the call of the user.
local function report(test, condition, message, extra, depth)
    test.total = test.total + 1
    if condition then
        say(test, 0, 'ok - ' .. tostring(message))
        return true
    end
    test.failed = test.failed + 1
    say(test, 0, 'not ok - ' .. tostring(message))
    extra = extra or {}
    if test.trace then
        -- Assigned one at a time: the order of assignment is the order in which they are shown.
        local frames = traceback(depth + 3)
        local last = frames[#frames] or {}
        extra.trace = frames
        extra.filename = last.filename
        extra.line = last.line
    end
    if next(extra) ~= nil then
        for line in yaml.encode(extra):gmatch('[^\n]+') do
            say(test, 2, line)
        end
    end
    return false
end

function methods.ok(test, condition, message, extra)
    local result = report(test, condition, message, extra, 1)
    return result
end

function methods.fail(test, message, extra)
    local result = report(test, false, message, extra, 1)
    return result
end

function methods.skip(test, message, extra)
    report(test, true, message .. ' # skip', extra, 1)
end

function methods.diag(test, text, ...)
    say(test, 0, '# ' .. format(text, ...))
end

function methods.plan(test, count)
    test.planned = count
    say(test, 0, format('1..%d', count))
end

-- ---- comparisons -----------------------------------------------------------------------------

local function with_facts(extra, got, expected)
    extra = extra or {}
    extra.got = got
    extra.expected = expected
    return extra
end

-- Compares for `is`. nil and box.NULL are equal unless the test is strict.
local function same(test, got, expected)
    return (not test.strict or type(got) == type(expected)) and got == expected
end

function methods.is(test, got, expected, message, extra)
    local is_same = same(test, got, expected)
    local result = report(test, is_same, message, with_facts(extra, got, expected), 1)
    return result
end

function methods.isnt(test, got, unexpected, message, extra)
    extra = extra or {}
    extra.got = got
    extra.unexpected = unexpected
    local result = report(test, not same(test, got, unexpected), message, extra, 1)
    return result
end

local function matches(got, pattern)
    return string.match(tostring(got), pattern) ~= nil
end

function methods.like(test, got, pattern, message, extra)
    extra = with_facts(extra, got, pattern)
    local result = report(test, matches(got, pattern), message, extra, 1)
    return result
end

function methods.unlike(test, got, pattern, message, extra)
    extra = with_facts(extra, got, pattern)
    local result = report(test, not matches(got, pattern), message, extra, 1)
    return result
end

local compare

local function plain_boolean(value)
    if ffi.istype('bool', value) then
        return value == 1
    end
    return value
end

local function compare_tables(got, expected, extra)
    local path, seen = extra.path or '/', {}
    for key, value in pairs(got) do
        seen[key] = true
        extra.path = path .. '/' .. tostring(key)
        if not compare(value, expected[key], extra) then
            return false
        end
    end
    for key, value in pairs(expected) do
        if not seen[key] and (extra.strict or value ~= box.NULL) then
            extra.expected, extra.got = 'key ' .. tostring(key), 'nil'
            return false
        end
    end
    extra.path = path
    return true
end

-- Compares tables at any depth; `extra` receives what differs and where.
function compare(got, expected, extra)
    if type(expected) == 'number' or type(got) == 'number' then
        extra.got, extra.expected = got, expected
        return (got ~= got and expected ~= expected) or got == expected
    end
    got, expected = plain_boolean(got), plain_boolean(expected)
    if extra.strict and type(got) ~= type(expected) then
        extra.got, extra.expected = type(got), type(expected)
        return false
    elseif type(got) ~= 'table' or type(expected) ~= 'table' then
        extra.got, extra.expected = got, expected
        return got == expected
    end
    return compare_tables(got, expected, extra)
end

function methods.is_deeply(test, got, expected, message, extra)
    extra = with_facts(extra, got, expected)
    extra.strict = test.strict
    local result = report(test, compare(got, expected, extra), message, extra, 1)
    return result
end

-- ---- types -----------------------------------------------------------------------------------

local TYPES = {
    isnumber = 'number', isstring = 'string', istable = 'table', isboolean = 'boolean',
    isfunction = 'function',
}
for name, expected in pairs(TYPES) do
    methods[name] = function(test, value, message, extra)
        local result = report(test, type(value) == expected, message, with_facts(extra, type(value), expected), 1)
        return result
    end
end

-- Checks that a value is nil or, as in Tarantool, `false` or the text 'nil'. Reports show other values as they are.
function methods.isnil(test, value, message, extra)
    local got = value and value or 'nil'
    local result = report(test, same(test, got, 'nil'), message, with_facts(extra, got, 'nil'), 1)
    return result
end

function methods.isudata(test, value, utype, message, extra)
    extra = with_facts(extra, nil, 'userdata<' .. utype .. '>')
    local is_it = false
    if type(value) == 'userdata' then
        extra.got = 'userdata<' .. getmetatable(value) .. '>'
        is_it = getmetatable(value) == utype
    else
        extra.got = type(value)
    end
    local result = report(test, is_it, message, extra, 1)
    return result
end

function methods.iscdata(test, value, expected, message, extra)
    extra = with_facts(extra, nil, tostring(ffi.typeof(expected)))
    local is_it = false
    if type(value) == 'cdata' then
        extra.got = tostring(ffi.typeof(value))
        is_it = ffi.istype(expected, value)
    else
        extra.got = type(value)
    end
    local result = report(test, is_it, message, extra, 1)
    return result
end

-- ---- tests in tests --------------------------------------------------------------------------

-- Makes a new test, test(name), or also runs it and checks its plan, test(name, fun, ...).
local function test(parent, name, fun, ...)
    local made = setmetatable({
        parent = parent, name = name, level = parent and parent.level + 1 or 0, total = 0, failed = 0, planned = 0,
        trace = parent == nil or parent.trace, strict = false,
    }, test_mt)
    if fun == nil then
        return made
    end
    made:diag('%s', made.name)
    fun(made, ...)
    made:diag('%s: end', made.name)
    local result = made:check()
    return result
end

methods.test = test

local function check_result(test)
    if test.planned ~= test.total then
        return false, 'bad plan', {planned = test.planned, run = test.total}
    elseif test.failed > 0 then
        return false, 'failed subtests', {failed = test.failed, planned = test.planned}
    end
    return true, test.name
end

-- Returns whether the planned number of checks was made and all of them passed.
function methods.check(test)
    if test.checked then
        error('check called twice')
    end
    test.checked = true
    local is_good, message, extra = check_result(test)
    if test.parent ~= nil then
        report(test.parent, is_good, message, extra, 1)
    elseif test.planned ~= test.total then
        test:diag('bad plan: planned %d run %d', test.planned, test.total)
    elseif not is_good then
        test:diag('failed subtest: %d', test.failed)
    end
    return is_good
end

local function root_test(...)
    output.write('TAP version 13\n')
    return test(nil, ...)
end

return {test = root_test}
