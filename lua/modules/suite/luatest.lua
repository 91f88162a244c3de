-- How the suite runner starts luatest: `EXE luatest.lua OPTIONS FILE`. The framework is on LUA_PATH.
require('luatest.cli_entrypoint')()
