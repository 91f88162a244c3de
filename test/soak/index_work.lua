-- The work of the campaigns "index-kills" and "index-damage" on the node: see index_work.py, which has the same rows.
-- Returns the function that makes step `n`, the one that prepares, and those which assert that wrong rows are refused,
-- and that loops find what `select` and `len` do.
local FAR, KEPT = 1000000, 60

local functions = {
    folded = {body = "function(tuple) assert(tuple[5] ~= 'refused') return {tuple[5]:lower()} end"},
    cells = {
        body = 'function(tuple) return {{tuple[2][1] % 16, tuple[1] % 3}, {16 + tuple[2][2] % 16, tuple[1] % 3}} end',
        opts = {is_multikey = true},
    },
}

local function create_function(name)
    local about = functions[name]
    box.schema.func.create(name, {
        body = about.body, is_deterministic = true, is_sandboxed = true, if_not_exists = true,
        opts = about.opts,
    })
end

local indexes = {
    {'place', {type = 'RTREE', unique = false, parts = {{2, 'array'}}}},
    {'bits', {type = 'BITSET', unique = false, parts = {{3, 'unsigned'}}}},
    {'tags', {unique = false, parts = {{4, 'string', path = '[*]', is_nullable = true, exclude_null = true}}}},
    {'marks', {parts = {{6, 'unsigned', path = '[*].a'}}}},
    {'name', {unique = false, parts = {{5, 'string', collation = 'soak'}}}},
    {'folded', {func = 'folded', parts = {{1, 'string'}}}},
    {'exact', {type = 'HASH', parts = {{5, 'string'}}}},
    {'cells', {func = 'cells', unique = false, parts = {{1, 'unsigned'}, {2, 'unsigned'}}}},
}
-- Indexes that come and go.
local extras = {
    {'extra0', {type = 'RTREE', unique = false, distance = 'manhattan', parts = {{2, 'array'}}}},
    {'extra1', {type = 'BITSET', unique = false, parts = {{5, 'string'}}}},
    {'extra2', {unique = false, parts = {{6, 'unsigned', path = '[*].a'}, {3, 'unsigned'}}}},
    {'extra3', {func = 'extra3', unique = false, parts = {{1, 'string'}}}},
    {'extra4', {unique = false, parts = {{5, 'string', collation = 'unicode_ci'}}}},
}

-- Makes an index if it lacks. A kill between the row of the index and the row of its function leaves an index without
-- function, as in Tarantool.
local function complete(space, name, options)
    local index = space.index[name]
    if index ~= nil and options.func ~= nil and box.space._func_index:get{space.id, index.id} == nil then
        index:drop()
        index = nil
    end
    if index == nil then
        space:create_index(name, options)
    end
end

local function prepare()
    if box.space._collation.index.name:get('soak') == nil then
        box.internal.collation.create('soak', 'ICU', 'en', {strength = 'primary', alternate_handling = 'shifted'})
    end
    create_function('folded')
    create_function('cells')
    local space = box.schema.space.create('indexed', {if_not_exists = true})
    space:create_index('pk', {if_not_exists = true})
    for _, index in ipairs(indexes) do
        complete(space, unpack(index))
    end
    local progress = box.schema.space.create('progress', {if_not_exists = true})
    progress:create_index('pk', {if_not_exists = true})
    return (progress:get(1) or {0, 0})[2]
end

local function row(id, n)
    local x, y = n * 37 % 100, n * 61 % 100
    return {
        id, n % 2 == 0 and {x, y} or {x, y, x + n % 5, y + n % 7}, n * 40503 % 65536,
        {'t' .. n % 7, box.NULL, 'u' .. n % 11}, (n % 2 == 0 and 'Name-%d' or 'name %d'):format(id),
        {{a = 2 * id}, {a = 2 * id + 1, b = n}},
    }
end

local function changes(space, n)
    local kind = n % 10
    if kind == 1 or kind == 2 or kind == 9 then
        space:insert(row(n, n))
        space:insert(row(n + FAR, n))
    elseif kind == 3 then
        space:delete(math.max(n - 11, 0))
    elseif kind == 4 then
        space:update(n - 3, {
            {'=', 2, {n % 100, n % 50}}, {'|', 3, 0x8001}, {'!', '[4][1]', 'updated'}, {'=', '[6][2].a', 2 * n + 2 * FAR},
            {'=', 5, 'NAME ' .. n - 3},
        })
    elseif kind == 5 then
        space:replace(row(n - 3, n))
    elseif kind == 7 then
        for _, id in ipairs{n - 5, n + FAR} do
            space:upsert(row(id, n), {{'=', 2, {n % 10, n % 10}}, {'^', 3, 0xff}})
        end
    elseif kind == 8 then
        for _, tuple in ipairs(space:select()) do
            if tuple[1] % FAR < n - KEPT then
                space:delete(tuple[1])
            end
        end
    end
end

-- Each does nothing where it was done before.
local function definitions(space, n)
    if n % 100 == 50 then
        space:truncate()
    elseif n % 10 == 0 then
        local number = n / 10 % #extras
        for other, extra in pairs(extras) do
            if other ~= number + 1 and space.index[extra[1]] ~= nil then
                space.index[extra[1]]:drop()
            end
        end
        if box.func.extra3 ~= nil and number ~= 3 then
            box.func.extra3:drop()
        elseif number == 3 then
            box.schema.func.create('extra3', {
                body = 'function(tuple) return {tuple[4][1]} end', is_deterministic = true, is_sandboxed = true,
                if_not_exists = true,
            })
        end
        complete(space, unpack(extras[number + 1]))
    end
end

local function expect(code, f, ...)
    local ok, problem = pcall(f, ...)
    assert(not ok and problem.code == code, tostring(problem))
end

local function refusals(space)
    local first = space.index.pk:min()
    if first == nil then
        return
    end
    local id = 99 * FAR
    local function changed(field, value)
        local wrong = row(id, id)
        wrong[field] = value
        return wrong
    end
    expect(box.error.RTREE_RECT, space.insert, space, changed(2, {1, 2, 3}))
    expect(box.error.FIELD_TYPE, space.insert, space, changed(3, 'bits'))
    expect(box.error.FIELD_TYPE, space.insert, space, changed(4, {'a', 1}))
    expect(box.error.TUPLE_FOUND, space.insert, space, changed(6, {{a = 2 * id}, first[6][1]}))
    expect(box.error.TUPLE_FOUND, space.insert, space, changed(5, first[5]:upper()))
    expect(box.error.FUNC_INDEX_FUNC, space.insert, space, changed(5, 'refused'))
    expect(box.error.FUNC_INDEX_FORMAT, space.update, space, first[1], {{'=', 2, {0.5, 0.5}}})
end

local function step(n)
    local space = box.space.indexed
    definitions(space, n)
    box.begin()
    changes(space, n)
    box.space.progress:replace{1, n}
    box.commit()
    if n % 10 == 6 then
        refusals(space)
    end
end

-- Returns whether an index has all its rows. A kill may leave one without its function, which nobody can read.
local function is_complete(index)
    local definition = box.space._index:get{index.space_id, index.id}
    return definition[5].func == nil or box.space._func_index:get{index.space_id, index.id} ~= nil
end

-- Loops of Lua, and reads by a whole key of the HASH index, are made in another way than those of Python.
local function loops(space)
    for number, index in pairs(space.index) do
        if type(number) == 'number' and is_complete(index) then
            local expected, place = index:select({}, {iterator = 'ALL'}), 0
            for _, tuple in index:pairs({}, {iterator = 'ALL'}) do
                place = place + 1
                assert(tuple[1] == expected[place][1], index.name)
            end
            assert(place == #expected and place == index:len(), index.name)
        end
    end
    for _, tuple in space:pairs() do
        local name = tuple[5]
        assert(space.index.exact:get(name)[1] == tuple[1] and space.index.exact:count(name) == 1, name)
        for _, found in space.index.exact:pairs(name) do
            assert(found[1] == tuple[1], name)
        end
    end
    assert(space.index.exact:get('nobody') == nil and space.index.exact:count('nobody') == 0)
end

return step, prepare, refusals, loops
