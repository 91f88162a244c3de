-- box.schema: constants, DDL, and the checks of how methods of spaces and indexes are called.

local finish = require('box.finish')
local python = require('internal.python')

local parts = {
    space = require('box.schema.space'),
    index = require('box.schema.index'),
    user = require('box.schema.user').user,
    role = require('box.schema.user').role,
    func = require('box.schema.func'),
    sequence = require('box.schema.sequence'),
}

local CONSTANTS = {
    VINYL_DEFERRED_DELETE_ID = 257, SCHEMA_ID = 272, COLLATION_ID = 276, VCOLLATION_ID = 277, SPACE_ID = 280,
    VSPACE_ID = 281, SEQUENCE_ID = 284, SEQUENCE_DATA_ID = 285, VSEQUENCE_ID = 286, INDEX_ID = 288,
    VINDEX_ID = 289, FUNC_ID = 296, VFUNC_ID = 297, USER_ID = 304, VUSER_ID = 305, PRIV_ID = 312, VPRIV_ID = 313,
    CLUSTER_ID = 320, TRIGGER_ID = 328, TRUNCATE_ID = 330, SPACE_SEQUENCE_ID = 340, FK_CONSTRAINT_ID = 356,
    CK_CONSTRAINT_ID = 364, FUNC_INDEX_ID = 372, SESSION_SETTINGS_ID = 380,
    SYSTEM_ID_MIN = 256, SYSTEM_ID_MAX = 511, SYSTEM_USER_ID_MIN = 0, SYSTEM_USER_ID_MAX = 2,
    ADMIN_ID = 1, GUEST_ID = 0, PUBLIC_ROLE_ID = 2, SUPER_ROLE_ID = 31,
    INDEX_MAX = 128, SPACE_MAX = 2147483647, FIELD_MAX = 2147483647, INDEX_FIELD_MAX = 32767,
    INDEX_PART_MAX = 255, NAME_MAX = 65000, FORMAT_ID_MAX = 65534, REPLICA_MAX = 32, SQL_BIND_PARAMETER_MAX = 65000,
}

local M = {}
for name, value in pairs(CONSTANTS) do
    M[name] = value
end
for name, value in pairs(parts) do
    M[name] = value
end
M.create_space = M.space.create

-- Upgrades the dictionary of an older version. A single instance does that at its start already.
function M.upgrade()
    if box.space._schema:get{'version'} == nil then
        error('Missing "version" in box.space._schema')
    end
    finish.nothing(python.schema_upgrade())
end

return M
