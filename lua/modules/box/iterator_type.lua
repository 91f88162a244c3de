-- box.index: iterator types by name, and the option that chooses one.

local box_error = require('box.error')

local TYPES = {
    EQ = 0, REQ = 1, ALL = 2, LT = 3, LE = 4, GE = 5, GT = 6, BITS_ALL_SET = 7, BITS_ANY_SET = 8,
    BITS_ALL_NOT_SET = 9, OVERLAPS = 10, NEIGHBOR = 11,
}

local function by_name(name)
    local iterator = TYPES[name:upper()]
    if iterator == nil then
        box_error(box_error.ITERATOR_TYPE, name)
    end
    return iterator
end

-- Returns an iterator's number. `opts` is a table with `iterator`, or a name; nil means ALL for an empty key, else EQ.
local function resolve(opts, key_is_empty)
    local given = opts
    if opts and type(opts) ~= 'string' then
        given = opts.iterator
    end
    if given then
        local kind = type(given)
        if kind == 'string' then
            return by_name(given)
        elseif kind == 'number' then
            if given - given ~= 0 then
                box_error(box_error.ILLEGAL_PARAMS, 'Invalid iterator type')
            end
            return given
        end
        box_error(box_error.ITERATOR_TYPE, tostring(given))
    end
    return key_is_empty and TYPES.ALL or TYPES.EQ
end

return {types = TYPES, resolve = resolve}
