-- Modules over bytes, texts and files.
local scenario, directory, given = ...
local values = given.values
local fio, msgpack = require('fio'), require('msgpack')

local function bytes_scenario(name, size, use)
    scenario(name, size, function(n)
        local text = ('some text '):rep(n)
        return function() return use(text, n) end
    end)
end

local digest, crypto, uri, utf8 = require('digest'), require('crypto'), require('uri'), utf8
local csv, iconv, pickle, buffer = require('csv'), require('iconv'), require('pickle'), require('buffer')
local key, vector = ('k'):rep(16), ('v'):rep(16)

for _, name in ipairs({'md5', 'sha1', 'sha512', 'crc32', 'murmur'}) do
    bytes_scenario('digest.' .. name, 300, function(text) return digest[name](text) end)
end
bytes_scenario('digest.base64', 300, function(text) return digest.base64_decode(digest.base64_encode(text)) end)
bytes_scenario('digest.urandom', 300, function(_, n) return digest.urandom(n) end)
bytes_scenario('digest.crc32_update', 300, function(text)
    local sum = digest.crc32.new()
    for i = 1, #text, 10 do sum:update(text:sub(i, i + 9)) end
    return sum:result()
end)
bytes_scenario('digest.sha1_parts', 300, function(text)
    local sum = crypto.digest.sha1.new()
    for i = 1, #text, 10 do sum:update(text:sub(i, i + 9)) end
    return sum:result()
end)
bytes_scenario('crypto.aes', 300, function(text)
    return crypto.cipher.aes128.cbc.decrypt(crypto.cipher.aes128.cbc.encrypt(text, key, vector), key, vector)
end)
bytes_scenario('utf8.len', 300, function(text) return utf8.len(text) end)
bytes_scenario('utf8.upper', 300, function(text) return utf8.upper(text) end)
bytes_scenario('utf8.sub', 300, function(text, n) return utf8.sub(text, 5 * n, -1) end)
bytes_scenario('utf8.cmp', 300, function(text) return utf8.cmp(text, text .. 'x') end)
bytes_scenario('utf8.casecmp', 300, function(text) return utf8.casecmp(text, text:upper()) end)
bytes_scenario('utf8.next', 30, function(text)
    local pos = utf8.next(text)
    while pos do pos = utf8.next(text, pos) end
end)
bytes_scenario('iconv', 300, function(text) return iconv.new('UTF-16', 'UTF-8')(text) end)
bytes_scenario('uri.parse', 300, function(text) return uri.parse('host/' .. text:gsub(' ', '')) end)
scenario('csv.load', 300, function(n)
    local text = csv.dump(values.lists(n))
    return function() return csv.load(text) end
end)
scenario('csv.load_quoted', 300, function(n)
    local text = '"' .. ('a ""word"",\n'):rep(n) .. '"\n'
    return function() return csv.load(text) end
end)
scenario('csv.dump', 300, function(n)
    local rows = values.lists(n)
    return function() return csv.dump(rows) end
end)
scenario('pickle.pack', 30, function(n)
    local format, numbers = ('i'):rep(n), values.integers(n)
    if n > 5000 then return function() end end
    return function() return pickle.pack(format, unpack(numbers)) end
end)
scenario('pickle.unpack', 30, function(n)
    local bytes, format = ('\1\2\3\4'):rep(n), ('i'):rep(n)
    if n > 5000 then return function() end end
    return function() return select('#', pickle.unpack(format, bytes)) end
end)
scenario('buffer.ibuf', 300, function(n)
    return function()
        local ibuf = buffer.ibuf()
        for _ = 1, n do ibuf:alloc(10) end
        ibuf:recycle()
    end
end)
scenario('msgpack.encode_buffer', 300, function(n)
    return function()
        local ibuf = buffer.ibuf()
        for i = 1, n do msgpack.encode(i, ibuf) end
        ibuf:recycle()
    end
end)
scenario('msgpack.decode_pointer', 300, function(n)
    local bytes = msgpack.encode(values.strings(n))
    return function()
        local ibuf = buffer.ibuf()
        msgpack.encode(values.strings(n), ibuf)
        local pos = ibuf.rpos
        local count
        count, pos = msgpack.decode_array_header(pos, ibuf:size())
        for _ = 1, count do
            local _
            _, pos = msgpack.decode(pos, ibuf.wpos - pos)
        end
        ibuf:recycle()
    end
end)
scenario('msgpack.decode_offset', 300, function(n)
    local bytes = msgpack.encode('text'):rep(n)
    return function()
        local pos = 1
        while pos <= #bytes do
            local _
            _, pos = msgpack.decode_unchecked(bytes, pos)
        end
    end
end)
scenario('decimal.sum', 30, function(n)
    local decimal = require('decimal')
    local one = decimal.new('0.01')
    return function()
        local sum = decimal.new(0)
        for _ = 1, n do sum = sum + one end
    end
end)
scenario('uuid.str', 100, function(n)
    local uuid = require('uuid')
    return function() for _ = 1, n do uuid.fromstr(uuid.new():str()) end end
end)
scenario('error.chain', 10, function(n)
    local first = box.error.new{reason = 'x'}
    local last = first
    return function()
        for _ = 1, n do
            local cause = box.error.new{reason = 'x'}
            last:set_prev(cause)
            last = cause
        end
    end
end)


scenario('fio.write_read', 100, function(n)
    local path, text = fio.pathjoin(directory, 'file'), ('some text\n'):rep(n)
    return function()
        local file = fio.open(path, {'O_CREAT', 'O_RDWR', 'O_TRUNC'}, 420)
        file:write(text)
        file:seek(0)
        file:read()
        file:close()
    end
end)
scenario('fio.read_parts', 30, function(n)
    local path = fio.pathjoin(directory, 'file')
    local file = fio.open(path, {'O_CREAT', 'O_RDWR', 'O_TRUNC'}, 420)
    file:write(('some text\n'):rep(n))
    return function()
        file:seek(0)
        while file:read(10) ~= '' do end
    end, function() file:close() end
end)
scenario('fio.listdir', 30, function(n)
    if n > 3000 then return function() end end
    local path = fio.pathjoin(directory, 'list' .. n)
    fio.mkdir(path)
    for i = 1, n do fio.open(fio.pathjoin(path, tostring(i)), {'O_CREAT', 'O_WRONLY'}, 420):close() end
    return function() fio.listdir(path) end, function() fio.rmtree(path) end
end)
scenario('fio.pathjoin', 30, function(n)
    if n > 5000 then return function() end end
    local parts = values.strings(n)
    return function() fio.pathjoin(unpack(parts)) end
end)
scenario('fio.basename', 300, function(n)
    local path = ('dir/'):rep(n) .. 'file'
    return function() fio.basename(path) fio.dirname(path) fio.abspath(path) end
end)
