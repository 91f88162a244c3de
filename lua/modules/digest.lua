-- require('digest'): hashes, checksums, base64, random bytes.
local ffi = require('ffi')
local buffer = require('buffer')
local crypto = require('crypto')
local python = require('internal.python')
local wait = require('internal.wait')

local error, type, tonumber = error, type, tonumber

local PBKDF2_ITERATIONS, PBKDF2_SIZE = 100000, 128

local digest = {}

local function check_string(value, usage)
    if type(value) ~= 'string' then
        error('Usage: ' .. usage)
    end
end

for _, name in ipairs({'md4', 'md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'}) do
    local hash = crypto.digest[name]    -- an object that can be called, not a function
    digest[name] = function(data)
        return hash(data)
    end
    digest[name .. '_hex'] = function(data)
        check_string(data, ('digest.%s_hex(string)'):format(name))
        return wait(python.digest_hash(name, data)):hex()
    end
end

-- ---- checksums that may be computed bit by bit -----------------------------------------------

local CRC_BEGIN = 4294967295
-- Bytes of a Lua string, about.
local LARGEST = 2 ^ 30

local function crc32_update(state, data)
    if type(data) ~= 'string' then
        error('Usage: digest.crc32_update(string)')
    elseif tonumber(state) == nil then
        error("bad argument #1 to '?' (cannot convert 'nil' to 'unsigned int')", 2)
    end
    local number = tonumber(state)
    if number - number ~= 0 then
        number = 0
    end
    return python.digest_crc32((number - math.fmod(number, 1)) % 2 ^ 32, data)
end

local crc_methods = {}
local crc_mt = {__index = crc_methods}

function crc_methods.update(self, data)
    if type(data) ~= 'string' then
        error('Usage crc32:update(string)')
    end
    self.value = crc32_update(self.value, data)
end

function crc_methods.result(self)
    return self.value
end

function crc_methods.clear(self)
    self.value = CRC_BEGIN
end

function crc_methods.copy(self)
    return setmetatable({value = self.value}, crc_mt)
end

digest.crc32_update = crc32_update
digest.crc32 = setmetatable({
    crc_begin = CRC_BEGIN,
    new = function()
        return setmetatable({value = CRC_BEGIN}, crc_mt)
    end,
}, {
    __call = function(_, data)
        if type(data) ~= 'string' then
            error('Usage digest.crc32(string)')
        end
        return crc32_update(CRC_BEGIN, data)
    end,
})

local MURMUR_SEED = 13
local murmur_methods = {}
local murmur_mt = {__index = murmur_methods}

local function new_murmur(opts)
    local seed = opts and opts.seed or MURMUR_SEED
    if type(seed) ~= 'number' and type(seed) ~= 'cdata' then
        error(("cannot convert '%s' to 'int [1]'"):format(type(seed)))
    end
    return setmetatable({seed = seed, data = ''}, murmur_mt)
end

function murmur_methods.update(self, data)
    check_string(data, 'murhash:update(string)')
    self.data = self.data .. data
end

function murmur_methods.result(self)
    return python.digest_murmur(self.seed, self.data)
end

function murmur_methods.clear(self)
    self.data = ''
end

function murmur_methods.copy(self)
    local result = new_murmur(self)
    result.data = self.data
    return result
end

digest.murmur = setmetatable({default_seed = MURMUR_SEED, new = new_murmur}, {
    __call = function(_, data)
        if type(data) ~= 'string' then
            error('Usage: digest.murhash(string)')
        end
        return python.digest_murmur(MURMUR_SEED, data)
    end,
})

local number_cell, count_cell = ffi.new('uint64_t[1]'), ffi.new('int32_t[1]')
-- What LuaJIT converts to a number of C.
local CONVERTED = {number = true, cdata = true, boolean = true}

-- Returns the bucket of a number. When the count of buckets changes, most numbers keep their bucket.
function digest.guava(state, buckets)
    if not CONVERTED[type(state)] then
        error(("bad argument #1 to '?' (cannot convert '%s' to 'uint64_t')"):format(type(state)), 2)
    elseif not CONVERTED[type(buckets)] then
        error(("bad argument #2 to '?' (cannot convert '%s' to 'int')"):format(type(buckets)), 2)
    end
    number_cell[0], count_cell[0] = state, buckets
    return python.digest_guava(ffi.string(number_cell, 8), count_cell[0])
end

-- ---- the rest --------------------------------------------------------------------------------

-- Encodes a string in base64. Options: `nopad`, `nowrap`, and `urlsafe`, which means both and another alphabet.
function digest.base64_encode(data, options)
    if type(data) ~= 'string' or (options ~= nil and type(options) ~= 'table') then
        error('Usage: digest.base64_encode(string[, table])')
    end
    options = options or {}
    local url_safe = options.urlsafe and true or false
    local is_padded, is_wrapped = not (options.nopad or url_safe), not (options.nowrap or url_safe)
    return python.digest_base64_encode(data, is_padded, is_wrapped, url_safe)
end

function digest.base64_decode(data)
    if type(data) ~= 'string' then
        error('Usage: digest.base64_decode(string)')
    end
    return python.digest_base64_decode(data)
end

function digest.urandom(size)
    if size ~= nil and type(size) ~= 'number' and type(size) ~= 'cdata' then
        buffer.ibuf():alloc(size)    -- raises the error, as in Tarantool
    end
    local count = tonumber(size)
    if count == nil or not (count >= 0 and count < math.huge) then
        error('Usage: digest.urandom(len)')
    elseif count > LARGEST then
        error('not enough memory', 0)
    end
    return python.digest_urandom(count)
end

local function as_int(value, name)
    if type(value) ~= 'number' then
        error(name .. ' must be a number', 3)
    end
    return value == value and math.max(-2 ^ 31, math.min(value, 2 ^ 31 - 1)) or 0
end

local function pbkdf2(password, salt, iterations, size)
    iterations, size = iterations or PBKDF2_ITERATIONS, size or PBKDF2_SIZE
    iterations, size = as_int(iterations, 'iters'), as_int(size, 'digest_len')
    if size > PBKDF2_SIZE then
        error('too big digest size')
    elseif size < 0 or iterations < 1 then
        return nil
    elseif size == 0 then
        return ''
    end
    return wait(python.digest_pbkdf2(password, salt, iterations, size))
end

function digest.pbkdf2(password, salt, iterations, size)
    if type(password) ~= 'string' or type(salt) ~= 'string' then
        error('Usage: digest.pbkdf2(pass, salt[,iters][,digest_len])')
    end
    local result = pbkdf2(password, salt, iterations, size)
    return result
end

function digest.pbkdf2_hex(password, salt, iterations, size)
    if type(password) ~= 'string' or type(salt) ~= 'string' then
        error('Usage: digest.pbkdf2_hex(pass, salt)')
    end
    return pbkdf2(password, salt, iterations, size):hex()
end

digest.aes256cbc = {
    encrypt = function(...)
        return crypto.cipher.aes256.cbc.encrypt(...)
    end,
    decrypt = function(...)
        return crypto.cipher.aes256.cbc.decrypt(...)
    end,
}

return digest
