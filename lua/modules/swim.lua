-- require('swim'): membership of a cluster by the SWIM protocol, over UDP.
--     s = swim.new({uri = 3301, uuid = uuid.new()})      s:probe_member('host:3301')      s:quit()
--     for uuid, member in s:pairs() do print(member:uri(), member:status()) end
-- Python has the protocol (lua/bindings/swim.py). An instance and a member are tables, as in Tarantool, whose `ptr` is a
-- pointer in appearance only: its value is their number in Python, and nothing is there.
local arguments = require('internal.swim_arguments')
local crypto = require('crypto')
local errors = require('internal.error')
local ffi = require('ffi')
local fiber = require('fiber')
local gc = require('internal.finalizers').raw_gc
local msgpack = require('msgpack')
local python = require('internal.python')
local triggers = require('box.trigger_list')
require('uuid')
local wait = require('internal.wait')

local band = bit.band
local check_uri, check_time, check_gc_mode = arguments.uri, arguments.time, arguments.gc_mode
local check_uuid, check_bytes = arguments.uuid, arguments.bytes
local error, ipairs, next, pairs, pcall, setmetatable = error, ipairs, next, pairs, pcall, setmetatable
local tonumber, tostring, type = tonumber, tostring, type

ffi.cdef([[
    struct swim;
    struct swim_member;
    struct swim_iterator;
    struct swim_incarnation { uint64_t generation; uint64_t version; };
]])
local swim_pointer, member_pointer = ffi.typeof('struct swim *'), ffi.typeof('struct swim_member *')
local iterator_pointer, address = ffi.typeof('struct swim_iterator *'), ffi.typeof('uintptr_t')
local incarnation_type, uuid_type = ffi.typeof('struct swim_incarnation'), ffi.typeof('struct tt_uuid')
local UUID_SIZE, INCARNATION_SIZE = 16, 16

local function number_of(pointer)
    return tonumber(ffi.cast(address, pointer))
end

-- Returns true for a call of Python that did what it should, otherwise nil and the error.
local function outcome(result, problem)
    if result == false then
        return nil, errors.decode(problem)
    end
    return true
end

-- ---- incarnations ----------------------------------------------------------------------------

-- Errors of Lua name the arguments `l` and `r`, and `ctx` below, as in Tarantool.
ffi.metatype(incarnation_type, {
    __eq = function(l, r)
        return l.generation == r.generation and l.version == r.version
    end,
    __lt = function(l, r)
        if l.generation == r.generation then
            return l.version < r.version
        end
        return l.generation < r.generation
    end,
    __le = function(l, r)
        if l.generation == r.generation then
            return l.version <= r.version
        end
        return l.generation < r.generation
    end,
    __tostring = function(incarnation)
        return ('cdata {generation = %s, version = %s}'):format(incarnation.generation, incarnation.version)
    end,
})

-- ---- arguments -------------------------------------------------------------------------------

-- Number -> {number, listeners, handler, is_collected}: the instances that are not deleted.
local states = {}

local function state_of(s, of)
    local pointer = type(s) == 'table' and s.ptr
    if type(pointer) == 'cdata' and ffi.istype(swim_pointer, pointer) then
        local state = states[number_of(pointer)]
        if state ~= nil then
            return state
        end
    end
    return error(of .. ': first argument is not a SWIM instance')
end

-- ---- members ---------------------------------------------------------------------------------

-- Member -> {payload, incarnation and state of the payload that were decoded}, and memory by the pointer into it.
local decoded, memory = setmetatable({}, {__mode = 'k'}), setmetatable({}, {__mode = 'k'})

-- Returns something about a member. The call of a method is named for the error text.
local function fact(member, of, name)
    local pointer = type(member) == 'table' and member.ptr
    if type(pointer) == 'cdata' and ffi.istype(member_pointer, pointer) then
        local value = python.swim_fact(number_of(pointer), name)
        if value ~= nil then
            return value
        end
    end
    return error(('member:%s(): first argument is not a SWIM member'):format(of))
end

local STATUS = {[0] = 'alive', 'suspected', 'dead', 'left'}
local member_methods = {}

function member_methods.status(member)
    local status = fact(member, 'status', 'status')
    return STATUS[status]
end

function member_methods.uri(member)
    local uri = fact(member, 'uri', 'uri')
    return uri
end

function member_methods.uuid(member)
    local bytes = fact(member, 'uuid', 'uuid')
    local value = ffi.new(uuid_type)
    ffi.copy(value, bytes, UUID_SIZE)
    return value
end

function member_methods.incarnation(member)
    local bytes = fact(member, 'incarnation', 'incarnation')
    local value = ffi.new(incarnation_type)
    ffi.copy(value, bytes, INCARNATION_SIZE)
    return value
end

function member_methods.is_dropped(member)
    local dropped = fact(member, 'is_dropped', 'is_dropped')
    return dropped == 1
end

function member_methods.payload_cdata(member)
    local bytes = fact(member, 'payload_cdata', 'payload')
    if #bytes == 0 then
        return ffi.cast('const char *', nil), 0
    end
    local copy = ffi.new('char[?]', #bytes)
    ffi.copy(copy, bytes, #bytes)
    local pointer = ffi.cast('const char *', copy)
    memory[pointer] = copy
    return pointer, #bytes
end

function member_methods.payload_str(member)
    local bytes = fact(member, 'payload_str', 'payload')
    return #bytes > 0 and bytes or nil
end

-- Returns the payload, decoded from MessagePack, or as a text if it is not MessagePack. Returns the same object until
-- the payload changes. The incarnation alone does not show a change, because it may be known before its payload.
function member_methods.payload(member)
    local bytes = fact(member, 'payload', 'payload')
    local version = python.swim_fact(number_of(member.ptr), 'incarnation')
        .. python.swim_fact(number_of(member.ptr), 'is_payload_current')
    local known = decoded[member]
    if known ~= nil and known.version == version then
        return known.payload
    end
    local payload
    if #bytes > 0 then
        local ok, value = pcall(msgpack.decode, bytes)
        if ok then
            payload = value
        else
            payload = bytes
        end
    end
    decoded[member] = {version = version, payload = payload}
    return payload
end

local member_mt = {
    __index = member_methods,
    __newindex = function()
        return error('swim_member is a read-only object')
    end,
    __serialize = function(member)
        local payload = fact(member, '__serialize', 'payload')
        return {
            status = member_methods.status(member),
            uuid = member_methods.uuid(member),
            uri = member_methods.uri(member),
            incarnation = member_methods.incarnation(member),
            payload_size = #payload,
        }
    end,
}

local function release(pointer)
    python.swim_release(number_of(pointer))
end

-- Returns the member with this number, which Python has counted as held; the same table while somebody refers to it.
local function wrap_member(s, number)
    local member = s.cache_table[number]
    if member ~= nil then
        python.swim_release(number)
        return member
    end
    member = setmetatable({ptr = gc(ffi.cast(member_pointer, number), release)}, member_mt)
    s.cache_table[number] = member
    return member
end

-- ---- events ----------------------------------------------------------------------------------

local EVENTS = {
    is_new = 1, is_new_status = 2, is_new_uri = 4, is_new_generation = 8, is_new_version = 16, is_new_payload = 32,
    is_drop = 64, is_new_incarnation = 8 + 16, is_update = 2 + 4 + 8 + 16 + 32,
}
local event_methods = {}
for name, mask in pairs(EVENTS) do
    event_methods[name] = function(event)
        local happened = type(event) == 'table' and event[1]
        if type(happened) ~= 'number' then
            error(('event:%s(): first argument is not a SWIM event'):format(name))
        end
        return band(happened, mask) ~= 0
    end
end

local event_mt = {
    __index = event_methods,
    __serialize = function(event)
        local shown = {}
        for name, method in pairs(event_methods) do
            shown[name] = method(event) or nil
        end
        return shown
    end,
}

-- Calls the triggers for one event, which the first error ends, as in Tarantool.
local function call_triggers(state, number, mask)
    for _, trigger in ipairs(table.copy(state.listeners)) do
        trigger(number, mask)
    end
end

-- The fiber of an instance that calls its triggers.
local function handle_events(state)
    while true do
        local number, mask = wait(python.swim_next_event(state.number))
        if number == nil then
            if state.is_collected then
                fiber.self():set_joinable(false)    -- nobody waits for this end
            end
            return
        elseif number then
            local ok, problem = pcall(call_triggers, state, number, mask)
            if not ok then
                python.swim_trigger_failed(errors.encode(problem))
            end
            python.swim_release(number)
        end
    end
end

-- Returns the function that is listed as a trigger. It keeps no reference to the instance, which is collected as if there
-- were no triggers.
local function new_trigger(s, callback, context)
    local instance = setmetatable({s}, {__mode = 'v'})
    return function(number, mask)
        local here = instance[1]
        if here ~= nil then
            python.swim_hold(number)
            return callback(wrap_member(here, number), setmetatable({mask}, event_mt), context)
        end
    end
end

-- ---- instances -------------------------------------------------------------------------------

local methods = {}

local function deleted()
    return error('the swim instance is deleted')
end
local deleted_mt = {__index = deleted}

-- Ends an instance with a function of Python, and waits for the trigger that runs.
local function finish(s, state, ending)
    gc(s.ptr, nil)
    s.ptr = nil
    setmetatable(s, deleted_mt)
    states[state.number] = nil
    ending(state.number)
    if fiber.self():id() ~= state.handler:id() then
        state.handler:cancel()
        state.handler:join()
    end
end

function methods.delete(s)
    local state = state_of(s, 'swim:delete')
    finish(s, state, python.swim_close)
end

function methods.quit(s)
    local state = state_of(s, 'swim:quit')
    finish(s, state, python.swim_quit)
end

function methods.size(s)
    local state = state_of(s, 'swim:size')
    return python.swim_size(state.number)
end

function methods.is_configured(s)
    local state = state_of(s, 'swim:is_configured')
    return python.swim_is_configured(state.number) == true
end

function methods.probe_member(s, uri)
    local state = state_of(s, 'swim:probe_member')
    uri = check_uri(uri, 'swim:probe_member')
    return outcome(python.swim_probe_member(state.number, uri))
end

function methods.add_member(s, definition)
    local state = state_of(s, 'swim:add_member')
    if type(definition) ~= 'table' then
        return error('swim:add_member: expected table member definition')
    end
    local uri = check_uri(definition.uri, 'swim:add_member')
    local id = check_uuid(definition.uuid, 'swim:add_member')
    return outcome(python.swim_add_member(state.number, uri, id))
end

function methods.remove_member(s, id)
    local state = state_of(s, 'swim:remove_member')
    id = check_uuid(id, 'swim:remove_member')
    return outcome(python.swim_remove_member(state.number, id))
end

function methods.broadcast(s, port)
    local state = state_of(s, 'swim:broadcast')
    if port == nil then
        port = -1
    elseif type(port) == 'string' then
        port = tonumber(port)
    end
    if type(port) ~= 'number' then
        return error('swim:broadcast: expected number port')
    end
    return outcome(python.swim_broadcast(state.number, tonumber(ffi.cast('int', port))))
end

function methods.self(s)
    local state = state_of(s, 'swim:self')
    return wrap_member(s, python.swim_self(state.number))
end

local function member_of(s, state, id)
    local number = python.swim_member(state.number, id)
    return number and wrap_member(s, number) or nil
end

function methods.member_by_uuid(s, id)
    local state = state_of(s, 'swim:member_by_uuid')
    id = check_uuid(id, 'swim:member_by_uuid')
    return id and member_of(s, state, id) or nil
end

local MOST_PAYLOAD, MOST_KEY = 1200, 32

-- Returns bytes of memory and their number. If the number is out of range, returns no bytes, and Python refuses it.
local function copied(memory_or_text, size, most)
    size = tonumber(ffi.cast('int', size))
    if size < 0 or size > most then
        return '', size
    end
    return ffi.string(memory_or_text, size), size
end

function methods.set_payload_raw(s, payload, size)
    local state = state_of(s, 'swim:set_payload_raw')
    payload, size = check_bytes(payload, size, 'swim:set_payload_raw', 'payload')
    return outcome(python.swim_set_payload(state.number, copied(payload, size, MOST_PAYLOAD)))
end

function methods.set_payload(s, payload)
    local state = state_of(s, 'swim:set_payload')
    local bytes = payload == nil and '' or msgpack.encode(payload)
    return outcome(python.swim_set_payload(state.number, bytes, #bytes))
end

function methods.set_codec(s, options)
    local state = state_of(s, 'swim:set_codec')
    if type(options) ~= 'table' then
        error('swim:set_codec: expected table codec configuration')
    end
    local algorithm, mode = crypto.cipher_algo[options.algo], crypto.cipher_mode.cbc
    if algorithm == nil then
        error('swim:set_codec: unknown crypto algorithm')
    elseif options.mode ~= nil then
        mode = crypto.cipher_mode[options.mode]
        if mode == nil then
            error('swim:set_codec: unknown crypto algorithm mode')
        end
    end
    local key, size = check_bytes(options.key, options.key_size, 'swim:set_codec', 'key')
    return outcome(python.swim_set_codec(state.number, algorithm, mode, copied(key, size, MOST_KEY)))
end

-- Iterator -> {bytes of the uuids, position}.
local iterators = setmetatable({}, {__mode = 'k'})
local last_iterator = 0

local function next_member(ctx)
    local s = ctx.swim
    if s.ptr == nil then
        return deleted()
    end
    local state, place = state_of(s, 'swim:pairs'), ctx.iterator and iterators[ctx.iterator]
    while place and place.position < #place.uuids do
        local id = place.uuids:sub(place.position + 1, place.position + UUID_SIZE)
        place.position = place.position + UUID_SIZE
        local member = member_of(s, state, id)
        if member ~= nil then    -- nil if it was dropped meanwhile
            return member:uuid(), member
        end
    end
    ctx.iterator = nil
end

function methods.pairs(s)
    local state = state_of(s, 'swim:pairs')
    last_iterator = last_iterator + 1
    local iterator = ffi.cast(iterator_pointer, last_iterator)
    iterators[iterator] = {uuids = python.swim_members(state.number), position = 0}
    return next_member, {swim = s, iterator = iterator}, nil
end

-- Tells Python how many triggers there are, and returns what changing them has returned.
local function note_listeners(state, ...)
    python.swim_listen(state.number, #state.listeners)
    return ...
end

function methods.on_member_event(s, new, old, context)
    local state = state_of(s, 'swim:on_member_event')
    if type(old) ~= 'function' then
        old, context = nil, old
    end
    if new ~= nil then
        new = new_trigger(s, new, context)
    end
    return note_listeners(state, triggers.reset(state.listeners, new, old))
end

local function serialize(s)
    state_of(s, 'swim:__serialize()')
    return s.cfg.index
end

local swim_mt = {__index = methods, __serialize = serialize}
local unconfigured_mt = {
    __index = {
        delete = methods.delete,
        is_configured = methods.is_configured,
        set_codec = methods.set_codec,
        on_member_event = methods.on_member_event,
    },
    __serialize = serialize,
}

-- ---- options ---------------------------------------------------------------------------------

local OPTIONS = {uri = true, heartbeat_rate = true, ack_timeout = true, gc_mode = true, uuid = true}

local function configure(cfg, s, options)
    local state = state_of(s, 'swim:cfg')
    if type(options) ~= 'table' then
        return error('swim:cfg: expected table configuration')
    end
    for k in pairs(options) do    -- Lua's text for a key that is no text names this variable
        if not OPTIONS[k] then
            return error('swim:cfg: unknown option ' .. k)
        end
    end
    local uri = check_uri(options.uri, 'swim:cfg')
    local heartbeat_rate = check_time(options.heartbeat_rate, 'swim:cfg', 'heartbeat_rate')
    local ack_timeout = check_time(options.ack_timeout, 'swim:cfg', 'ack_timeout')
    local collects_dead = check_gc_mode(options.gc_mode, 'swim:cfg')
    local id = check_uuid(options.uuid, 'swim:cfg')
    local descriptor, problem = python.swim_cfg(state.number, uri, heartbeat_rate, ack_timeout, collects_dead, id)
    if descriptor == false then
        return nil, errors.decode(problem)
    end
    if uri ~= nil then
        state.handler:name('SWIM event handler ' .. descriptor)
    end
    for name, value in pairs(options) do
        cfg.index[name] = value
    end
    return true
end

-- `s.cfg` is a table of options to read, and a function to change them.
local cfg_mt = {
    __call = configure,
    __index = function(cfg, name)
        return cfg.index[name]
    end,
    __newindex = function()
        return error('please, use swim:cfg{key = value} instead of swim.cfg.key = value')
    end,
    __serialize = function(cfg)
        return cfg.index
    end,
}
local first_cfg_mt = table.copy(cfg_mt)

function first_cfg_mt.__call(cfg, s, options)
    local ok, problem = configure(cfg, s, options)
    if not ok then
        return ok, problem
    end
    setmetatable(cfg, cfg_mt)
    setmetatable(s, swim_mt)
    return ok
end

-- ---- new -------------------------------------------------------------------------------------

local function is_generation(value)
    return type(value) == 'number' and value >= 0 and math.floor(value) == value
end

local function collect(pointer)
    local number = number_of(pointer)
    states[number].is_collected = true
    states[number] = nil
    python.swim_collect(number)
end

local function make(generation)
    local number = python.swim_new(ffi.string(ffi.new('uint64_t[1]', generation), 8))
    local state = {number = number, listeners = {}}
    states[number] = state
    state.handler = fiber.new(handle_events, state)
    state.handler:name('SWIM event handler')
    state.handler:set_joinable(true)
    return setmetatable({
        ptr = gc(ffi.cast(swim_pointer, number), collect),
        cfg = setmetatable({index = {}}, first_cfg_mt),
        cache_table = setmetatable({}, {__mode = 'v'}),
    }, unconfigured_mt)
end

local function new(options)
    local generation
    if type(options) == 'table' and options.generation then
        generation = options.generation
        if not is_generation(generation) then
            return error('swim.new: generation should be non-negative integer')
        end
        options = table.copy(options)
        options.generation = nil
        if next(options) == nil then
            options = nil
        end
    else
        generation = fiber.time64()
    end
    local s = make(generation)
    if options then
        local ok, problem = s:cfg(options)
        if not ok then
            s:delete()
            return ok, problem
        end
    end
    return s
end

return {new = new}
