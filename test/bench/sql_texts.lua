-- Measures statements whose texts differ in their constants, as programs write that build texts: prints microseconds of
-- processor time for each.
-- Usage: EXECUTABLE sql_texts.lua DIRECTORY [COUNT]
local directory, count = arg[1], tonumber(arg[2] or 2000)
local clock = require('clock')

box.cfg{work_dir = directory, log = 'bench.log', log_level = 4, checkpoint_interval = 0, wal_mode = 'none'}

local function execute(text, params)
    local _, err = box.execute(text, params or {})
    if err ~= nil then error(text .. ': ' .. tostring(err)) end
end

execute('CREATE TABLE t (id INT PRIMARY KEY, name TEXT, v DOUBLE, k INT)')
execute('CREATE INDEX tk ON t (k)')
execute('CREATE TABLE u (id INT PRIMARY KEY, w INT)')
for i = 1, 1000 do
    execute('INSERT INTO t VALUES (?, ?, ?, ?)', {i, 'name' .. i, i * 1.5, i % 100})
    execute('INSERT INTO u VALUES (?, ?)', {i, i % 10})
end

local function row(i)
    return ("(%d, 'name %d', %d.25, %d)"):format(i, i, i, i)
end

local statements = {
    {'INSERT of a row', function(i) return 'INSERT INTO t VALUES ' .. row(i + 10000) end},
    {'SELECT by key', function(i) return ('SELECT * FROM t WHERE id = %d'):format(i) end},
    {'UPDATE by key', function(i) return ("UPDATE t SET name = 'x%d' WHERE id = %d"):format(i, i) end},
    {'DELETE by key', function(i) return ('DELETE FROM t WHERE id = %d'):format(i + 10000) end},
    {'INSERT of ten rows', function(i)
        local rows = {}
        for number = 0, 9 do rows[number + 1] = row(100000 + i * 10 + number) end
        return 'INSERT INTO t VALUES ' .. table.concat(rows, ', ')
    end},
    {'SELECT by another index', function(i)
        return ('SELECT id, name FROM t WHERE k = %d AND v > %d.5'):format(i % 100, i)
    end},
    {'SELECT of two tables', function(i)
        return ('SELECT t.name, u.w FROM t JOIN u ON u.id = t.id WHERE t.id = %d AND u.w < %d'):format(i % 1000, i)
    end},
    {'UPDATE by a condition', function(i)
        return ('UPDATE t SET v = v + %d WHERE id = %d AND k < %d'):format(i, i % 1000, i + 50)
    end},
    {'SELECT without a table', function(i) return ("SELECT %d + %d, 'x%d'"):format(i, i + 1, i) end},
}
for _, statement in ipairs(statements) do
    local name, text_of = statement[1], statement[2]
    local texts = {}
    for i = 1, count do texts[i] = text_of(i) end
    execute(text_of(count + 1))
    collectgarbage()
    local start = clock.proc()
    for i = 1, count do execute(texts[i]) end
    print(('%-24s %7.1f'):format(name, (clock.proc() - start) / count * 1e6))
end
os.exit(0)
