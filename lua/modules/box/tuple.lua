-- box.tuple: constructors and the methods of tuples.

local arguments = require('internal.arguments')
local decoder = require('internal.msgpack_decode')
local encoder = require('internal.msgpack_encode')
local errors = require('internal.error')
local finish = require('box.finish')
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local new_table = require('table.new')
local tuples = require('internal.tuple')

local is_tuple, tuple_new, tuple_raw, step = tuples.is, tuples.new, tuples.raw, tuples.step
local array_header, get_sized, encode = decoder.array_header, decoder.get_sized, encoder.encode
local methods = tuples.methods

local M = {is = is_tuple}

-- A tuple is always an array, so the encoder must not make a map of a table with many holes.
local OPTIONS = setmetatable({encode_sparse_ratio = 0}, {__index = msgpack.OPTIONS})
local OPERATION_OPTIONS = require('msgpackffi').OPTIONS

local function is_array(raw)
    local first = raw:byte(1)
    return first >= 0x90 and first <= 0x9f or first == 0xdc or first == 0xdd
end

-- Makes a tuple: new{1, 2}, new(1, 2) or new(tuple).
function M.new(...)
    local count = select('#', ...)
    if count == 0 then
        return tuple_new('\144')
    end
    local first = ...
    if count == 1 and is_tuple(first) then
        return tuple_new(tuple_raw(first))
    elseif count == 1 and type(first) == 'table' then
        local ok, raw = pcall(encode, OPTIONS, first)
        if not ok then
            error(errors.from_value(raw), 0)
        elseif not is_array(raw) then
            local raise = require('box.error')
            raise(raise.TUPLE_NOT_ARRAY)
        end
        return tuple_new(raw)
    end
    return tuple_new(msgpack.encode_args(...))
end

local function check(tuple, usage)
    if not is_tuple(tuple) then
        error('Usage: ' .. usage)
    end
end

-- Returns the next position and field, like Lua's next().
function methods.next(tuple, pos)
    check(tuple, 'tuple:next(tuple[, pos])')
    if pos == nil then
        pos = 0
    end
    -- As in Tarantool, a 64-bit integer is a position, too, and a boolean is converted to one that cannot be increased.
    local number = type(pos) == 'boolean' and (pos and 1 or 0) or tonumber(pos)
    if number == nil or type(pos) == 'string' then
        error("bad argument #2 to 'box_tuple_field' (cannot convert '" .. type(pos) .. "' to 'unsigned int')")
    end
    number = arguments.whole(number) % 2 ^ 32
    if number >= #tuple then
        return nil
    end
    return pos + 1, (select(2, step(tuple, number)))
end

function methods.ipairs(tuple, position)
    check(tuple, 'tuple:pairs(tuple[, pos])')
    return require('fun').wrap(tuples.iterator(tuple), tuple, position)
end

methods.pairs = methods.ipairs
tuples.pairs = methods.ipairs

-- Returns the bounds of totable() and unpack(), both from 1 and both inclusive. The first counts without its fraction, and
-- as many fields follow as there are steps of 1 from it to the second.
local function bounds(tuple, from, to)
    if from ~= nil and from < 1 then
        error('tuple.totable: invalid second argument')
    elseif to ~= nil and to <= 0 then
        error('tuple.totable: invalid third argument')
    end
    from = tonumber(from) or 1
    local first, count = math.floor(from), #tuple
    if to == nil then
        return first, count
    end
    local steps = math.floor(tonumber(to) - from)
    return first, steps >= 0 and math.min(first + steps, count) or 0    -- 0 also for a NaN
end

local totable, array_mt = methods.totable, msgpack.array_mt

function methods.totable(tuple, from, to)
    check(tuple, 'tuple:totable([from[, to]])')
    if from == nil and to == nil then
        return totable(tuple)
    end
    from, to = bounds(tuple, from, to)
    if to < from then
        return setmetatable({}, array_mt)
    end
    return totable(tuple, from, to)
end

methods.__serialize = methods.totable

function methods.unpack(tuple, from, to)
    check(tuple, 'tuple:totable([from[, to]])')
    from, to = bounds(tuple, from, to)
    if to < from then
        return
    end
    return unpack(totable(tuple), from, to)
end

function methods.find(tuple, offset, value)
    check(tuple, 'tuple:find([offset, ]val)')
    if value == nil then
        offset, value = 0, offset
    end
    local index = 0
    for _, field in tuples.iterator(tuple), tuple, offset do
        index = index + 1
        if field == value then
            return offset + index    -- fails without an offset, as in Tarantool
        end
    end
    return nil
end

function methods.findall(tuple, offset, value)
    check(tuple, 'tuple:findall([offset, ]val)')
    if value == nil then
        offset, value = 0, offset
    end
    local found, index = {}, 0
    local function place()
        return offset + index    -- fails without an offset, as in Tarantool
    end
    for _, field in tuples.iterator(tuple), tuple, offset do
        index = index + 1
        if field == value then
            found[#found + 1] = place()
        end
    end
    return found
end

local LEAST_INT = -2 ^ 31

local function slice_start(offset, count)
    if offset >= 0 and offset < count then
        return offset
    elseif offset < 0 and -offset <= count then
        return offset + count
    elseif offset == LEAST_INT then
        return math.huge    -- as in Tarantool, whose sum overflows
    end
    error('tuple.slice(): start >= field count', 3)
end

local function slice_end(offset, count)
    if offset > 0 and offset <= count then
        return offset
    elseif offset < 0 and -offset < count then
        return offset + count
    end
    error('tuple.slice(): end > field count', 3)
end

-- Returns the first argument, which has to be a tuple.
local function checked(...)
    local tuple = ...
    if not is_tuple(tuple) then
        error('Invalid argument #1 (' .. arguments.expected('box.tuple', ...) .. ')', 3)
    end
    return tuple
end

-- Returns the fields from `from`, counted from 0, up to but without `to`. Negative numbers count from the end.
function methods.slice(...)
    local tuple, argument_count = checked(...), select('#', ...) - 1
    if argument_count == 0 or argument_count > 2 then
        error('tuple.slice(): bad arguments', 2)
    end
    local _, from, to = ...
    local count = #tuple
    from = slice_start(arguments.c_int(from), count)
    to = argument_count == 2 and slice_end(arguments.c_int(to), count) or count
    if to <= from then
        error('tuple.slice(): start must be less than end', 2)
    end
    return unpack(totable(tuple), from + 1, to)
end

-- Encodes update operations with salt. A table is always an array here, whatever other keys it has.
local function encode_operations(ops)
    local count = #ops
    return encoder.encode_salted_array(OPERATION_OPTIONS, getmetatable(ops) and {unpack(ops, 1, count)} or ops, count)
end

local function updated(tuple, operation, ops)
    local format = tuples.format_of(tuple)
    local call = operation == 'update' and python.tuple_update or python.tuple_upsert
    return finish.tuple(format, call(tuple_raw(tuple), encode_operations(ops), format))
end

-- Returns the whole part of a number, 0 for any other value.
local function whole(value)
    local number = arguments.number(value) or 0
    return number - math.fmod(number, 1)
end

-- Returns a tuple in which the values replace `length` fields at `offset`. It has no format.
function methods.transform(...)
    local tuple, argument_count = checked(...), select('#', ...)
    if argument_count < 3 then
        error('tuple.transform(): bad arguments', 2)
    end
    local offset, length = whole((select(2, ...))), whole((select(3, ...)))
    local count = #tuple
    if offset == 0 or -offset > count then
        error('tuple.transform(): offset is out of bound', 2)
    end
    offset = offset < 0 and offset + count + 1 or math.min(offset, count + 1)
    if length < 0 then
        error('tuple.transform(): len is negative', 2)
    end
    length = math.min(length, count + 1 - offset)
    local ops = {}
    if length > 0 then
        ops[1] = {'#', offset, length}
    end
    for i = argument_count, 4, -1 do
        local value = select(i, ...)
        ops[#ops + 1] = {'!', offset, value == nil and msgpack.NULL or value}
    end
    if #ops == 0 then
        return tuple
    end
    return finish.tuple(0, python.tuple_update(tuple_raw(tuple), msgpack.encode_salted(ops), 0))
end

local function check_operations(ops, usage)
    if type(ops) ~= 'table' then
        error('Usage: ' .. usage)
    end
end

function methods.update(tuple, ops)
    check(tuple, 'tuple:update({ { op, field, arg}+ })')
    check_operations(ops, 'tuple:update({ { op, field, arg}+ })')
    return updated(tuple, 'update', ops)
end

function methods.upsert(tuple, ops)
    check(tuple, 'tuple:upsert({ { op, field, arg}+ })')
    check_operations(ops, 'tuple:upsert({ { op, field, arg}+ })')
    return updated(tuple, 'upsert', ops)
end

function methods.bsize(tuple)
    check(tuple, 'tuple:bsize()')
    return tuple._size
end

-- Map of the names of a format -> the names in the order of fields.
local ordered = setmetatable({}, {__mode = 'k'})

local function names_in_order(numbers)
    if numbers == nil then
        return {}
    end
    local names = ordered[numbers]
    if names == nil then
        names = {}
        for name, number in pairs(numbers) do
            names[number] = name
        end
        ordered[numbers] = names
    end
    return names
end

-- Returns the fields by number and, if the format names them, by name. {names_only = true} leaves the numbers out.
function methods.tomap(...)
    local tuple, options = ...
    local names_only = type(options) == 'table' and options.names_only or nil
    local argument_count = select('#', ...)
    local has_bad_options = argument_count == 2 and type(options) ~= 'table'
        or names_only ~= nil and type(names_only) ~= 'boolean'
    if argument_count < 1 or argument_count > 2 or has_bad_options then
        error('Usage: tuple:tomap(opts)', 2)
    end
    checked(...)
    local names = names_in_order(tuples.format(tuples.format_of(tuple)))
    local data = tuple._data
    local count, pos = array_header(data, 0)
    local map, last = new_table(count, #names), names_only and math.min(count, #names) or count
    for number = 1, last do
        local name, value = names[number], nil
        value, pos = get_sized(msgpack.OPTIONS, data, pos)
        if name ~= nil then
            map[name] = value
        end
        if not names_only then
            map[number] = value
        end
    end
    return map
end

-- Looks up a name that the format does not have: a JSON path, or nothing.
function tuples.path_lookup(tuple, path)
    if path:find('[.[]') then
        local packed = finish.plain(python.tuple_path(tuple_raw(tuple), path, tuples.format_of(tuple)))
        if packed then
            return (msgpack.decode(packed))
        end
    end
end

for name, method in pairs(methods) do
    if name:sub(1, 2) ~= '__' then
        M[name] = method
    end
end

return M
