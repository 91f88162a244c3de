-- Times queries. Usage: EXECUTABLE sql_queries.lua DIRECTORY ROUNDS
-- DIRECTORY has data.json {schema, tables, queries, changes}; prints lines `QUERY CHANGES WALL CPU`, writes the rows to
-- rows.json there. `changes` are shares of the rows of each table that are replaced before each query, at least one row;
-- each share has its own rounds.
local clock, fio, json = require('clock'), require('fio'), require('json')
local directory, rounds = arg[1], tonumber(arg[2])

local function read(name)
    local file = fio.open(fio.pathjoin(directory, name), {'O_RDONLY'})
    local text = file:read()
    file:close()
    return json.decode(text)
end

local function execute(text)
    local result, problem = box.execute(text)
    return result or error(text .. ': ' .. tostring(problem))
end

local data = read('data.json')
box.cfg{
    work_dir = directory, wal_mode = 'none', log = 'bench.log', log_level = 4, checkpoint_interval = 0,
    memtx_memory = 512 * 1024 * 1024,
}
for _, statement in ipairs(data.schema) do
    execute(statement)
end
for _, item in ipairs(data.tables) do
    local space = box.space[item.name]
    for _, row in ipairs(item.rows) do
        space:insert(row)
    end
end

local function change(share)
    for _, item in ipairs(data.tables) do
        local space = box.space[item.name]
        for place = 1, math.ceil(share * #item.rows) do
            space:replace(item.rows[place])
        end
    end
end

local found = {}
for _, share in ipairs(data.changes) do
    for round = 1, rounds do
        for _, query in ipairs(data.queries) do
            change(share)
            local wall, cpu = clock.monotonic(), clock.proc()
            local result = execute(query.text)
            wall, cpu = clock.monotonic() - wall, clock.proc() - cpu
            print(query.name, share, wall, cpu)
            if round == 1 and share == data.changes[#data.changes] then
                local rows = {}
                for _, row in ipairs(result.rows) do
                    table.insert(rows, row:totable())
                end
                found[query.name] = rows
            end
        end
    end
end
local file = fio.open(fio.pathjoin(directory, 'rows.json'), {'O_WRONLY', 'O_CREAT', 'O_TRUNC'}, tonumber('644', 8))
file:write(json.encode(found))
file:close()
os.exit(0)
