-- Inside Tarantool: our `\set output lua` against its own. Argument: the directory of our modules.
local modules = arg[1]
local here = arg[0]:match('^(.*)/') .. '/'
for _, name in ipairs({
    'internal.marks', 'internal.string_format', 'internal.serializer', 'internal.printable', 'internal.lua_output',
}) do
    package.preload[name] = assert(loadfile(modules .. '/' .. name:gsub('%.', '/') .. '.lua'))
end
local console, socket, fio = require('console'), require('socket'), require('fio')
local path = fio.pathjoin(fio.cwd(), 'c')
local server = console.listen('unix/:' .. path)
local client = socket.tcp_connect('unix/', path)
client:read(128)

local output = require('internal.lua_output')
local options = require('internal.serializer').options({encode_use_tostring = true, encode_invalid_as_nil = true})
-- No fractions: Tarantool prints them with a precision that it has not set, which now and then is 0.
local VALUES = {
    '1', '"x"', 'nil', 'box.NULL', 'true', '{}', '{1, 2, {3}}', '{a = 1}', '{a = {b = {c = 1}}, 7}',
    '{["a b"] = 1, ["end"] = 2, [5] = 3, x_1 = 4}', '{[0] = 1}', '{[true] = 3}',
    '(function() local t = {1} return {t, t, x = t} end)()', '"q\\"\'\\n\\t\\0\\1\\127é"', '"\\255"', '{{}, {}, {{}}}',
    '5LL', 'setmetatable({}, {__serialize = "map"})', '-1',
    '{1, {2, {3, {4}}}, {a = {1, {b = 2}}}}', '{x = {{1}, {2}}}', '{"a", nil, "b"}',
}
local differ = 0
for _, mode in ipairs({'lua,line', 'lua,block'}) do
    client:write('\\set output ' .. mode .. '\n')
    client:read(';')
    for _, source in ipairs(VALUES) do
        client:write(source .. '\n')
        local expected = client:read(';')
        local got = output.encode(options, loadstring('return ' .. source)(), mode == 'lua,block') .. ';'
        if expected ~= got then
            differ = differ + 1
            print(source, '-- expected', expected, '-- got', got)
        end
    end
end
client:close()
server:close()
print(differ .. ' differ')
os.exit(0)
