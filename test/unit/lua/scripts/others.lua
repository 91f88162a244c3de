local errno, clock, strict = require('errno'), require('clock'), require('strict')
print(errno(5), errno(), errno.strerror(2), errno.EINVAL, errno.UNKNOWN, pcall(function() errno.X = 1 end))
print(type(clock.time()), type(clock.time64()), clock.monotonic() > 0, clock.bench(function(...) return ... end, 1, 2)[3])
for _, text in ipairs({'123', '-5', '18446744073709551615', '18446744073709551616', 'ff', '', '12x', ' 12 ', '0x10',
        '0b11', '1.5', '-9223372036854775808', '99999999999999', '100000000000000'}) do
    print(text, tonumber64(text))
end
print(tonumber64('ff', 16), tonumber64('zz', 36), tonumber64(5), tonumber64(5ULL))
print(pcall(dostring, 'return 1, ...', 2)) print(pcall(dostring, 'error("x", 0)')) print(pcall(dostring, 'x x'))
strict.on()
print(pcall(function() return undeclared end)) print(pcall(function() undeclared = 1 end))
strict.off()
print(pcall(function() undeclared = 1 return undeclared end))
local seen = {}
for key, value in pairs(setmetatable({}, {__pairs = function() return next, {a = 1}, nil end})) do seen[key] = value end
print(seen.a, pcall(pairs), pcall(ipairs, 1))
print(pcall(loadstring('coroutine.yield(1)')), coroutine.wrap(function() return 7 end)())
