-- require('crypto'): digests, authentication codes and ciphers, at once or piece by piece:
--     crypto.digest.sha1(text)        crypto.digest.sha1.new(); d:update(text); d:result()
--     crypto.hmac.sha1(key, text)     crypto.hmac.sha1.new(key)
--     crypto.cipher.aes256.cbc.encrypt(text, key, iv)    and .decrypt, .encrypt.new(key, iv)
local ciphers = require('internal.cipher')
local python = require('internal.python')
local wait = require('internal.wait')

local error, type, setmetatable = error, type, setmetatable

local ALGORITHMS = {
    'md4', 'md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512', 'dss', 'dss1', 'mdc2', 'ripemd160',
}

-- ---- objects that collect pieces --------------------------------------------------------------------

-- Pieces are kept until result() is called: Python computes the hash at once and keeps no state for Lua.
-- `return error(text)` gives an error the position of the caller, as in Tarantool.
local function new_collector(what, compute, has_key)
    local methods = {}

    function methods.init(self, key)
        if self._is_free then
            return error(what .. " context isn't usable")
        end
        local _ = has_key and key:len()    -- raises the error for a key that is no text
        self._key, self._pieces = key or self._key, {}
    end

    function methods.update(self, text)
        if self._pieces == nil then
            return error(what .. ' not initialized')
        end
        -- Errors call what is no text `input`, as in Tarantool.
        local input = text
        if input:len() > 0 then
            self._pieces[#self._pieces + 1] = input
        end
    end

    function methods.result(self)
        if self._pieces == nil then
            return error(what .. ' not initialized')
        end
        local result = compute(self._key, table.concat(self._pieces))
        self._pieces = nil
        return result
    end

    function methods.free(self)
        self._pieces, self._is_free = nil, true
    end

    local mt = {__index = methods}
    return function(key)
        return setmetatable({_key = key, _pieces = {}}, mt)
    end
end

-- Makes a table of algorithms raise an error for an unknown name.
local function named(members, what)
    return setmetatable(members, {__index = function(_, name)
        error(('%s method "%s" is not supported'):format(what, name), 2)
    end})
end

local digests = {}
for _, name in ipairs(ALGORITHMS) do
    local function compute(_, text)
        return wait(python.digest_hash(name, text))
    end
    local new = new_collector('Digest', compute)
    digests[name] = setmetatable({new = function() return new() end}, {
        __call = function(_, text)
            if type(text) ~= 'string' then
                error(('Usage: digest.%s(string)'):format(name))
            end
            return compute(nil, text)
        end,
    })
end

local hmacs = {}
for _, name in ipairs({'md4', 'md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512', 'ripemd160'}) do
    local function compute(key, text)
        return wait(python.digest_hmac(name, key, text))
    end
    local function check(key, text, usage)
        if type(text) ~= 'string' then
            error(('Usage: hmac.%s(key, string)'):format(usage))
        elseif key == nil then
            error('Key should be specified for HMAC operations')
        end
        local _ = key:len()    -- raises the error for a key that is no text
    end
    local new = new_collector('HMAC', compute, true)
    local function new_with_key(key)
        if key == nil then
            return error('Key should be specified for HMAC operations')
        end
        local _ = key:len()    -- raises the error for a key that is no text
        return new(key)
    end
    hmacs[name] = setmetatable({new = new_with_key}, {
        __call = function(_, key, text)
            check(key, text, name)
            return compute(key, text)
        end,
    })
    hmacs[name .. '_hex'] = function(key, text)
        check(key, text, name .. '_hex')
        return compute(key, text):hex()
    end
end

-- ---- ciphers ---------------------------------------------------------------------------------

local function direction(algorithm, mode, is_encryption)
    local function new(key, iv)
        return ciphers.new(algorithm, mode, is_encryption, key, iv)
    end
    return setmetatable({new = new}, {
        __call = function(_, text, key, iv)
            local cipher = ciphers.new(algorithm, mode, is_encryption, key, iv)
            return cipher:update(text) .. cipher:result()
        end,
    })
end

local function modes_of(algorithm)
    local modes = {}
    for mode in pairs(ciphers.MODES) do
        modes[mode] = {
            encrypt = direction(algorithm, mode, true),
            decrypt = direction(algorithm, mode, false),
        }
    end
    return setmetatable(modes, {__index = function(_, mode)
        error(('Cipher mode %s is not supported'):format(mode))
    end})
end

local cipher_table = {}
for algorithm in pairs(ciphers.ALGORITHMS) do
    cipher_table[algorithm] = modes_of(algorithm)
end

local members = {
    digest = named(digests, 'Digest'),
    hmac = named(hmacs, 'HMAC'),
    cipher = named(cipher_table, 'Cipher'),
}

-- As in Tarantool, a loop over the module shows only the numbers of the ciphers.
return setmetatable({
    cipher_algo = {none = 0, aes128 = 1, aes192 = 2, aes256 = 3, des = 4},
    cipher_mode = {ecb = 0, cbc = 1, cfb = 2, ofb = 3},
}, {__index = members})
