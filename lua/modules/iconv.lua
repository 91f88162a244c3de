-- require('iconv'): converts texts between encodings.
--     local convert = require('iconv').new('UTF-16LE', 'UTF-8')
--     convert('text')  or  convert:convert('text')
local errno = require('errno')
local python = require('internal.python')

-- Python's results for texts that cannot be converted: errno and the text. As in Tarantool the two texts are swapped.
local PROBLEMS = {
    function() return errno.EILSEQ, 'Incomplete multibyte sequence' end,
    function() return errno.EINVAL, 'Invalid multibyte sequence' end,
}

local methods = {}

function methods.convert(converter, data)
    if type(converter) ~= 'table' or type(data) ~= 'string' then
        local _ = data.x    -- raises the error for a value that cannot be indexed
        error(("bad argument #2 to 'convert' (string expected, got %s)"):format(type(data)))
    end
    local result = python.iconv_convert(converter._to, converter._from, data)
    if type(result) == 'number' then
        local number, problem = PROBLEMS[result]()
        errno(number)
        error(problem)
    end
    return result
end

local function shown(converter)
    return ('iconv: %p'):format(converter)
end

local metatable = {__index = methods, __call = methods.convert, __tostring = shown, __serialize = shown}

local function new(to, from)
    if type(to) ~= 'string' or type(from) ~= 'string' then
        error('Usage: iconv.new("CP1251", "KOI8-R")')
    end
    if not (python.iconv_known(to) and python.iconv_known(from)) then
        errno(errno.EINVAL)
        error('iconv: ' .. errno.strerror(errno.EINVAL))
    end
    return setmetatable({_to = to, _from = from}, metatable)
end

return {new = new}
