-- Inside Tarantool: our JSON against its own, in both directions. Argument: the directory of our modules.
local modules = arg[1]
local here = arg[0]:match('^(.*)/') .. '/'
for _, name in ipairs({
    'arguments', 'marks', 'code_point', 'string_format', 'serializer', 'json_decode', 'json_encode',
}) do
    package.preload['internal.' .. name] = assert(loadfile(modules .. '/internal/' .. name .. '.lua'))
end
local ours, theirs, yaml = assert(loadfile(modules .. '/json.lua'))(), require('json'), require('yaml')
local value = dofile(here .. 'random_values.lua')
local differ = 0

local function compare(what, expected_ok, expected, ok, got)
    if expected_ok ~= ok or (ok and yaml.encode(expected) ~= yaml.encode(got)) then
        differ = differ + 1
        print(what, expected_ok, expected, ok, got)
    end
end

for _ = 1, 3000 do
    local item = value(math.random(0, 4), false, true)
    local ok, text = pcall(theirs.encode, item)
    local ours_ok, our_text = pcall(ours.encode, item)
    compare('encode', ok, text, ours_ok, our_text)
    if ok then
        local decoded, result = pcall(theirs.decode, text)
        compare(text, decoded, result, pcall(ours.decode, text))
    end
end

local DOCUMENTS = {
    '1', '-1', '0', '01', '1.5', '1e3', '1.', '1.e5', '-', '+1', '0x1', '99999999999999', '100000000000000',
    '9223372036854775806', '9223372036854775807', '9223372036854775808', '18446744073709551615',
    '99999999999999999999', '-9223372036854775808', '-9223372036854775809', '[1,]', '[', '[1 2]', '{', '{"a"}',
    '{"a":1,}', '{1:2}', 'nul', 'nan', 'inf', '-inf', '"abc', '"a\\qb"', '"\\u00e9\\u4e2d\\ud83d\\ude00"', '"\\ud83d"',
    '"\\uZZZZ"', '', '   ', '[1] 2', '"a\0b"', '[1.5e+3, -0, -0.0]', '\t1\r\n', '1e400', '-5.5E-3', '{"a" 1}',
    ('['):rep(130) .. (']'):rep(130),
}
for _, text in ipairs(DOCUMENTS) do
    local ok, result = pcall(theirs.decode, text)
    compare(text, ok, result, pcall(ours.decode, text))
end
print(differ .. ' differ')
os.exit(0)
