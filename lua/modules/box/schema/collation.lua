-- box.internal.collation: DDL of collations.

local catalog = require('box.schema.catalog')
local check = require('box.check')
local session = require('box.session')

local M = {}

local function string_argument(value, text)
    if type(value) ~= 'string' then
        check.illegal(text .. ' must be a string')
    end
end

function M.create(name, collation_type, locale, opts)
    if type(opts) == 'nil' or opts == false then
        opts = {}
    end
    string_argument(name, 'name (first arg)')
    string_argument(collation_type, 'type (second arg)')
    string_argument(locale, 'locale (third arg)')
    if type(opts) ~= 'table' then
        check.illegal('options (fourth arg) must be a table or nil')
    end
    check.options({if_not_exists = opts.if_not_exists}, {if_not_exists = 'boolean'})
    local if_not_exists = opts.if_not_exists
    opts.if_not_exists = nil
    if if_not_exists and M.exists(name) then
        return
    end
    opts = setmetatable(check.with_defaults(opts, {strength = 'tertiary'}), {__serialize = 'map'})
    box.space._collation:auto_increment{name, session.euid(), collation_type, locale, opts}
end

function M.drop(name, opts)
    opts = opts or {}
    check.options(opts, {if_exists = 'boolean'})
    if opts.if_exists and not M.exists(name) then
        return
    end
    box.space._collation.index.name:delete{name}
end

function M.exists(name)
    return catalog.collation(name) ~= nil
end

function M.id_by_name(name)
    local coll = box.space._collation.index.name:get{name}
    return coll.id
end

return M
