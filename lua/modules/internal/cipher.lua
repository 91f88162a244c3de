-- Symmetric ciphers of the system's OpenSSL library: new(algorithm, mode, is_encryption, key, iv) returns an object
-- with update(text) and result(), which both return bytes.
local ffi = require('ffi')
local errors = require('internal.error')

local error, ipairs, pcall, setmetatable, type = error, ipairs, pcall, setmetatable, type

ffi.cdef([[
    typedef struct evp_cipher_ctx_st EVP_CIPHER_CTX;
    typedef struct evp_cipher_st EVP_CIPHER;
    EVP_CIPHER_CTX *EVP_CIPHER_CTX_new(void);
    void EVP_CIPHER_CTX_free(EVP_CIPHER_CTX *ctx);
    const EVP_CIPHER *EVP_get_cipherbyname(const char *name);
    int EVP_CipherInit_ex(EVP_CIPHER_CTX *ctx, const EVP_CIPHER *cipher, void *engine, const unsigned char *key,
                          const unsigned char *iv, int enc);
    int EVP_CipherUpdate(EVP_CIPHER_CTX *ctx, unsigned char *out, int *size, const unsigned char *data, int data_size);
    int EVP_CipherFinal_ex(EVP_CIPHER_CTX *ctx, unsigned char *out, int *size);
    unsigned long ERR_get_error(void);
    void ERR_error_string_n(unsigned long number, char *text, size_t size);
]])

-- Sizes in bytes.
local ALGORITHMS = {
    aes128 = {name = 'aes-128', key = 16, block = 16},
    aes192 = {name = 'aes-192', key = 24, block = 16},
    aes256 = {name = 'aes-256', key = 32, block = 16},
    des = {name = 'des', key = 8, block = 8},
}
local MODES = {cbc = true, cfb = true, ecb = true, ofb = true}
local LIBRARIES = {'libcrypto.so.3', 'libcrypto.so.1.1', 'crypto', 'libcrypto.3.dylib'}

local library

local function crypto()
    if library == nil then
        for _, name in ipairs(LIBRARIES) do
            local ok, found = pcall(ffi.load, name)
            if ok then
                library = found
                return library
            end
        end
        box.error(box.error.UNSUPPORTED, 'A system without the OpenSSL library', 'ciphers')
    end
    return library
end

local function crypto_error(text)
    error(errors.new_here({type = 'CryptoError', message = text}), 0)
end

local function openssl_error()
    local text = ffi.new('char[256]')
    crypto().ERR_error_string_n(crypto().ERR_get_error(), text, 256)
    crypto_error('OpenSSL error: ' .. ffi.string(text))
end

local function check_size(what, value, expected)
    if #value ~= expected then
        crypto_error(('%s size expected %d, got %d'):format(what, expected, #value))
    end
end

local methods = {}
local mt = {__index = methods}

-- Without a key or an initialization vector the cipher waits for a further init().
function methods.init(self, key, iv)
    if self.is_free then
        return error("Cipher context isn't usable")
    end
    self.key, self.iv = key or self.key, iv or self.iv
    if not (self.key and self.iv) then
        return
    end
    local sizes = self.sizes
    local _ = self.key:len(), self.iv:len()    -- raises the error for what is no text
    check_size('key', self.key, sizes.key)
    check_size('IV', self.iv, self.mode == 'ecb' and 0 or sizes.block)
    local C = crypto()
    local cipher = C.EVP_get_cipherbyname(sizes.name .. '-' .. self.mode)
    if cipher == nil then
        box.error(box.error.UNSUPPORTED, 'The OpenSSL library of this system',
            ("cipher '%s-%s'"):format(sizes.name, self.mode))
    end
    local ctx = ffi.gc(C.EVP_CIPHER_CTX_new(), C.EVP_CIPHER_CTX_free)
    if C.EVP_CipherInit_ex(ctx, cipher, nil, self.key, self.iv, self.is_encryption and 1 or 0) ~= 1 then
        openssl_error()
    end
    self.ctx = ctx
end

function methods.update(self, text)
    if self.ctx == nil then
        return error('Cipher not initialized')
    end
    if type(text) ~= 'string' then
        error('Usage: cipher:update(string)')
    end
    local out, size = ffi.new('unsigned char[?]', #text + self.sizes.block), ffi.new('int[1]')
    if crypto().EVP_CipherUpdate(self.ctx, out, size, text, #text) ~= 1 then
        openssl_error()
    end
    return ffi.string(out, size[0])
end

function methods.result(self)
    if self.ctx == nil then
        return error('Cipher not initialized')
    end
    local out, size = ffi.new('unsigned char[?]', self.sizes.block), ffi.new('int[1]')
    local status = crypto().EVP_CipherFinal_ex(self.ctx, out, size)
    self.ctx = nil
    if status ~= 1 then
        openssl_error()
    end
    return ffi.string(out, size[0])
end

function methods.free(self)
    self.ctx, self.key, self.iv, self.is_free = nil, nil, nil, true
end

local function new(algorithm, mode, is_encryption, key, iv)
    local cipher = setmetatable({
        sizes = ALGORITHMS[algorithm], mode = mode, is_encryption = is_encryption, key = key, iv = iv,
    }, mt)
    cipher:init()
    return cipher
end

return {ALGORITHMS = ALGORITHMS, MODES = MODES, new = new}
