-- Where `print` writes. A program that has the process to itself uses the C library's stream `stdout`, as Tarantool does:
-- `io.write` and C functions write there too, and the stream buffers unless it is a terminal. Elsewhere `print` writes to
-- Python's `sys.stdout`, which programs may replace, and `io.write` goes out at once, so that both keep their order.
--
--     write(text, ...)    writes texts; a failure is reported once and otherwise ignored
--     flush()             writes what the C library's streams hold; returns 0 or the errno of standard output. It does
--                         nothing where `print` writes to Python.
local ffi = require('ffi')
local python = require('internal.python')

-- Under a name of its own, because programs declare fflush() themselves.
ffi.cdef('int lunabox_fflush(void *stream) __asm__("fflush");')

local C = ffi.C
local stdout = io.stdout
local methods = getmetatable(stdout).__index
local write_file, flush_file = methods.write, methods.flush
local is_stream = python.prints_to_stream()

local function flush()
    if not is_stream then
        return 0
    end
    local _, _, problem = flush_file(stdout)
    C.lunabox_fflush(nil)
    return problem or 0
end

local function write_to_stream(...)
    local ok, _, problem = write_file(stdout, ...)
    if not ok then
        python.print_failed(problem)
    end
end

if not is_stream then
    stdout:setvbuf('no')
end

return {is_stream = is_stream, write = is_stream and write_to_stream or python.print, flush = flush}
