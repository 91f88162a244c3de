-- require('iconv'): converts texts between encodings.
--     local convert = require('iconv').new('UTF-16LE', 'UTF-8')
--     convert('text')  or  convert:convert('text')
local errno = require('errno')
local python = require('internal.python')

local PROBLEMS = {
    function() return errno.EILSEQ, 'Invalid multibyte sequence' end,
    function() return errno.EINVAL, 'Incomplete multibyte sequence' end,
}

local methods = {}

function methods.convert(converter, text)
    if type(converter) ~= 'table' or type(text) ~= 'string' then
        error(("attempt to index local 'data' (a %s value)"):format(type(text)), 2)
    end
    local result = python.iconv_convert(converter._to, converter._from, text)
    if type(result) == 'number' then
        local number, problem = PROBLEMS[result]()
        errno(number)
        return nil, problem
    end
    return result
end

local metatable = {__index = methods, __call = methods.convert}

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
