-- Look-ups in the system views by name or id. Objects that the reader may not see do not exist here.

local M = {}

local function find(view, name_or_id)
    local space = box.space[view]
    if type(name_or_id) == 'string' then
        return space.index.name:get(name_or_id)
    elseif type(name_or_id) ~= 'nil' then
        return space:get{name_or_id}
    end
end

-- Returns the id of a user or a role, or nil. As in Tarantool, a nil name raises ER_EXACT_MATCH.
function M.user_or_role(name_or_id)
    local tuple = type(name_or_id) == 'nil' and box.space._vuser:get{} or find('_vuser', name_or_id)
    return tuple and tuple[1]
end

function M.grantee(kind, name_or_id)
    local tuple = find('_vuser', name_or_id)
    return tuple ~= nil and tuple[4] == kind and tuple[1] or nil
end

-- Returns the id and the tuple of a sequence.
function M.sequence(name_or_id)
    local tuple = find('_vsequence', name_or_id)
    if tuple ~= nil then
        return tuple[1], tuple
    end
end

function M.func(name_or_id)
    return find('_vfunc', name_or_id)
end

-- Returns the id of the collation of exactly this name, or nil.
function M.collation(name)
    local tuple = box.space._collation.index.name:get{name}
    return tuple and tuple[1]
end

function M.revoke_object_privileges(object_type, object_id)
    local _priv = box.space._priv
    for _, tuple in ipairs(box.space._vpriv.index.object:select{object_type, object_id}) do
        _priv:delete{tuple[2], object_type, object_id}
    end
end

-- Removes the sequence that was generated for a primary index.
function M.drop_sequence_of(space_id)
    local tuple = box.space._space_sequence:delete{space_id}
    if tuple ~= nil and tuple[3] == true then
        box.schema.sequence.drop(tuple[2])
    end
end

return M
