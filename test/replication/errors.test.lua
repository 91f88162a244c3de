-- Bad input: the texts and codes of errors, and that the node goes on.
test_run = require('test_run').new()
test_run:cmd("push filter 'schema.lua:[0-9]+' to 'schema.lua:<line>'")
box.cfg{unknown_option = 1}
box.cfg{replication_timeout = 'abc'}
box.cfg{replication_timeout = -1}
box.cfg{replication_synchro_quorum = 0}
box.cfg{wal_mode = 'none'}
box.cfg{readahead = 1}
box.cfg{listen = {}}
box.schema.space.create('')
box.schema.space.create('a', {bad = 1})
box.schema.space.create('a', {engine = 'nothing'})
box.schema.space.create('a', {format = {{'x', 'nothing'}}})
box.schema.space.create('a', {format = {{'x'}, {'x'}}})
box.schema.space.create('_space')
box.schema.space.create('_space', {if_not_exists = true}) == box.space._space
s = box.schema.space.create('t')
s:insert{1}
s:create_index('pk', {parts = {}})
s:create_index('pk', {parts = {1, 'nothing'}})
s:create_index('pk', {type = 'NOTHING'})
s:create_index('sk', {parts = {1, 'unsigned'}, unique = false})
_ = s:create_index('pk', {parts = {1, 'unsigned'}})
s:create_index('pk')
_ = s:create_index('sk', {parts = {2, 'string', 3, 'integer'}})
s:insert('not a tuple')
s:insert{'x'}
s:insert{1}
s:insert{1, 'a', 'b'}
s:insert{1, 'a', 1}
s:insert{1, 'b', 2}
s:insert{2, 'a', 1}
s:replace{2, 'a', 1}
s:get()
s:get{}
s:get{1, 2}
s:get('a')
s:get{'a'}
s.index.sk:get{'a'}
s.index.sk:get{1, 1}
s:select({1}, {iterator = 'NOTHING'})
s:select({1, 2})
s:update(1, {{'=', 2}})
s:update(1, {{'+', 2, 'x'}})
s:update(1, {{'=', 30, 1}})
s:update(1, 'ops')
s:upsert({1}, {{'=', 1, 1}})
s:delete()
s.insert()
box.space.nothing:insert{1}
e = box.error.new({code = 42, reason = 'because', type = 'mine'})
e.code, e.message
e = box.error.new(box.error.NO_SUCH_SPACE, 'x')
e.code, e.message, e.type, tostring(e)
box.error(e)
ok, err = pcall(box.error, box.error.TUPLE_FOUND, 'i', 's', 'old', 'new')
ok, err.message, err.code == box.error.TUPLE_FOUND, box.error.last() == err
box.error.clear()
box.error.last()
error('text')
error({code = 1})
nothing.field
return 1 +
f(
assert(false)
assert(nil, 'message')
-- Users and grants.
box.schema.user.create('u', {password = 'p'})
box.schema.user.create('u')
box.schema.user.create('')
box.schema.user.grant('u', 'read', 'space', 'nothing')
box.schema.user.grant('u', 'fly', 'universe')
box.schema.user.grant('u', 'read', 'space', 't')
box.schema.user.grant('u', 'read', 'space', 't')
box.session.su('u')
box.space.t:select()
box.space.t:insert{5, 'x', 5}
box.schema.space.create('mine')
box.session.su('admin')
box.schema.user.drop('guest')
box.schema.user.drop('admin')
box.schema.user.revoke('u', 'write', 'space', 't')
box.schema.user.drop('u')
box.schema.user.drop('u')
box.schema.role.create('r')
box.schema.role.grant('r', 'r')
box.schema.role.drop('r')
s:drop()
