-- Methods of index objects.
--
-- A key of one number (for reads also one string) crosses to Python unchanged, any other key as a MessagePack array,
-- where it is often another one with salt (see lua/salt.py).

local arguments = require('internal.arguments')
local box_error = require('box.error')
local check_index = require('box.usage').index
local call_wave = require('box.call_wave')
local direct = require('box.direct')
local ffi = require('ffi')
local finish = require('box.finish')
local iterator_types = require('box.iterator_type')
local msgpack = require('internal.msgpack')
-- Those of msgpackffi, but a key of more than 64 bits stays what it is.
local READ_OPTIONS = setmetatable({is_exact = true}, {__index = require('msgpackffi').OPTIONS})
local python = require('internal.python')
local tuples = require('internal.tuple')
local changes = require('box.changes')
local iterators = require('box.iterator')
local wait = require('internal.wait')
local iterator_type, NEIGHBOR = iterator_types.resolve, iterator_types.types.NEIGHBOR
local open_cursor, open_directly, first_chunk = iterators.open, iterators.open_directly, iterators.first_chunk
local ends_with = call_wave.ends_with

local getmetatable, next, select, type = getmetatable, next, select, type
local tuple_raw, salted_raw, is_tuple = tuples.raw, tuples.salted_raw, tuples.is
local new_salted, from_images = tuples.new_salted, tuples.from_images
local encode, encode_args, encode_salted = msgpack.encode_value, msgpack.encode_args, msgpack.encode_salted
local encoder = require('internal.msgpack_encode')
local encode_array, encode_salted_array = encoder.encode_array, encoder.encode_salted_array
local index_get, index_get_key = python.index_get, python.index_get_key
local index_select_by = python.index_select_by
local index_update, index_delete = python.index_update, python.index_delete
local index_update_one = python.index_update_one

local UINT32_MAX = 4294967295
-- Up to 2^53 every whole number is exactly a double.
local EXACT_LIMIT = 2^53

local methods = {}

local EMPTY_KEY = '\144'
local SALTED_EMPTY_KEY = EMPTY_KEY .. '\0\0\0\0'
local UNENCODABLE = {['function'] = true, userdata = true, thread = true}

local function key_encoder(encode_list, raw_of, empty)
    return function(key)
        if key == nil then
            return empty
        elseif type(key) == 'table' then
            local count = #key
            return encode_list(READ_OPTIONS, getmetatable(key) and {unpack(key, 1, count)} or key, count)
        elseif is_tuple(key) then
            return raw_of(key)
        end
        return encode_list(READ_OPTIONS, {key}, 1)
    end
end

-- Encode the key of a read as a MessagePack array: nil is the empty key, a value is a key of one part.
local encode_key = key_encoder(encode_array, tuple_raw, EMPTY_KEY)
local encode_salted_key = key_encoder(encode_salted_array, salted_raw, SALTED_EMPTY_KEY)

-- Encodes the key of a change, which must not be a map, with salt. Numbers stay unchanged.
local function encode_exact_key(key)
    local kind = type(key)
    if kind == 'number' and key > -EXACT_LIMIT and key < EXACT_LIMIT then
        return key
    elseif kind == 'table' or UNENCODABLE[kind] then
        return encode_salted(key)
    elseif key == nil then
        return SALTED_EMPTY_KEY
    elseif is_tuple(key) then
        return salted_raw(key)
    end
    return encode_salted({key})
end

-- Encodes update operations with salt.
local function encode_operations(ops)
    if is_tuple(ops) then
        return salted_raw(ops)
    end
    local raw = encode_salted(ops)
    local first = raw:byte()
    if first < 0x90 or first > 0xdd then
        -- A map was given.
        box_error(box_error.TUPLE_NOT_ARRAY)
    end
    return raw
end

-- Returns whether a part of an operation crosses to Python as it is: a text, or a number that keeps its value.
local function is_plain(part)
    local kind = type(part)
    return kind == 'string' or kind == 'number' and part > -EXACT_LIMIT and part < EXACT_LIMIT
end

-- Returns the three parts of the operation if there is only one, and it is plain: {{code, field, argument}}. Such an
-- operation need not be encoded. Returns nothing for any others.
local function plain_operation(ops)
    if type(ops) ~= 'table' then
        return
    end
    local first, operation = next(ops)
    if first ~= 1 or next(ops, 1) ~= nil or type(operation) ~= 'table' or getmetatable(ops) ~= nil then
        return
    end
    if next(operation) ~= 1 or next(operation, 1) ~= 2 or next(operation, 2) ~= 3 or next(operation, 3) ~= nil then
        return -- the keys are not exactly 1, 2 and 3, or come in another order
    end
    local code, field, argument = operation[1], operation[2], operation[3]
    if type(code) == 'string' and is_plain(field) and (is_plain(argument) or type(argument) == 'boolean')
            and getmetatable(operation) == nil then
        return code, field, argument
    end
end

local by_number, by_string = direct.by_number, direct.by_string
local fetch, may_read_directly = direct.fetch, direct.is_allowed
local searches, may_search = direct.searches, direct.may_search
local begin, choose, find_one = direct.begin, direct.choose, direct.get

-- Keys with more parts than this are always encoded.
local MOST_PARTS = 8

-- The least number of tuples that a loop over the nearest ones reads at first: each of them takes long to find.
local FEW = 4

-- Returns the key, or the part of a key of one part, and its type.
local function single_part(key)
    local kind = type(key)
    if kind == 'table' and #key == 1 then
        key = key[1]
        return key, type(key)
    end
    return key, kind
end

-- Returns the look-up of box.direct and its key, if they can be used.
local function look_up_way(index, key)
    local kind, way = type(key), nil
    if kind == 'table' then
        key, kind = single_part(key)
    end
    if kind == 'number' then
        way = key >= 0 and key < EXACT_LIMIT and key % 1 == 0 and by_number[index]
    elseif kind == 'string' then
        way = by_string[index]
    end
    if way and may_read_directly() then
        return way, key
    end
end

-- Returns the direct searches in an index if they can be used with this key, and the number of its parts if it is no
-- single value.
local function search_way(index, key)
    local kind, count = type(key), nil
    if kind == 'table' then
        count = #key
        if count > MOST_PARTS then
            return
        end
        for place = 1, count do
            if not is_plain(key[place]) then
                return
            end
        end
    elseif not is_plain(key) then
        if key ~= nil then
            return
        end
        count = 0
    end
    if by_number[index] == nil then
        direct.look_at(index)
    end
    local search = searches[index]
    if search and may_search() then
        return search, count
    end
end

-- Returns the parts of a key, whose number is that of `search_way`.
local function parts_of(key, count)
    if count == nil then
        return key
    elseif count > 0 then
        return unpack(key, 1, count)
    end
end

local function get_checked(index, key)
    check_index(index, 'get')
    local search, count = search_way(index, key)
    if search then
        local is_done, tuple = find_one(search, parts_of(key, count))
        if tuple ~= nil then
            return tuple
        elseif is_done then
            return
        end
    end
    local value, kind = single_part(key)
    local raw, problem
    if kind == 'string' or kind == 'number' and value > -EXACT_LIMIT and value < EXACT_LIMIT then
        raw, problem = index_get(index.space_id, index.id, value)
    else
        raw, problem = index_get_key(index.space_id, index.id, encode_salted_key(key))
    end
    if raw == nil then
        return
    elseif type(raw) == 'string' then
        return new_salted(raw, index.space_id)
    end
    return finish.tuple(index.space_id, raw, problem)
end

function methods.get(index, key)
    local way, value = look_up_way(index, key)
    if way then
        direct.reads = direct.reads + 1
        return fetch(way, value)
    end
    return get_checked(index, key)
end

local function select_options(options, key_is_empty)
    local iterator = iterator_type(options, key_is_empty)
    local offset, limit = 0, UINT32_MAX
    if options ~= nil then
        offset = options.offset or offset
        limit = options.limit or limit
    end
    return iterator, offset, limit
end

-- Returns the position just after a tuple.
local function position_of(index, tuple)
    local raw
    if is_tuple(tuple) then
        raw = tuple_raw(tuple)
    elseif type(tuple) == 'table' then
        raw = encode(tuple)
        local first = raw:byte()
        if first < 0x90 or first > 0xdd then
            -- A map was given.
            box_error(box_error.TUPLE_NOT_ARRAY)
        end
    else
        raw = encode_args(tuple)
    end
    return (wait(python.index_position(index.space_id, index.id, raw)))
end

-- Returns the position of the option `after`; '' is the beginning.
local function position_after(index, options)
    local after = options and options.after
    if after == nil then
        return ''
    elseif type(after) == 'string' then
        return after
    elseif type(after) ~= 'table' and not is_tuple(after) then
        box_error(box_error.ITERATOR_POSITION)
    end
    return position_of(index, after)
end

-- Converts the option as the FFI converts an argument.
local function is_wanted(fetches)
    if type(fetches) == 'number' then
        return fetches ~= 0
    elseif type(fetches) ~= 'boolean' then
        error(("bad argument #7 to 'box_select' (cannot convert '%s' to 'bool')"):format(type(fetches)))
    end
    return fetches
end

local uint32 = ffi.typeof('uint32_t')

-- Converts an argument like the FFI: numbers are cut and wrap around, booleans count as 0 and 1.
local function to_uint32(value, position, call)
    if type(value) == 'number' and value >= 0 and value <= UINT32_MAX then
        return math.floor(value)
    end
    local ok, converted = pcall(uint32, value)
    if not ok then
        error(("bad argument #%d to '%s' (%s)"):format(position, call, converted))
    end
    return tonumber(converted)
end

local function select_page(index, iterator, offset, limit, key, after, returns_position, fetches)
    local blob, sizes, position = wait(python.index_page(
        index.space_id, index.id, iterator, offset, limit, key, after, fetches))
    local rows = from_images(blob, sizes)
    if returns_position then
        return rows, position
    end
    return rows
end

-- Selects by a key of one number or string.
local function select_by(index, iterator, offset, limit, value)
    local blob, sizes = index_select_by(index.space_id, index.id, iterator, offset, limit, value)
    if type(blob) ~= 'string' then
        blob, sizes = wait(blob, sizes)
    end
    return from_images(blob, sizes)
end

-- Returns whether the options of a select by a full key ask for the tuple with this key.
local function asks_for_equal(opts)
    if type(opts) ~= 'table' then
        return opts == nil
    end
    local iterator, limit = opts.iterator, opts.limit
    return (iterator == nil or iterator == 'EQ' or iterator == 0)
        and (limit == nil or type(limit) == 'number' and limit >= 1 and limit <= UINT32_MAX)
        and (opts.offset == nil or opts.offset == 0) and opts.after == nil and opts.fetch_pos == nil
end

-- Selects by a direct search. Returns the tuples, or nil if the general read has to find them.
local function select_directly(index, key, opts)
    local search, count = search_way(index, key)
    if not search then
        return
    end
    local iterator, offset, limit = select_options(opts, count == 0)
    if iterator % 1 ~= 0 then
        return
    end
    if opts ~= nil then
        offset, limit = to_uint32(offset, 4, 'box_select'), to_uint32(limit, 5, 'box_select')
    end
    return choose(search, iterator, offset, limit, parts_of(key, count))
end

function methods.select(index, key, opts)
    if asks_for_equal(opts) then
        local way, value = look_up_way(index, key)
        if way then
            direct.reads = direct.reads + 1
            return {(fetch(way, value))}
        end
    end
    check_index(index, 'select')
    if opts == nil or opts.after == nil and opts.fetch_pos == nil then
        local rows = select_directly(index, key, opts)
        if rows then
            return rows
        end
    end
    local value, kind = single_part(key)
    if kind == 'string' or kind == 'number' and value > -EXACT_LIMIT and value < EXACT_LIMIT then
        if opts == nil then
            return select_by(index, 0, 0, UINT32_MAX, value)
        elseif opts.after == nil and opts.fetch_pos == nil then
            local iterator, offset, limit = select_options(opts, false)
            return select_by(index, iterator, to_uint32(offset, 4, 'box_select'),
                             to_uint32(limit, 5, 'box_select'), value)
        end
    end
    local raw_key = encode_salted_key(key)
    local iterator, offset, limit = select_options(opts, #raw_key == #SALTED_EMPTY_KEY)
    local after = position_after(index, opts)
    offset, limit = to_uint32(offset, 4, 'box_select'), to_uint32(limit, 5, 'box_select')
    local fetches = opts ~= nil and opts.fetch_pos or nil
    if fetches ~= nil or after ~= '' then
        local is_fetched = fetches ~= nil and is_wanted(fetches)
        return select_page(index, iterator, offset, limit, raw_key, after, fetches, is_fetched)
    end
    local blob, sizes = python.index_select(index.space_id, index.id, iterator, offset, limit, raw_key)
    if type(blob) ~= 'string' then
        blob, sizes = wait(blob, sizes)
    end
    return from_images(blob, sizes)
end

function methods.pairs(index, key, options)
    check_index(index, 'pairs')
    local raw_key = encode_key(key)
    local iterator = iterator_type(options, raw_key == EMPTY_KEY)
    local chunk = first_chunk(index, iterator == NEIGHBOR and FEW or nil)
    if options == nil or options.after == nil then
        local search, parts = search_way(index, key)
        if search and search.begin and iterator % 1 == 0 and iterator ~= NEIGHBOR then
            local found, version, sizes, numbers = begin(search, iterator, chunk, parts_of(key, parts))
            if found then
                return open_directly(index, search, iterator, raw_key, chunk, found, version, sizes, numbers)
            end
        end
    end
    return open_cursor(index, iterator, raw_key, position_after(index, options), chunk)
end

function methods.tuple_pos(index, ...)
    check_index(index, 'tuple_pos')
    if select('#', ...) == 0 then
        box_error(box_error.PROC_LUA, 'Usage index:tuple_pos(tuple)')
    end
    return position_of(index, (...))
end

function methods.count(index, key, options)
    if asks_for_equal(options) then
        local way, value = look_up_way(index, key)
        if way then
            return way.has(value) and 1 or 0
        end
    end
    check_index(index, 'count')
    local search, parts = search_way(index, key)
    if search then
        local iterator = iterator_type(options, parts == 0)
        local found = iterator % 1 == 0 and search.count(iterator, parts_of(key, parts))
        if found then
            return found
        end
    end
    local raw_key = encode_key(key)
    local iterator = iterator_type(options, raw_key == EMPTY_KEY)
    return wait(python.index_count(index.space_id, index.id, iterator, raw_key))
end

function methods.min(index, key)
    check_index(index, 'min')
    return finish.tuple(index.space_id, python.index_min(index.space_id, index.id, encode_key(key)))
end

function methods.max(index, key)
    check_index(index, 'max')
    return finish.tuple(index.space_id, python.index_max(index.space_id, index.id, encode_key(key)))
end

function methods.random(index, seed)
    check_index(index, 'random')
    seed = seed or math.random()
    local place = to_uint32(seed, 3, 'box_index_random')
    return finish.tuple(index.space_id, python.index_random(index.space_id, index.id, place))
end

function methods.len(index)
    check_index(index, 'len')
    return wait(python.index_len(index.space_id, index.id))
end

function methods.bsize(index)
    check_index(index, 'bsize')
    return wait(python.index_bsize(index.space_id, index.id))
end

-- Returns the tuple of a change. Python sends nil for the tuple that was passed to it, `true` for no tuple.
local function changed_tuple(space_id, result, problem, sent)
    if type(result) == 'string' then
        return new_salted(result, space_id)
    elseif type(result) == 'number' and result < 0 and ends_with(result) then
        return nil
    end
    result = wait(result, problem)
    if result == nil then
        result = sent
    end
    if result ~= nil and result ~= true then
        return new_salted(result, space_id)
    end
end

function methods.update(index, key, ops)
    check_index(index, 'update')
    if type(ops) ~= 'table' and not is_tuple(ops) then
        error('Usage index:update(key, ops)', 2)
    end
    changes.count = changes.count + 1
    local code, field, argument = plain_operation(ops)
    if code then
        return changed_tuple(index.space_id, index_update_one(
            index.space_id, index.id, encode_exact_key(key), code, field, argument))
    end
    return changed_tuple(index.space_id, index_update(
        index.space_id, index.id, encode_exact_key(key), encode_operations(ops)))
end

function methods.delete(index, key)
    check_index(index, 'delete')
    changes.count = changes.count + 1
    return changed_tuple(index.space_id, index_delete(index.space_id, index.id, encode_exact_key(key)))
end

-- Checks that there is an index of this space. Both numbers may be texts; Tarantool does not check the kind of the object.
local function check_ids(usage, space_id, index_id)
    space_id, index_id = arguments.number(space_id), arguments.number(index_id)
    if space_id == nil or index_id == nil then
        error(usage, 3)
    end
    finish.nothing(python.index_check(space_id, index_id))
end

function methods.stat(index)
    check_ids('usage index.info(space_id, index_id)', index.space_id, index.id)
    return {}
end

function methods.compact(index)
    check_ids('usage index.compact(space_id, index_id)', index.space_id, index.id)
end

function methods.drop(index)
    check_index(index, 'drop')
    return box.schema.index.drop(index.space_id, index.id)
end

function methods.rename(index, name)
    check_index(index, 'rename')
    return box.schema.index.rename(index.space_id, index.id, name)
end

function methods.alter(index, options)
    check_index(index, 'alter')
    if index.id == nil or index.space_id == nil then
        box_error(box_error.PROC_LUA, 'Usage: index:alter{opts}')
    end
    return box.schema.index.alter(index.space_id, index.id, options)
end

for name, method in pairs(require('box.fselect')) do
    methods[name] = method
end

return {methods = methods, changed_tuple = changed_tuple, encode_operations = encode_operations,
        plain_operation = plain_operation}
