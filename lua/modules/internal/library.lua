-- Installs Tarantool's additions to the standard library of Lua: members of string, table, math and os, and the globals utf8, help and
-- tutorial.
require('internal.string_format')
require('internal.string_library')
require('internal.math_library')
require('internal.table_library')
require('internal.os_library')
require('internal.program_library')
require('internal.file_library')
require('internal.c_library')
require('internal.c_namespace')
rawset(_G, 'utf8', require('utf8'))
require('internal.console_help')
-- LuaJIT 2.0 has no table.new and table.clear.
require('table.new')
require('table.clear')
require('internal.standard_functions').collect()

return true
