-- Functional iteration: results of every function of `fun`, as iterators, by values and for wrong arguments.
local fun = require('fun')
local json = require('json')
local null = json.decode('null')

local function shown(value)
    if type(value) == 'cdata' and value == nil then
        return 'null'
    elseif type(value) == 'string' then
        return string.format('%q', value)
    elseif type(value) == 'function' then
        return 'function'
    elseif type(value) ~= 'table' then
        return tostring(value)
    end
    local result, keys = {}, {}
    for key in pairs(value) do
        keys[#keys + 1] = key
    end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, key in ipairs(keys) do
        result[#result + 1] = type(key) == 'number' and shown(value[key]) or key .. '=' .. shown(value[key])
    end
    return '{' .. table.concat(result, ' ') .. '}'
end

-- Returns the values of up to twelve steps of an iterator. A state is shown by its type alone, because each iterator
-- keeps a state of its own kind.
local function unrolled(iterator)
    local steps, gen, param, state = {}, iterator:unwrap()
    for _ = 1, 12 do
        local values = {n = 0}
        local function keep(following, ...)
            state, values = following, {n = select('#', ...), ...}
        end
        keep(gen(param, state))
        if type(state) == 'nil' then
            return '[' .. table.concat(steps, ', ') .. ']'
        end
        local texts = {}
        for i = 1, values.n do
            texts[i] = shown(values[i])
        end
        steps[#steps + 1] = table.concat(texts, ' ')
    end
    return '[' .. table.concat(steps, ', ') .. ' ...]'
end

local function is_iterator(value)
    return type(value) == 'table' and type(value.unwrap) == 'function'
end

local environment = setmetatable({fun = fun, null = null, with_null = json.decode('[1, null, 3]'), pass = function(...)
    return ...
end}, {__index = _G})

-- Returns an error's text without the names of local variables, which may differ.
local function without_names(problem)
    return (tostring(problem):gsub("%l+ '[%w_]+' %(", '('))
end

local function try(source)
    local chunk = assert(loadstring('return ' .. source, '=try'))
    setfenv(chunk, environment)
    local results = {pcall(chunk)}
    local texts = {}
    if not results[1] then
        results[2] = without_names(results[2])
    end
    if not results[1] then
        texts[1] = 'ERROR ' .. tostring(results[2])
    elseif is_iterator(results[2]) then
        local ok, text = pcall(unrolled, results[2])
        texts[1] = ok and text or 'ERROR while it runs: ' .. without_names(text)
        if is_iterator(results[3]) then
            texts[2] = unrolled(results[3])
        end
    else
        for i = 2, table.maxn(results) do
            texts[#texts + 1] = shown(results[i])
        end
    end
    print(source .. '\n    ' .. table.concat(texts, ' | '))
end

local SOURCES = {
    '{}', '{1, 2, 3}', "{'a', 'b'}", '{a = 1}', "''", "'abc'", 'fun.range(3)', 'fun.range(0)', 'with_null', '{null}',
    'ipairs({5, 6})', "pairs({k = 'v'})", 
    "fun.zip({1, 2, 3}, 'abc')", 'fun.enumerate({5, 6, 7})', 'fun.range(3):map(function(x) return x, x * x end)',
    'fun.wrap(fun.range(2):unwrap())', '{{1, 2}, {3}}', '{true, false, true}', '{3, 1, 2}', "{'b', 'a'}", "{''}",
    "setmetatable({}, {__pairs = function() return ipairs({7, 8}) end})",
}
for _, source in ipairs(SOURCES) do
    try('fun.iter(' .. source .. ')')
end

-- Functions whose only arguments are what they iterate.
for _, name in ipairs({
    'head', 'car', 'tail', 'cdr', 'length', 'is_null', 'sum', 'product', 'min', 'minimum', 'max', 'maximum',
    'totable', 'tomap', 'enumerate', 'cycle', 'zip', 'chain',
}) do
    for _, source in ipairs(SOURCES) do
        local is_empty = source == '{}' or source == "''" or source == 'fun.range(0)'
        if not (is_empty and (name == 'cycle' or name == 'zip' or name == 'chain')) then
            try('fun.' .. name .. '(' .. source .. ')')
        end
    end
end

-- Functions of an argument and what they iterate, with the values of that argument; each is also called as a method.
local ARGUMENTS = {
    nth = {'0', '1', '2', '9', '-1', 'nil'},
    take_n = {'0', '2', '9', '-1', 'nil'}, drop_n = {'0', '2', '9', '-1'},
    take_while = {'function(x) return x ~= 2 end', 'function() return nil end'},
    drop_while = {'function(x) return x ~= 2 end', 'function() return true end'},
    take = {'1', 'function(x) return x ~= 2 end'}, drop = {'1', 'function(x) return x ~= 2 end'},
    span = {'1', 'function(x) return x ~= 2 end', '7'}, split = {'1'}, split_at = {'2'},
    index = {'2', '"b"', 'nil', 'null'}, index_of = {'1'}, elem_index = {'3'},
    indexes = {'1', 'true', 'nil'}, indices = {'2'}, elem_indexes = {'3'}, elem_indices = {'"a"'},
    filter = {'function(x) return x ~= 2 end', 'function(x, y) return y end'}, remove_if = {'function(x) return x == 2 end'},
    grep = {'"a"', 'function(x) return x == "b" end'},
    partition = {'function(x) return x ~= 2 end'},
    all = {'function(x) return x ~= 2 end'}, every = {'pass'}, any = {'function(x) return x == 2 end'}, some = {'pass'},
    map = {'function(x) return x, 1 end', 'function() return nil end', 'tostring', 'pass'},
    intersperse = {'"x"', 'nil'},
    min_by = {'function(a, b) return tostring(a) < tostring(b) and a or b end'},
    max_by = {'function(a, b) return tostring(a) > tostring(b) and a or b end'},
    minimum_by = {'function(a) return a end'},
}
local names = {}
for name in pairs(ARGUMENTS) do
    names[#names + 1] = name
end
table.sort(names)
for _, name in ipairs(names) do
    for _, argument in ipairs(ARGUMENTS[name]) do
        for _, source in ipairs({
            '{}', '{1, 2, 3}', "'ab'", 'fun.range(4)', '{b = 2}', 'with_null', "fun.zip({1, 2}, 'ab')", 'ipairs({2, 1})',
            "{'a', 'b', 'ab'}", '{true, false}',
        }) do
            try(('fun.%s(%s, %s)'):format(name, argument, source))
        end
        try(('fun.iter({2, 1, 2}):%s(%s)'):format(name, argument))
    end
end

-- Sums of two arguments, sources, compositions and purity.
for _, source in ipairs({
    'fun.foldl(function(a, x) return a .. x end, "", {1, 2})', 'fun.reduce(function(a, x) return a + x end, 5, 1, 2)',
    'fun.range(3):foldl(function(a, x) return a * x end, 1)', 'fun.foldl(function(a, x, y) return a + x * y end, 0, fun.zip({1, 2}, {3, 4}))',
    'fun.foldl(function(a) return nil end, 1, {1})', 'fun.foldl(function(a, x) return a and x end, null, {1})',
    'fun.range(1, 3)', 'fun.range(3, 1)', 'fun.range(-3)', 'fun.range(1, 2, 0.25)', 'fun.range(1, 10, 4)',
    'fun.range(10, 1, -4)', 'fun.range(1, 5, -1)', 'fun.range(5, 1, 1)', 'fun.range(1, 1)', 'fun.range(1.5)',
    'fun.range(1, 2, 0)', 'fun.range()', "fun.range('a')", 'fun.range(0, 0)', 'fun.range(0, 2)', "fun.range(1, 'a')",
    'fun.range(0.5, 3)', 'fun.range(0/0)',
    'fun.duplicate()', 'fun.duplicate(1)', 'fun.duplicate(1, 2, "x")', 'fun.xrepeat("a")', 'fun.replicate(nil)',
    'fun.tabulate(function(i) return i * i end)', 'fun.tabulate(pass)', 'fun.zeros()', 'fun.ones()', 'fun.tabulate()',
    'fun.rands(0)', 'fun.rands(5, 5)', 'fun.rands(-1)', 'fun.rands(1):take(2)', 'fun.rands(3, 4):take(2)',
    'fun.rands():take(3):all(function(x) return x >= 0 and x < 1 end)', "fun.rands('a')", 'fun.rands(nil, 3):take(1):length()',
    'fun.rands(10):take(50):all(function(x) return x >= 0 and x < 10 end)',
    'fun.rands(10, 20):take(50):all(function(x) return x >= 10 and x < 20 end)',
    'fun.zip()', 'fun.zip({1, 2})', 'fun.zip({1, 2}, "abc", fun.range(9))', 'fun.zip(fun.range(2), fun.zip({1, 2}, {3, 4}))',
    'fun.zip({1, 2}, ipairs({5, 6, 7}))', 'fun.range(2):zip({5, 6})', 'fun.range(2):zip({5, 6}, "ab")', 'fun.zip(5)',
    'fun.zip({1}, nil)', 'fun.zip({1, 2, 3}, with_null)', 'fun.zip({}, {1})', 'fun.range(2):zip()',
    'fun.chain()', 'fun.chain({1})', 'fun.chain({1, 2}, "ab", {c = 3})', 'fun.chain({}, {}, {1})', 'fun.chain({}, {})',
    'fun.chain(fun.range(2), fun.range(3))', 'fun.range(2):chain({5, 6})', 'fun.chain(with_null, {4})', 'fun.chain(1)',
    'fun.range(2):chain(fun.range(1), fun.range(2))', 'fun.chain({1}, nil)', 'fun.range(2):chain()',
    'fun.range(3):cycle()', 'fun.cycle(fun.zip({1, 2}, "ab"))', 'fun.range(2):cycle():take(5):totable()',
    'fun.is_prefix_of({1}, {1, 2})', 'fun.is_prefix_of({1, 3}, {1, 2})', 'fun.is_prefix_of({}, {})',
    'fun.is_prefix_of({1}, {})', 'fun.range(2):is_prefix_of({1, 2, 3})', 'fun.range(2):is_prefix_of(fun.range(2))',
    'fun.is_prefix_of("ab", "abc")', 'fun.is_prefix_of({1, 2}, {1})',
    'fun.each(print, {1, "a"})', 'fun.for_each(print, fun.zip({1}, {2}))', 'fun.foreach(print, "ab")',
    'fun.range(2):each(print)', 'fun.each(function() return false end, fun.range(3))', 'fun.each(nil, {1})',
    'fun.iter()', 'fun.iter(nil)', 'fun.iter(1)', 'fun.iter(true)', 'fun.iter(null)', 'fun.iter(1LL)', 'fun.iter(print)',
    'fun.map(tostring)', 'fun.map(tostring, 1)', 'fun.map(nil, {1})', 'fun.filter(nil, {1})', 'fun.head()', 'fun.length(5)',
    'fun.range(3):nth()', 'fun.range(3):take("a")', 'fun.range(3):nope()', 'fun.take(nil, {1})', 'fun.grep(1, {"a1"})',
    'fun.grep("a", {1})', 'fun.tail(fun.tail({1, 2, 3}))', 'fun.range(5):tail():tail():head()',
    'fun.range(5):span(2)', 'fun.split(function(x) return x < 3 end, {1, 2, 3, 4})', 'fun.range(6):partition(function(x) return x % 2 == 0 end)',
    'fun.range(3):map(function(x) return x * 2 end):filter(function(x) return x > 2 end):enumerate():totable()',
    'fun.range(3):enumerate():tomap()', 'fun.zip("ab", {1, 2}):tomap()', 'fun.tomap({1, 2})', 'fun.tomap({a = 1})',
    'fun.zip({1, 2}, {3, 4}):map(function(a, b) return a + b end):totable()', 'fun.range(3):intersperse(0):totable()',
    'fun.intersperse(nil, {1, 2}):length()', 'fun.map(function() return nil end, {1, 2}):totable()',
    'tostring(fun.range(2))', 'tostring(fun.iter({}))', 'type(fun.range(2))', 'fun.range(2).gen ~= nil', 'fun.sum({"1", 2})',
    'fun.sum({"a"})', 'fun.min({"b", "a"})', 'fun.max({2, "a"})', 'fun.min_by(fun.op.sub, {3, 1})', 'fun.max({1, null})',
    'fun.length({1, null, 2})', 'fun.any(pass, {null})', 'fun.all(pass, {null})', 'fun.index(null, with_null)',
    'fun.foldl(function(n) return n + 1 end, 0, with_null)', 'fun.iter(with_null):map(type):totable()',
    'fun.iter(with_null):take_while(function() return true end):length()', 'fun.iter(with_null):enumerate():length()',
    'fun.iter(with_null):cycle():take(7):length()', 'fun.iter(with_null):drop_n(1):head() == nil', 'fun.iter(with_null):nth(2) == nil',
    'fun.is_null({null})', 'fun.is_null({})', 'fun.head({null}) == nil', 'fun.tail({null})',
    'fun.totable(fun.iter({b = 1}))', 'fun.wrap(nil, nil, nil)', 'fun.iter(function(_, n) return n and n > 0 and n - 1 or nil, n end, nil, 2)',
}) do
    try(source)
end

-- Operators, under both names.
for _, name in ipairs({
    'lt', 'le', 'eq', 'ne', 'ge', 'gt', 'add', 'sub', 'mul', 'div', 'floordiv', 'intdiv', 'truediv', 'mod', 'pow', 'land', 'lor',
    'concat', 'neq', 'xor',
}) do
    for _, arguments in ipairs({'7, 2', '-7, 2', '2, 2', 'nil, 1', "'a', 'b'"}) do
        try(('fun.operator.%s(%s)'):format(name, arguments))
    end
end
for _, name in ipairs({'unm', 'len', 'length', 'lnot', 'truth'}) do
    for _, arguments in ipairs({'7', "'ab'", '{1}', 'nil', 'false'}) do
        try(('fun.op.%s(%s)'):format(name, arguments))
    end
end
print(fun.op == fun.operator)

-- An iterator is not used up: each pass over it begins at the beginning.
local pairs_of = fun.zip({1, 2}, 'ab'):enumerate()
print(pairs_of:length(), pairs_of:length(), pairs_of:take(1):length(), pairs_of:length())
for _, a, b, c in fun.zip({1, 2}, 'ab'):enumerate() do
    io.write(a, b, c, ' ')
end
for _, value in fun.range(3) do
    io.write(value, ' ')
end
for _, value in fun.iter({'x', null}):unwrap() do
    io.write(tostring(value), ' ')
end
print()

-- A call of the module makes its members global.
fun()
print(range == fun.range, op == fun.op)
