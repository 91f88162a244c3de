-- The `sequence` option of a primary index: which sequence fills which field.
--
-- A change takes two steps, because a sequence must be detached while the index changes. prepare() checks the option,
-- generates a sequence if needed and detaches the old one. finish() attaches the new one and drops a generated one that
-- is no longer needed.

local box_error = require('box.error')
local catalog = require('box.schema.catalog')
local resolve_field = require('box.schema.parts').resolve_field

local M = {}

local function refuse(index_name, space_name, reason)
    box_error(box_error.MODIFY_INDEX, index_name, space_name, reason)
end

local function part_of_field(parts, field, path)
    for _, part in ipairs(parts) do
        if (part.field or part[1]) == field and (part.path or '') == path then
            return part
        end
    end
end

-- Sets field and path of the sequence. The field must be an integer part of the index.
local function check_field(sequence, parts, space_name, index_name)
    local part
    if sequence.field ~= nil then
        sequence.path = sequence.path or ''
        part = part_of_field(parts, sequence.field, sequence.path)
        if part == nil then
            refuse(index_name, space_name, 'sequence field must be a part of the index')
        end
    else
        part = parts[1]
        sequence.field, sequence.path = part.field or part[1], part.path or ''
    end
    local field_type = part.type or part[2]
    if field_type ~= 'integer' and field_type ~= 'unsigned' then
        refuse(index_name, space_name, 'sequence cannot be used with a non-integer key')
    end
end

local function attached_to(space_id)
    local row = box.space._space_sequence:get(space_id)
    if row ~= nil then
        return {id = row[2], is_generated = row[3], field = row[4], path = row[5]}
    end
end

-- Reads the option `sequence`: true for a generated one, false for none, a table {id = , field = }, or a name or id.
local function read_option(option)
    if type(option) == 'table' then
        return {id = option.id, field = option.field}
    elseif option == true then
        return {}
    elseif option ~= false then
        return {id = option}
    end
end

local function resolve_id(name_or_id, space_name)
    local id = catalog.sequence(name_or_id)
    if id == nil then
        box_error(box_error.NO_SUCH_SEQUENCE, name_or_id)
    end
    local row = box.space._space_sequence.index.sequence:select(id)[1]
    if row ~= nil and row[3] then
        box_error(box_error.ALTER_SPACE, space_name, 'can not attach generated sequence')
    end
    return id
end

local function inherit(new, old)
    if new.id == nil and old.is_generated then
        new.id, new.is_generated = old.id, true
    end
    if new.field == nil then
        new.field, new.path = old.field, old.path
    end
end

local function complete(new, old, format, parts, space_name, index_name)
    if new.id ~= nil then
        new.id = resolve_id(new.id, space_name)
    end
    if new.field ~= nil then
        new.field, new.path = resolve_field(format, new.field, 'sequence field')
    end
    if old ~= nil then
        inherit(new, old)
    end
    check_field(new, parts, space_name, index_name)
    if new.id == nil then
        new.id, new.is_generated = box.schema.sequence.create(space_name .. '_seq').id, true
    end
    new.is_generated = new.is_generated or false
end

-- Returns the change to pass to finish(), nil if there is none.
function M.prepare(format, parts, options, space, index_id, index_name)
    if index_id ~= 0 then
        if options.sequence then
            refuse(index_name, space.name, 'sequence cannot be used with a secondary key')
        end
        return nil
    end
    local old = attached_to(space.id)
    if options.sequence == nil then
        if old ~= nil and old.field ~= nil then
            check_field(old, parts, space.name, index_name)
        end
        return nil
    end
    local new = read_option(options.sequence)
    if new ~= nil then
        complete(new, old, format, parts, space.name, index_name)
    end
    if old ~= nil then
        box.space._space_sequence:delete(space.id)
    end
    return {space_id = space.id, old = old, new = new}
end

function M.finish(change)
    if change == nil then
        return
    end
    local old, new = change.old, change.new
    if new ~= nil then
        box.space._space_sequence:insert{change.space_id, new.id, new.is_generated, new.field, new.path}
    end
    if old ~= nil and old.is_generated and (new == nil or old.id ~= new.id) then
        box.schema.sequence.drop(old.id)
    end
end

return M
