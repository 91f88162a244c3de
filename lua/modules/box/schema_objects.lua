-- The Lua objects of the schema: box.space, box.sequence, box.func.
--
-- Python calls apply() with descriptions of the changes. Tables are changed in place, so that a variable that holds a
-- space or an index always shows its current state. Fields are assigned in Tarantool's order, nil included, because a
-- console shows them in this order.

local direct = require('box.direct')
local finish = require('box.finish')
local func = require('box.schema.func')
local index_methods = require('box.index').methods
local sequence = require('box.schema.sequence')
local space_class = require('box.space')
local triggers = require('box.space_triggers')
local tuples = require('internal.tuple')
local usage = require('box.usage')

local M = {spaces = {}, sequences = {}, functions = {}}

-- Metatables that users may extend: box.schema.space_mt and box.schema.index_mt.
local space_mt = space_class.methods
local index_mt = {}
local memtx_index_mt, vinyl_index_mt = {}, {}
for _, class in ipairs({index_mt, memtx_index_mt, vinyl_index_mt}) do
    class.__index = class
    class.__len = index_methods.len
end
-- The classes of both engines have these methods; the base class offers them under two names each.
local READS = {'select', 'get', 'min', 'max', 'count', 'random', 'pairs'}

for name, method in pairs(index_methods) do
    index_mt[name], memtx_index_mt[name], vinyl_index_mt[name] = method, method, method
end
for _, class in ipairs({index_mt, memtx_index_mt, vinyl_index_mt}) do
    for _, name in ipairs(READS) do
        class[name .. '_ffi'], class[name .. '_luac'] = index_methods[name], index_methods[name]
    end
end
for _, name in ipairs(READS) do
    index_mt[name] = nil
end
for _, class in ipairs({memtx_index_mt, vinyl_index_mt}) do
    class.__pairs, class.__ipairs = index_methods.pairs, index_methods.pairs
end
-- Adds a method that is assigned to the base class of indexes to the classes of both engines, too.
setmetatable(index_mt, {__newindex = function(class, name, method)
    memtx_index_mt[name], vinyl_index_mt[name] = method, method
    rawset(class, name, method)
end})
M.metatables = {
    space_mt = space_mt, index_mt = index_mt, memtx_index_mt = memtx_index_mt, vinyl_index_mt = vinyl_index_mt,
}

-- Makes a metatable for one object, so that a method assigned to the object hides that of the class.
local function object_metatable(class_name)
    local own = {}
    local metatable = {
        __index = M.metatables[class_name],
        __pairs = M.metatables[class_name].__pairs,
        __ipairs = M.metatables[class_name].__ipairs,
    }
    return setmetatable(metatable, {__newindex = function(self, name, method)
        rawset(self, name, method)
        own[name] = method
        self.__index = function(_, key)
            local found = own[key]
            if found == nil then
                found = M.metatables[class_name][key]
            end
            return found
        end
        getmetatable(self).__newindex = function(_, key, value)
            rawset(self, key, value)
            own[key] = value
        end
    end})
end

local PART_FIELDS = {'type', 'fieldno', 'path', 'is_nullable', 'exclude_null', 'collation'}

local function image_of_parts(parts)
    local result = {}
    for i, description in ipairs(parts) do
        local part = {}
        for _, name in ipairs(PART_FIELDS) do
            if description[name] ~= nil then
                part[name] = description[name]
            end
        end
        result[i] = part
    end
    return result
end

local function fill_index(index, description, space_id)
    if description.dimension ~= nil then
        index.dimension = description.dimension
    elseif description.type ~= 'BITSET' then
        index.unique = description.unique
    end
    direct.forget_index(index)
    index.hint = description.hint
    if description.func ~= nil then
        index.func = description.func
    end
    index.type = description.type
    index.id = description.id
    index.space_id = space_id
    index.name = description.name
    index.parts = image_of_parts(description.parts)
    rawset(index, 'sequence_id', description.sequence_id)
    rawset(index, 'sequence_fieldno', description.sequence_fieldno)
    rawset(index, 'sequence_path', description.sequence_path)
end

local function forget_indexes(indexes, described)
    for key, index in pairs(indexes) do
        if type(key) == 'string' or not described[key] then
            direct.forget_index(index)
            indexes[key] = nil
        end
    end
end

local function index_class_name(space)
    return space.engine == 'vinyl' and 'vinyl_index_mt' or 'memtx_index_mt'
end

local function fill_indexes(space, descriptions, class_name)
    local indexes, described = space.index, {}
    direct.forget_space(space)
    for _, description in ipairs(descriptions) do
        described[description.id] = true
    end
    forget_indexes(indexes, described)
    for _, description in ipairs(descriptions) do
        local index = indexes[description.id]
        if index == nil then
            index = setmetatable({}, object_metatable(class_name))
            indexes[description.id] = index
        end
        fill_index(index, description, space.id)
        indexes[description.name] = index
    end
end

local constraint_methods = {}

local check_constraint = usage.of('ck_constraint', 'name')

function constraint_methods.drop(constraint)
    check_constraint(constraint, 'drop')
    box.space._ck_constraint:delete{constraint.space_id, constraint.name}
end

function constraint_methods.enable(constraint, is_enabled)
    check_constraint(constraint, 'enable')
    if box.space._ck_constraint:get{constraint.space_id, constraint.name} == nil then
        box.error(box.error.NO_SUCH_CONSTRAINT, tostring(constraint.name))
    end
    box.space._ck_constraint:update({constraint.space_id, constraint.name}, {{'=', 6, is_enabled}})
end

local function fill_constraints(space, descriptions)
    local constraints = {}
    for _, description in ipairs(descriptions or {}) do
        local constraint = space.ck_constraint[description.name] or setmetatable({}, {__index = constraint_methods})
        constraint.name, constraint.space_id = description.name, space.id
        constraint.expr, constraint.is_enabled = description.expr, description.is_enabled
        constraints[description.name] = constraint
    end
    for name in pairs(space.ck_constraint) do
        space.ck_constraint[name] = nil
    end
    for name, constraint in pairs(constraints) do
        space.ck_constraint[name] = constraint
    end
end

local function fill_space(space, description)
    space.field_count = description.field_count
    space.id = description.id
    space.is_local = description.is_local
    space.temporary = description.temporary
    space.name = description.name
    space.engine = description.engine
    space.is_sync = description.is_sync
    space.enabled = #description.indexes > 0
    space.on_replace = space_class.on_replace
    space.before_replace = space_class.before_replace
    space.index = space.index or {}
    fill_indexes(space, description.indexes, index_class_name(description))
    space.ck_constraint = space.ck_constraint or {}
    fill_constraints(space, description.constraints)
    for _, name in ipairs({'constraint', 'foreign_key'}) do
        -- A key that is set, even to nil, changes the order that a console shows.
        if description[name] ~= nil or rawget(space, name) ~= nil then
            rawset(space, name, description[name])
        end
    end
end

local function apply_space(id, description)
    local space = rawget(M.spaces, id)
    if space ~= nil then
        M.spaces[space.name] = nil
    end
    if description == nil then
        M.spaces[id] = nil
        triggers.forget(id)
        tuples.drop_format(id)
        if space ~= nil then
            direct.forget_space(space)
        end
        for _, index in pairs(space ~= nil and space.index or {}) do
            direct.forget_index(index)
        end
        return
    end
    if space == nil then
        space = setmetatable({}, object_metatable('space_mt'))
        M.spaces[id] = space
    end
    fill_space(space, description)
    tuples.set_format(id, description.names)
    M.spaces[space.name] = space
end

-- Gives a space and its indexes the metatables of their classes again.
function M.bless(space)
    setmetatable(space, object_metatable('space_mt'))
    for number, index in pairs(type(space.index) == 'table' and space.index or {}) do
        if type(number) == 'number' then
            setmetatable(index, object_metatable(index_class_name(space)))
        end
    end
end

local SEQUENCE_FIELDS = {'id', 'uid', 'name', 'step', 'min', 'max', 'start', 'cache', 'cycle'}
local FUNCTION_FIELDS = {
    'id', 'name', 'setuid', 'language', 'returns', 'aggregate', 'body', 'comment', 'exports', 'is_deterministic',
    'is_multikey', 'is_sandboxed', 'takes_raw_args',
}

-- Sequences and functions are stored under their ids and their names.
local function apply_named(objects, fields, bless)
    return function(id, description)
        local object = objects[id]
        if object ~= nil then
            objects[object.name] = nil
        end
        if description == nil then
            objects[id] = nil
            return
        end
        object = object or bless({})
        for _, name in ipairs(fields) do
            object[name] = description[name]
        end
        objects[id] = object
        objects[object.name] = object
    end
end

local APPLIERS = {
    space = apply_space,
    sequence = apply_named(M.sequences, SEQUENCE_FIELDS, sequence.bless),
    ['function'] = apply_named(M.functions, FUNCTION_FIELDS, func.bless),
}

-- Applies changes: a list of {kind, id, description}, the last nil for a removal.
function M.apply(changes)
    for _, change in ipairs(finish.decode(changes)) do
        local kind, id, description = change[1], change[2], change[3]
        APPLIERS[kind](id, description ~= nil and description or nil)
    end
end

require('internal.python').entry('box.apply_schema', require('internal.registry').ref(M.apply))

-- Returns what a console shows for box.space: the user's spaces only.
setmetatable(M.spaces, {__serialize = function(spaces)
    local shown = {}
    for name, space in pairs(spaces) do
        if type(name) == 'string' and name ~= '' and name:sub(1, 1) ~= '_' then
            shown[name] = {
                engine = space.engine, is_local = space.is_local, temporary = space.temporary,
                is_sync = space.is_sync,
            }
        end
    end
    return shown
end})

return M
