-- require('fio'): files, directories and paths. A failed call returns nil or false and an error object, and sets errno.
-- Calls on trees of files return the reason as a text instead.
local ffi = require('ffi')
local arguments = require('internal.arguments')
local errno = require('errno')
local decode = require('box.finish').decode
local errors = require('internal.error')
local gc = require('internal.finalizers').raw_gc
local python = require('internal.python')
local scheduler = require('internal.scheduler')
local wait = require('internal.wait')

local bor, band, running = bit.bor, bit.band, scheduler.running
local error, ipairs, pairs, pcall, setmetatable, type = error, ipairs, pairs, pcall, setmetatable, type

local NEW_DIRECTORY_MODE = tonumber('777', 8)

local constants = decode(python.fio_constants())

local fio = {c = constants}

-- ---- arguments -------------------------------------------------------------------------------

local SMALLEST = -2 ^ 63
local whole, whole_int, c_text = arguments.whole, arguments.whole_int, arguments.c_text

-- ---- outcomes --------------------------------------------------------------------------------

-- Returns the result of a call into Python; or `failure` and the error, if the call has failed.
local function result_of(failure, ok, result)
    if ok then
        return result
    elseif not errors.is(result) or result.type ~= 'SystemError' then
        error(result, 0)
    end
    errno(result.errno or 0)
    return failure, result
end

-- The outcome of a call during which no other fiber runs.
local function immediate(failure, ...)
    return result_of(failure, pcall(wait, ...))
end

-- The outcome of a call that gives way to other fibers. Short calls are made at once, and give way afterwards. A fiber that
-- cannot wait, as in a function that C code calls, goes on.
local function outcome(failure, ...)
    local fiber = running.fiber
    local switches = fiber and fiber.csw
    local ok, result = pcall(wait, ...)
    if fiber and fiber.csw == switches then
        pcall(scheduler.yield)
    end
    return result_of(failure, ok, result)
end

local function decoded(packed, problem)
    if packed == nil then
        return nil, problem
    end
    return decode(packed)
end

local S_IFMT = tonumber('170000', 8)
local KINDS = {
    is_reg = '100000', is_dir = '040000', is_link = '120000', is_sock = '140000', is_fifo = '010000',
    is_chr = '020000', is_blk = '060000',
}
local stat_methods = {}
for name, digits in pairs(KINDS) do
    local kind = tonumber(digits, 8)
    stat_methods[name] = function(self)
        if type(self) ~= 'table' then
            error('usage: stat:' .. name .. '()', 0)
        end
        return band(self.mode, S_IFMT) == kind
    end
end
local stat_mt = {__index = stat_methods}

local function stat_of(packed, problem)
    local result = decoded(packed, problem)
    if result == nil then
        return nil, problem
    end
    return setmetatable(result, stat_mt)
end

-- ---- file handles ----------------------------------------------------------------------------

ffi.cdef('struct fio_handle { int fh; };')
local char_pointer = ffi.typeof('const char *')
local LARGEST_BUFFER = 2 ^ 40    -- bytes; no machine has so many

local methods = {}

-- Returns the bytes of a string, or of a buffer and a size.
local function bytes_of(data, size)
    if type(data) == 'string' then
        return data
    elseif ffi.istype(char_pointer, data) and size ~= nil then
        return ffi.string(data, size)
    end
    return tostring(data)
end

function methods.write(self, data, size)
    return outcome(false, python.fio_write(self.fh, bytes_of(data, size)))
end

function methods.pwrite(self, data, size, offset)
    if not ffi.istype(char_pointer, data) then
        size, offset = nil, size
    end
    offset = whole(offset)
    if offset < 0 then
        -- As in Tarantool, no offset is the position of the file.
        return methods.write(self, data, size)
    end
    return outcome(false, python.fio_pwrite(self.fh, bytes_of(data, size), offset))
end

-- Refuses a size that is no number, or too large, with the error of Tarantool's buffer.
local function check_size(size)
    if type(size) ~= 'number' or not (size > SMALLEST and size < LARGEST_BUFFER) then
        require('buffer').ibuf():reserve(size)
    end
end

-- Reads from a file: read() returns the rest of it, read(size) at most `size` bytes, read(buffer, size) the number of
-- bytes that were read into the buffer.
function methods.read(self, buffer, size)
    if ffi.istype(char_pointer, buffer) then
        local data, problem = outcome(nil, python.fio_read(self.fh, whole(size)))
        if data == nil then
            return nil, problem
        end
        ffi.copy(buffer, data, #data)
        return #data
    elseif buffer ~= nil then
        check_size(buffer)
    end
    -- As in Tarantool, nothing is asked of the system for no bytes.
    if buffer == 0 then
        return ''
    end
    return outcome(nil, python.fio_read(self.fh, whole(buffer or -1)))
end

function methods.pread(self, buffer, size, offset)
    if ffi.istype(char_pointer, buffer) then
        if whole(offset) < 0 then
            return methods.read(self, buffer, size)
        end
        local data, problem = outcome(nil, python.fio_pread(self.fh, whole(size), whole(offset)))
        if data == nil then
            return nil, problem
        end
        ffi.copy(buffer, data, #data)
        return #data
    end
    check_size(buffer)
    if whole(size) < 0 then
        return methods.read(self, whole(buffer))
    end
    local count, offset = whole(buffer), whole(size)
    if count == 0 then
        return ''
    end
    return outcome(nil, python.fio_pread(self.fh, count, offset))
end

function methods.truncate(self, size)
    return outcome(false, python.fio_ftruncate(self.fh, whole(size)))
end

function methods.seek(self, offset, whence)
    whence = whence or 'SEEK_SET'
    if type(whence) == 'string' then
        local number = constants.seek[whence]
        if number == nil then
            error('fio.seek(): unknown whence: ' .. whence)
        end
        whence = number
    end
    -- As in Tarantool, a failure is -1 without a text.
    return (outcome(nil, python.fio_lseek(self.fh, whole(tonumber(offset)), whole_int(tonumber(whence))))) or -1
end

function methods.close(self)
    local result, problem = outcome(false, python.fio_close(self.fh))
    if problem ~= nil then
        return result, problem
    end
    gc(self, nil)
    self.fh = -1
    return result
end

function methods.fsync(self)
    return outcome(false, python.fio_fsync(self.fh))
end

function methods.fdatasync(self)
    return outcome(false, python.fio_fdatasync(self.fh))
end

function methods.stat(self)
    return stat_of(outcome(nil, python.fio_fstat(self.fh)))
end

function methods.__serialize(self)
    return {fh = self.fh}
end

local handle_type = ffi.metatype('struct fio_handle', {__index = methods})

ffi.cdef('int close(int fd);')
local are_of_system = python.fio_are_of_system() == true
local collected = {}

-- Closes a collected handle, without Python, because a collection may interrupt anything. Descriptors that C does not
-- know are closed before the next file is opened.
local function collect(handle)
    local fd = handle.fh
    if fd < 0 then
        return
    elseif are_of_system then
        ffi.C.close(fd)
    else
        collected[#collected + 1] = fd
    end
end

local function close_collected()
    local list = collected
    collected = {}    -- more may be collected while these are closed
    for _, fd in ipairs(list) do
        python.fio_close(fd)
    end
end

-- Joins the bits of flags or of a mode: a number, the name of a constant, or a list of both.
local function combined(given, names, what)
    local result = 0
    for _, one in pairs(type(given) == 'table' and given or {given}) do
        local number = type(one) == 'number' and one or names[one]
        if number == nil and what == 'mode' and type(one) ~= 'string' then
            number = tonumber(one) or error("bad argument #2 to 'bor' (number expected, got nil)")
        elseif number == nil then
            error('fio.open(): unknown ' .. what .. ': ' .. tostring(one))
        end
        result = bor(result, number)
    end
    return result
end

function fio.open(path, flags, mode)
    if type(path) ~= 'string' then
        error('Usage: fio.open(path[, flags[, mode]])')
    end
    local flag_bits = combined(flags, constants.flag, 'flag')
    -- As in Tarantool, a new file has no rights without a mode: the default are those that the umask then takes away.
    local mode_bits = combined(mode or band(fio.umask(), NEW_DIRECTORY_MODE), constants.mode, 'mode')
    if collected[1] ~= nil then
        close_collected()
    end
    local fd, problem = outcome(nil, python.fio_open(c_text(path), flag_bits, mode_bits))
    if fd == nil then
        return nil, problem
    end
    return gc(handle_type(fd), collect)
end

-- ---- paths -----------------------------------------------------------------------------------

local function clean(path)
    local result = path:gsub('/+', '/')
    return #result > 1 and (result:gsub('/$', '')) or result
end

-- Returns whether a value is a path. A number is accepted as a name.
local function is_path(value)
    local kind = type(value)
    return kind == 'string' or kind == 'number'
end

function fio.pathjoin(...)
    local parts = {...}
    for i = 1, select('#', ...) do
        if parts[i] == nil then
            error('fio.pathjoin(): undefined path part ' .. i)
        end
        parts[i] = tostring(parts[i])
    end
    local result = {}
    for i, part in ipairs(parts) do
        if part ~= '' then
            result[#result + 1] = i > 1 and #result > 0 and (part:gsub('^/+', '')) or part
        end
    end
    local path = clean(table.concat(result, '/'))
    return path == '' and '.' or path
end

function fio.basename(path, suffix)
    if type(path) ~= 'string' then
        error('Usage: fio.basename(path[, suffix])')
    end
    local name = path:match('[^/]*$')
    suffix = arguments.text(suffix)
    if suffix ~= nil and #suffix > 0 and name:sub(-#suffix) == suffix then
        name = name:sub(1, -#suffix - 1)
    end
    return name
end

function fio.dirname(path)
    if type(path) ~= 'string' then
        error('Usage: fio.dirname(path)')
    end
    path = c_text(path)
    -- POSIX leaves two slashes in front to the system: Linux keeps exactly two.
    local root = path:match('^//?') or ''
    if path:sub(1, 3) == '///' then
        root = '/'
    end
    local stripped = path:gsub('/+$', '')
    if stripped == '' then
        return root ~= '' and root or '.'
    end
    local directory = stripped:match('^(.*)/[^/]*$')
    if directory == nil then
        return '.'
    end
    directory = directory:gsub('/+$', '')
    return directory == '' and root or directory
end

function fio.abspath(path)
    if path == nil then
        error('Usage: fio.abspath(path)')
    end
    path = string.sub(path, 1)
    if path:sub(1, 1) ~= '/' then
        path = fio.pathjoin(fio.cwd(), path)
    end
    local parts = {}
    for part in path:gmatch('[^/]+') do
        if part == '..' then
            parts[#parts] = nil
        elseif part ~= '.' then
            parts[#parts + 1] = part
        end
    end
    return '/' .. table.concat(parts, '/')
end

-- ---- calls by path ---------------------------------------------------------------------------

local function check_paths(usage, ...)
    for i = 1, select('#', ...) do
        if not is_path((select(i, ...))) then
            error('Usage: ' .. usage, 3)
        end
    end
end

function fio.stat(path)
    check_paths('fio.stat(pathname)', path)
    return stat_of(outcome(nil, python.fio_stat(c_text(path))))
end

function fio.lstat(path)
    if not is_path(path) then
        error('pathname is absent', 2)
    end
    return stat_of(outcome(nil, python.fio_lstat(c_text(path))))
end

function fio.mkdir(path, mode)
    if not is_path(path) then
        error('Usage fio.mkdir(pathname[, mode])', 2)
    end
    return outcome(false, python.fio_mkdir(c_text(path), type(mode) == 'nil' and NEW_DIRECTORY_MODE or whole_int(mode)))
end

function fio.rmdir(path)
    check_paths('fio.rmdir(pathname)', path)
    return outcome(false, python.fio_rmdir(c_text(path)))
end

function fio.unlink(path)
    check_paths('fio.unlink(pathname)', path)
    return outcome(false, python.fio_unlink(c_text(path)))
end

function fio.rename(from, to)
    check_paths('fio.rename(oldpath, newpath)', from, to)
    return outcome(false, python.fio_rename(c_text(from), c_text(to)))
end

function fio.link(target, path)
    check_paths('fio.link(target, linkpath)', target, path)
    return outcome(false, python.fio_link(c_text(target), c_text(path)))
end

function fio.symlink(target, path)
    check_paths('fio.symlink(target, linkpath)', target, path)
    return outcome(false, python.fio_symlink(c_text(target), c_text(path)))
end

function fio.readlink(path)
    check_paths('fio.readlink(pathname)', path)
    return outcome(nil, python.fio_readlink(c_text(path)))
end

function fio.chmod(path, ...)
    if not is_path(path) or select('#', ...) == 0 then
        error('Usage: fio.chmod(pathname, mode)', 2)
    end
    return outcome(false, python.fio_chmod(c_text(path), whole_int((...))))
end

local function is_account(value)
    return type(value) == 'number' or type(value) == 'string'
end

-- Returns the number of an account, given by name or number; nil keeps the current one.
local function account(value)
    if type(value) == 'string' or value == nil then
        return value
    end
    return whole_int(value)
end

function fio.chown(path, owner, group)
    if not is_path(path) or owner == nil or group == nil then
        error('Usage: fio.chown(pathname, owner, group)', 2)
    elseif not is_account(owner) or not is_account(group) then
        return nil
    end
    local ok, problem = outcome(false, python.fio_chown(c_text(path), account(owner), account(group)))
    if ok then
        return true
    elseif problem.message:find('name not found', 1, true) then
        return nil
    end
    return ok, problem
end

function fio.truncate(path, size)
    check_paths('fio.truncate(pathname[, newlen])', path)
    return outcome(false, python.fio_truncate(c_text(path), whole(size)))
end

local function check_time(name, value)
    if type(value) ~= 'nil' and type(value) ~= 'number' then
        error('fio.utime: ' .. name .. ' should be a number')
    end
end

function fio.utime(path, atime, mtime)
    if type(path) ~= 'string' then
        error('Usage: fio.utime(filepath[, atime[, mtime]])')
    end
    check_time('atime', atime)
    check_time('mtime', mtime)
    atime = atime or require('fiber').time()
    return outcome(false, python.fio_utime(c_text(path), atime, mtime or atime))
end

-- Returns a list without a metatable, like Tarantool's.
function fio.glob(pattern)
    check_paths('fio.glob(pattern)', pattern)
    return decoded(immediate(nil, python.fio_glob(c_text(pattern))))
end

function fio.listdir(path)
    if type(path) ~= 'string' then
        error('Usage: fio.listdir(path)')
    end
    local names, problem = outcome(nil, python.fio_listdir(c_text(path)))
    if names == nil then
        return nil, "can't listdir " .. path .. ': ' .. problem.message
    end
    return decoded(names)
end

function fio.chdir(path)
    if type(path) ~= 'string' then
        error('Usage: fio.chdir(path)')
    end
    return (immediate(false, python.fio_chdir(c_text(path))))
end

function fio.cwd()
    return immediate(nil, python.fio_cwd())
end

-- Returns the previous mask; nothing changes without an argument.
function fio.umask(mask)
    if mask == nil then
        local present = immediate(nil, python.fio_umask(0))
        immediate(nil, python.fio_umask(present))
        return present
    end
    local bits = tonumber(mask)
    if bits == nil then
        arguments.bad(1, "cannot convert 'nil' to 'int'", 2)
    end
    return immediate(nil, python.fio_umask(arguments.c_int(bits)))
end

function fio.tempdir(base)
    return outcome(nil, python.fio_tempdir(type(base) == 'string' and base or nil, os.getenv('TMPDIR')))
end

function fio.sync()
    return outcome(false, python.fio_sync())
end

require('internal.file_trees')(fio, outcome, c_text)

-- ---- questions about paths -------------------------------------------------------------------

local path = {}

local function status(name)
    local found = fio.stat(name)
    return found
end

function path.is_file(name)
    local found = status(name)
    return found ~= nil and found:is_reg()
end

function path.is_dir(name)
    local found = status(name)
    return found ~= nil and found:is_dir()
end

function path.is_link(name)
    local found = fio.lstat(name)
    return found ~= nil and found:is_link()
end

function path.exists(name)
    return status(name) ~= nil
end

function path.lexists(name)
    return fio.lstat(name) ~= nil
end

fio.path = path

return fio
