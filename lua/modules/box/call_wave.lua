-- Waves: runs the CALL and EVAL requests of one read from a client one after another, without Python between.
--
-- Python (lua/bindings/call_wave.py) puts packets into `input`. Functions get their arguments from there, and replies
-- are written to `output`. They run in one fiber as long as none waits. One that waits keeps its fiber, and the next
-- request begins another (`start_wave` of internal.scheduler). The reply of one that has waited is written to `late`, which
-- Python reads behind each round of fibers. Only if it has failed, has a context or a large result, Python hears of it.
--
-- A wave ends, and Python continues, before a packet of an unusual form; after a function that has failed, left a
-- transaction open, looked at its fiber, changed its user or the dictionary, or made a large result; when too many
-- functions wait; and when its time is over.
local entry = require('internal.entry')
local ffi = require('ffi')
local bit = require('bit')
local decoder = require('internal.msgpack_decode')
local forget_fiber = require('box.direct').forget_fiber
local cells = require('internal.cells')
local msgpack = require('internal.msgpack')
local python = require('internal.python')
local registry = require('internal.registry')
local outermost = require('internal.outermost')
local scheduler = require('internal.scheduler')
local wait = require('internal.wait')

local band, rshift, tobit = bit.band, bit.rshift, bit.tobit
local lacks_context, running = cells.lacks_context, scheduler.running
local check = decoder.check
local find, compile = entry.find, entry.compile
local decode_args_at, encode_args, encode_args_at = msgpack.decode_args_at, msgpack.encode_args, msgpack.encode_args_at
local getinfo = require('internal.standard_functions').getinfo
local getfenv, globals, rawget, select, type = getfenv, _G, rawget, select, type
local seconds = python.seconds or require('clock').monotonic
local call_is_clean, call_ends_with, call_look_up = python.call_is_clean, python.call_ends_with, python.call_look_up

local M = {}

-- box.call sets this: runs a function by its name, as a request does.
M.call_by_name = nil

local state_address, sync_address, input_address, output_address, late_address, output_size = python.call_wave_memory()
local state, syncs = ffi.cast('uint32_t *', state_address), ffi.cast('double *', sync_address)
local input, output = ffi.cast('const uint8_t *', input_address), ffi.cast('uint8_t *', output_address)
local late = ffi.cast('uint8_t *', late_address)

-- Places in `state`: the positions after the last packet and after the replies, the number of requests of each type
-- since Python has read them, the type of the last request, the schema version, 1 once the dictionary has changed, and 1
-- for a user who may not execute everything; the number of the wave, 1 if its functions may use direct reads, how many of
-- them wait, and how many may. For `late`: the wave, the number and the bytes of the replies, the size of the largest.
local POS, OUT, CALLS, EVALS, KIND, VERSION, CHANGED, LIMITED = 0, 1, 2, 3, 4, 5, 6, 7
local WAVE, READS, WAITING, ROOM, LATE_WAVE, LATE_COUNT, LATE_SIZE, LARGEST = 8, 9, 10, 11, 12, 13, 14, 15
local CALL, EVAL = 0x0a, 0x08
local FUNCTION_NAME, EXPRESSION, TUPLE = 0x22, 0x27, 0x21
-- ce <u32 length> 83 00 ce <u32 0> 01 cf <u64 sync> 05 ce <u32 schema version> 81 30 dd <u32 count>, see
-- box/wire/reply.py.
local REPLY = ffi.new('const uint8_t[35]', {
    0xce, 0, 0, 0, 0, 0x83, 0, 0xce, 0, 0, 0, 0, 1, 0xcf, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0xce, 0, 0, 0, 0, 0x81, 0x30, 0xdd,
    0, 0, 0, 0,
})
local REPLY_SIZE = 35
-- Arguments with more bytes count as unusual.
local ARGS_MAX = 4096
-- A wave ends at this many bytes of replies, so that there is always room for another that is not large.
local ENOUGH = output_size / 2
-- The results of a wave, see `serve`. ANSWERED is that of a function that has waited, whose reply is in `late`.
local DONE, IN_TRANSACTION, ANSWERED = 0, 1, true
-- The results of `call_is_clean`.
local CLEAN, OPEN = 0, 2

-- ---- packets: small functions, which are compiled ---------------------------------------------------------

local function be32(pos)
    return input[pos] * 0x1000000 + input[pos + 1] * 0x10000 + input[pos + 2] * 0x100 + input[pos + 3]
end

-- Returns the sync at `pos` and the position after it; nil if it does not fit a Lua number, or there is none.
local function read_sync(pos)
    local mark = input[pos]
    if mark < 0x80 then
        return mark, pos + 1
    elseif mark == 0xcc then
        return input[pos + 1], pos + 2
    elseif mark == 0xcd then
        return input[pos + 1] * 0x100 + input[pos + 2], pos + 3
    elseif mark == 0xce then
        return be32(pos + 1), pos + 5
    elseif mark == 0xcf and input[pos + 1] == 0 and input[pos + 2] < 0x10 then
        return be32(pos + 1) * 0x100000000 + be32(pos + 5), pos + 9
    end
end

-- Returns whether `pos .. stop` is one array without the tag 0xc1, which MessagePack never uses.
local function is_array(pos, stop)
    local mark = input[pos]
    return (mark >= 0x90 and mark < 0xa0 or mark == 0xdc) and stop - pos <= ARGS_MAX
        and check(input, pos, stop, 0xc1) == stop
end

-- Parses a request at `pos` in the usual form, ce <u32 length> 82 00 <type> 01 <sync> 82 22 <text> 21 <array>. Returns
-- its sync, its type, the position and the size of its text, the position of its array and that after the packet; nil
-- for any other packet.
local function read_packet(pos, limit)
    if pos + 16 > limit or input[pos] ~= 0xce or input[pos + 5] ~= 0x82 or input[pos + 6] ~= 0 or input[pos + 8] ~= 1 then
        return nil
    end
    local kind, stop = input[pos + 7], pos + 5 + be32(pos + 1)
    if stop > limit or stop < pos + 14 or (kind ~= CALL and kind ~= EVAL) then
        return nil
    end
    local sync, at = read_sync(pos + 9)
    if sync == nil or at + 4 > stop or input[at] ~= 0x82
            or input[at + 1] ~= (kind == EVAL and EXPRESSION or FUNCTION_NAME) then
        return nil
    end
    local size, text = input[at + 2], at + 3
    if size >= 0xa0 and size < 0xc0 then
        size = size - 0xa0
    elseif size == 0xd9 then
        size, text = input[text], text + 1
    else
        return nil
    end
    local args = text + size + 1
    if args >= stop or input[args - 1] ~= TUPLE or not is_array(args, stop) then
        return nil
    end
    return sync, kind, text, size, args, stop
end

local function put_be32(pos, value)
    local whole = tobit(value)
    output[pos], output[pos + 1] = rshift(whole, 24), band(rshift(whole, 16), 0xff)
    output[pos + 2], output[pos + 3] = band(rshift(whole, 8), 0xff), band(whole, 0xff)
end

-- Writes the beginning of a reply with `count` results of `size` bytes in total.
local function put_reply(pos, sync, count, size)
    ffi.copy(output + pos, REPLY, REPLY_SIZE)
    put_be32(pos + 1, REPLY_SIZE - 5 + size)
    local high = math.floor(sync / 0x100000000)
    put_be32(pos + 14, high)
    put_be32(pos + 18, sync - high * 0x100000000)
    put_be32(pos + 24, state[VERSION])
    put_be32(pos + 31, count)
end

-- Moves the reply of a function that has waited from `pos` in `output` to the end of `late`, and returns the number of
-- replies there. Returns nil if there is no room for it, or replies of another wave.
local function move_reply(pos, size, wave)
    local place, count = state[LATE_SIZE], state[LATE_COUNT]
    if count > 0 and (state[LATE_WAVE] ~= wave or place + size > output_size) then
        return nil
    end
    ffi.copy(late + place, output + pos, size)
    state[LATE_WAVE], state[LATE_COUNT], state[LATE_SIZE] = wave, count + 1, place + size
    if size > state[LARGEST] then
        state[LARGEST] = size
    end
    return count + 1
end

-- Counts a function that waits. Returns the number of the wave, the sync of the function, and whether the wave may go on
-- with the request at the position that is reached.
local function count_waiting(limit)
    local waiting = state[WAITING] + 1
    state[WAITING] = waiting
    return state[WAVE], syncs[0], waiting < state[ROOM] and state[POS] < limit and state[CHANGED] == 0
end

local function take(sync, kind, stop)
    syncs[0], state[KIND], state[POS] = sync, kind, stop
    if kind == EVAL then
        state[EVALS] = state[EVALS] + 1
    else
        state[CALLS] = state[CALLS] + 1
    end
end

local function get_state(place)
    return state[place]
end

local function get_text(pos, size)
    return ffi.string(input + pos, size)
end

-- ---- running requests ---------------------------------------------------------------------------------------------

-- Name -> true for a global function of exactly this name, false for one that is found step by step, nil if it is not
-- yet looked up. Names of functions in _func are not in it.
local plain_names, plain_count = {}, 0
local NAMES_MOST = 4096
-- The result of `look_up` for a name that is not in _func.
local GLOBAL = -1

local function is_plain(name)
    return name:find('[.:]') == nil and tonumber(name) == nil
end

-- Returns GLOBAL, the handle of the body of a function in _func, or 0 for one without a body; and true if it runs with
-- the rights of its owner. Returns nil if Python shall serve the call, as when the user may not execute the function.
local function look_up(name)
    if plain_names[name] ~= nil and get_state(LIMITED) == 0 then
        return GLOBAL
    end
    local handle, is_of_owner = call_look_up(name)
    if handle == GLOBAL then
        if plain_count >= NAMES_MOST then
            plain_names, plain_count = {}, 0
        end
        plain_names[name], plain_count = is_plain(name), plain_count + 1
    end
    return handle, is_of_owner
end

-- Text of EVAL -> its compiled functions that no request runs. A function that has failed or changed its environment
-- does not come back.
local compiled, compiled_count = {}, 0
local COMPILED_MOST, COMPILED_SIZE, SAME_TEXT_MOST = 256, 1024, 64

local function take_chunk(text)
    local free = compiled[text]
    local count = free and #free or 0
    if count == 0 then
        return compile(text)
    end
    local chunk = free[count]
    free[count] = nil
    return chunk
end

local function give_chunk_back(text, chunk)
    local free = compiled[text]
    if free == nil then
        if #text > COMPILED_SIZE then
            return
        elseif compiled_count >= COMPILED_MOST then
            compiled, compiled_count = {}, 0
        end
        compiled_count = compiled_count + 1
        free = {}
        compiled[text] = free
    end
    if #free < SAME_TEXT_MOST then
        free[#free + 1] = chunk
    end
end

-- The name or the text of the running request.
local current

-- Name or text of a request that has gone on after a write -> the number of its next writes at which `ends_with` does not
-- look at the stack, which takes as long as the rest of a wait.
local unwatched, unwatched_count = {}, 0
local UNWATCHED_WRITES = 64

local function leave_unwatched(text)
    if unwatched[text] == nil then
        if #text > COMPILED_SIZE then
            return
        elseif unwatched_count >= NAMES_MOST then
            unwatched, unwatched_count = {}, 0
        end
        unwatched_count = unwatched_count + 1
    end
    unwatched[text] = UNWATCHED_WRITES
end

-- Set while a function returns that has ended with a write: what `call_is_clean` would return.
local verdict_of_write

-- Called before a write waits, with its token. Returns true if the write is the last act of the function of a request,
-- which returns its result with a tail call. Then nothing is left of the function that could see the end of the write,
-- so Python replies at that end, and the wave goes on in the same fiber. If it returns false, the function waits, which is
-- always right.
function M.ends_with(token)
    local strand = running.strand
    if strand == nil or strand.run ~= M.serve or strand.activation then
        return false
    end
    local left = unwatched[current]
    if left and left > 0 then
        unwatched[current] = left - 1
        return false
    end
    local fiber = strand.fiber
    -- Level 3 is the caller of the space's method. After a tail call of the request's function it is a pcall of
    -- `outermost`, and level 4 is the other one.
    local caller = getinfo(5, 'f')
    if caller == nil or caller.func ~= outermost then
        leave_unwatched(current)
        return false
    elseif fiber.is_seen or fiber.cancelled or fiber.on_yield then
        return false
    end
    verdict_of_write = call_ends_with(token)
    return verdict_of_write ~= nil
end

-- Writes the reply of a function that has waited. No wave runs now, so `output` is free. The results are at their place in
-- it, `pos`, if the function has begun to wait while they were encoded.
local function answer_late(fiber, count, pos, size, large)
    if size == nil then
        return large
    end
    put_reply(pos, fiber.sync, count, size)
    size = size + REPLY_SIZE
    if not fiber.lacks_context then    -- Python looks at the context; the header of an array precedes the results
        return ffi.string(output + (pos + REPLY_SIZE - 5), size - REPLY_SIZE + 5)
    end
    local replies = move_reply(pos, size, fiber.wave)
    if replies == nil then
        python.call_take_late()
        replies = move_reply(pos, size, fiber.wave)
    end
    if replies == 1 then
        cells.show_answered()
    end
    return ANSWERED
end

-- Writes the reply of a request. Returns nil if the wave may continue, else the result of `serve`.
local function answer(strand, sync, ...)
    local fiber, pos = strand.fiber, get_state(OUT)
    if fiber.wave then
        return answer_late(fiber, select('#', ...), 0, encode_args_at(output + REPLY_SIZE, output_size - REPLY_SIZE, ...))
    end
    if verdict_of_write then    -- the reply follows the end of the write
        local verdict = verdict_of_write
        verdict_of_write = nil
        return (verdict ~= CLEAN or get_state(CHANGED) ~= 0) and DONE or nil
    end
    local size, large = encode_args_at(output + (pos + REPLY_SIZE), output_size - pos - REPLY_SIZE, ...)
    if fiber.wave then
        return answer_late(fiber, select('#', ...), pos, size, large)
    end
    local verdict = CLEAN
    if not lacks_context(fiber.id) then
        verdict = call_is_clean()
        if verdict == OPEN then
            return IN_TRANSACTION
        end
    end
    if size == nil then
        return large
    end
    put_reply(pos, sync, select('#', ...), size)
    pos = pos + REPLY_SIZE + size
    state[OUT] = pos
    if verdict ~= CLEAN or pos > ENOUGH or fiber.is_seen or fiber.cancelled or fiber.on_yield or get_state(CHANGED) ~= 0 then
        return DONE
    end
end

local function answer_eval(strand, sync, text, args)
    local chunk = take_chunk(text)
    local result = answer(strand, sync, outermost(chunk, decode_args_at(input, args)))
    if getfenv(chunk) == globals then
        give_chunk_back(text, chunk)
    end
    return result
end

-- Runs a function by its name, or by the handle of its body if that is not 0.
local function answer_call(strand, sync, name, handle, args)
    local found
    if handle > 0 then
        found = registry.get(handle)
    elseif plain_names[name] or handle == 0 and is_plain(name) then
        found = rawget(globals, name)
    end
    if type(found) == 'function' then
        return answer(strand, sync, outermost(found, decode_args_at(input, args)))
    end
    return answer(strand, sync, outermost(M.call_by_name, name, decode_args_at(input, args)))
end

-- As `answer_call`, for a function that runs with the rights of its owner.
local function answer_call_of_owner(strand, sync, name, handle, args)
    python.call_as_owner(name)
    forget_fiber()
    local result = answer_call(strand, sync, name, handle, args)
    forget_fiber()
    return result
end

-- The time when the wave began, and how long it may take, in seconds; the end of its packets.
local start, budget, limit = 0, 0, 0

-- `report` of a strand whose function has waited: tells Python of its end, unless the reply is in `late`.
local function report_late(strand, ok, result)
    local fiber = strand.fiber
    if not ok then
        python.call_ended(fiber.wave, fiber.sync, fiber.id, false, (require('internal.error').encode(result)))
    elseif result ~= ANSWERED then
        python.call_ended(fiber.wave, fiber.sync, fiber.id, true, result)
    end
end

-- Notes that a function waits. It keeps its context, if Python has made one for it.
function scheduler.call_waits(strand)
    local fiber, may_go_on = strand.fiber, nil
    strand.report = report_late
    fiber.wave, fiber.sync, may_go_on = count_waiting(limit)
    fiber.lacks_context = lacks_context(fiber.id)
    cells.show_lazy(0)
    if not fiber.lacks_context and python.call_keeps_context() == 0 then
        return false
    end
    return may_go_on and seconds() - start <= budget
end

local function begin(size, time)
    limit, budget = size, time
    start = seconds()
    if get_state(CHANGED) ~= 0 then
        plain_names, plain_count = {}, 0
        state[CHANGED] = 0
    end
end

-- Called by Python, and again behind each function that waits: serves the packets that are left up to `size` of
-- `input`, until the wave has taken about `time` seconds. Returns DONE if Python shall handle the next packet,
-- IN_TRANSACTION if the last function has left one open, ANSWERED, or the bytes of the results of the last function as an
-- array. Raises the error of the last function.
local function serve(size, time)
    local strand, pos, result = running.strand, get_state(POS), nil
    if pos == 0 then
        begin(size, time)
    end
    running.fiber.reads_directly = get_state(READS) == 1
    repeat
        local sync, kind, at, length, args, stop = read_packet(pos, limit)
        if sync == nil then
            return DONE
        end
        local text = get_text(at, length)
        current = text
        if kind == EVAL then
            if get_state(LIMITED) ~= 0 then
                return DONE
            end
            take(sync, kind, stop)
            result = answer_eval(strand, sync, text, args)
        else
            local handle, is_of_owner = look_up(text)
            if handle == nil then
                return DONE
            end
            take(sync, kind, stop)
            result = (is_of_owner and answer_call_of_owner or answer_call)(strand, sync, text, handle, args)
        end
        pos = stop
    until result ~= nil or seconds() - start > budget
    return result or DONE
end

M.serve = serve

-- Called by Python: fails as the function would have done whose write has failed with this error.
local function fail(problem)
    outermost(wait, false, problem)
end

python.entry('box.call_wave', registry.ref(serve))
python.entry('box.fail_call', registry.ref(fail))

return M
