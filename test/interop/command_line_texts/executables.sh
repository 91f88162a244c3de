# Scripts that start as executables, with modules beside them, arguments and exit codes.

# == shebang by env
printf '#!/usr/bin/env tarantool\nprint(arg[0], arg[1], #arg, ...)\n' > run
chmod +x run
./run 1 'two words' ''
echo $?

# == shebang in a folder
mkdir bin
printf '#!/usr/bin/env tarantool\nprint(arg[0], debug.sourcefile(), debug.sourcedir())\nprint(debug.__file__, debug.__dir__)\n' > bin/run
chmod +x bin/run
bin/run
PATH=$PWD/bin:$PATH run
cd bin && ./run

# == shebang with carriage returns
printf '#!/usr/bin/env tarantool\r\nprint(1)\r\n' > run
$T run

# == two shebangs
printf '#!/usr/bin/env tarantool\n#!x\nprint(1)\n' > run
$T run
echo $?

# == hash without a bang
printf '# a comment\nprint(1)\n' > run
$T run
echo $?

# == error lines after a shebang
printf '#!/usr/bin/env tarantool\n\n\nlocal x = nil\nprint(x.y)\n' > run
$T run
echo $?

# == syntax error after a shebang
printf '#!/usr/bin/env tarantool\n\nlocal x = = 5\n' > run
$T run
echo $?

# == not executable
printf '#!/usr/bin/env tarantool\nprint(1)\n' > run
./run
echo $?
chmod 0 run
$T run >/dev/null
echo $?

# == argparse
cat > run <<'END'
local argparse = require('internal.argparse')
local spec = {{'name', 'string'}, {'count', 'number'}, {'flag', 'boolean'}, {'list', 'string+'}, 'any'}
local ok, found = pcall(argparse.parse, arg, spec)
print(ok, ok and require('json').encode(found) or found)
END
$T run
$T run --name x --count 5 --flag file
$T run --name=x --count=5 --no-flag
$T run --list a --list b --list=c
$T run -abc -a 5 --any --any x
$T run --count five
$T run --nope
$T run --name
$T run --flag=maybe
$T run -- --name x
$T run - x
$T run --name= ''
$T run a b --flag c

# == exit codes
for code in 0 1 255 256 -1 3.7 true false nil "'5'" '{}' 1e10; do $T -e "os.exit($code)"; echo "$code: $?"; done

# == exit in a fiber
$T -e "require('fiber').create(function() print(1) os.exit(6) end) print(2)"
echo $?
$T -e "require('fiber').new(function() print(1) os.exit(6) end) print(2)"
echo $?

# == exit in a trigger
echo "box.ctl.on_shutdown(function() print('a') os.exit(5) print('b') end) os.exit(3)" > run
$T run
echo $?
$T -e "box.ctl.on_shutdown(function() print('a') error('x') end) box.ctl.on_shutdown(function() print('b') end) os.exit(3)"
echo $?

# == exit in a pcall and a finalizer
$T -e "print(pcall(os.exit, 4)) print('after')"
echo $?
$T -e "local p = newproxy(true) getmetatable(p).__gc = function() print('collected') end p = nil collectgarbage() print(1)"

# == exit in tostring and sort
$T -e "table.sort({3, 1, 2}, function() os.exit(9) end) print(1)"
echo $?
$T -e "print(1, setmetatable({}, {__tostring = function() os.exit(8) end}))"
echo $?

# == no exit with a fiber
$T -e "local f = require('fiber') f.create(function() f.sleep(0.5) print('late') end) print('end')" & sleep 2.5
end TERM $!

# == modules beside the script
mkdir -p app/lib
echo 'return {name = ..., file = debug.sourcefile()}' > app/lib/mod.lua
echo 'return {name = ...}' > app/beside.lua
cat > app/run.lua <<'END'
local ok, found = pcall(require, 'lib.mod')
print(ok, ok and found.name)
print((pcall(require, 'beside')))
package.path = debug.sourcedir() .. '/?.lua;' .. package.path
print(require('lib.mod').name, require('lib.mod').file, require('beside').name)
END
$T app/run.lua
cd app && $T run.lua

# == searchroot
mkdir -p root/.rocks/share/tarantool root/sub
echo 'return "from root"' > root/top.lua
echo 'return "from rocks"' > root/.rocks/share/tarantool/r.lua
cat > root/sub/run.lua <<'END'
print(package.searchroot() == require('fio').cwd())
print((pcall(require, 'top')), require('rock').z)
package.setsearchroot(debug.sourcedir() .. '/..')
print(package.searchroot():match('[^/]*$'), pcall(require, 'top'))
print(pcall(require, 'r'))
package.setsearchroot()
print(package.searchroot():match('[^/]*/[^/]*$'))
print(pcall(package.setsearchroot, 5))
print(pcall(package.setsearchroot, {}))
package.setsearchroot(nil)
print(package.searchroot() == require('fio').cwd())
END
$T root/sub/run.lua

# == search
cat > run <<'END'
print(package.search)
print(pcall(package.search))
print(pcall(package.search, 5))
print(package.search('nope'))
print(package.search('d.m'), package.search('e'), package.search('rock'))
print(package.search('json'), package.search('fio'))
END
$T run

# == default paths
$T -e 'local path = package.path:gsub("/usr[%w/.]*", "USR") print((path:gsub("USR[^;]*;?", "")))'
$T -e 'print((package.cpath:gsub("/usr[^;]*;?", "")))'
$T -e 'print(#package.loaders, type(package.loadlib), package.config:sub(1, 1))'
$T -e 'package.path = "" package.cpath = "" print(pcall(require, "nope")) print(require("d.m").x)'

# == missing module
printf 'require("no.such")\n' > run
$T run 2>&1 | sed 's/^\tno file .*[^:]*\(no\/such\)/FILE \1/'

# == module with a syntax error
printf 'local x =\n' > broken.lua
printf '\n\nrequire("broken")\n' > run
$T run
echo $?

# == module with an error
printf 'local function f() error("in f") end\nf()\n' > broken.lua
printf 'print(pcall(require, "broken"))\nprint(package.loaded.broken)\nrequire("broken")\n' > run
$T run
echo $?

# == module that requires itself
printf 'return require("self")\n' > self.lua
printf 'print(pcall(require, "self"))\n' > run
$T run

# == module without a result
printf 'y = ...\n' > none.lua
printf 'print(require("none"), y, package.loaded.none)\npackage.loaded.none = nil y = nil print(require("none"), y)\n' > run
$T run

# == module that is false
printf 'return false\n' > no.lua
printf 'print(require("no"), require("no"), package.loaded.no)\n' > run
$T run

# == dofile and loadfile
printf 'print("file", ...) return 1, nil, 3\n' > part.lua
cat > run <<'END'
print(dofile('part.lua'))
print(pcall(dofile, 'none.lua'))
print(loadfile('part.lua')(5))
print(loadfile('none.lua'))
print(loadfile('bad.lua'))
print(pcall(dofile, 'bad.lua'))
print(pcall(loadfile, 'd'))
END
$T run

# == sourcefile of chunks
cat > run <<'END'
print(debug.sourcefile(), debug.sourcedir(), debug.sourcefile(1), debug.sourcefile(2), debug.sourcefile(3))
print(loadstring('return debug.sourcefile(), debug.sourcedir(), debug.__file__, debug.__dir__')())
local function f() return debug.sourcefile(3), (debug.sourcedir(2)) end
print(f())
print(pcall(debug.sourcefile, 'x'), pcall(debug.sourcefile, 100))
END
$T run
$T ./run
$T -e 'print(debug.sourcefile(), debug.sourcedir(), debug.__file__, debug.__dir__)'
$T < run

# == tracebacks
cat > run <<'END'
local function deep(n) if n == 0 then error('deep') end return (deep(n - 1)) end
print(select(2, xpcall(deep, debug.traceback, 30)))
print(debug.traceback('here'))
print(debug.traceback('here', 2))
print(debug.traceback({1}) ~= nil, debug.traceback(nil), debug.traceback(5))
local co = coroutine.create(function() coroutine.yield(deep) end)
coroutine.resume(co)
print(debug.traceback(co))
print(debug.traceback(co, 'co'))
print(debug.traceback(co, nil, 1))
END
$T run
$T -e 'print(debug.traceback())'
$T -e 'local function deep(n) if n == 0 then return debug.traceback() end return (deep(n - 1)) end print(deep(40))'
$T -e 'require("fiber").create(function() print(debug.traceback("in a fiber")) end)'

# == order of output
cat > run <<'END'
local ffi = require('ffi')
ffi.cdef('int puts(const char *); int printf(const char *, ...);')
print(1)
io.stderr:write('e1\n')
io.write('2 ', 3, '\n')
ffi.C.puts('4')
require('log').info('log')
io.stdout:write('5'):write('\n')
os.execute('echo sub')
io.popen('echo popen >&2'):close()
print(6)
error('end', 0)
END
$T run 2>&1
echo $?
$T run 2>&1 | cat

# == setvbuf
$T -e "io.stdout:setvbuf('no') print(1) io.stderr:write('2\n') print(3)" 2>&1 | cat
$T -e "io.stdout:setvbuf('line') print(1) io.stderr:write('2\n') io.write(3)" 2>&1 | cat
$T -e "io.stdout:setvbuf('full', 8) print(1) io.stderr:write('2\n') print(('x'):rep(20)) io.stderr:write('4\n')" 2>&1 | cat
$T -e "print(io.stdout:flush(), io.flush(), io.stdout:seek() == nil, io.type(io.stdout), pcall(io.stdout.close, io.stdout))" | cat

# == large output
$T -e "for i = 1, 3000 do print(i) if i == 1500 then io.stderr:write('half\n') end end" 2>&1 | awk '{if ($0 ~ /half/) print "half"} END {print NR}'

# == killed
$T -e "print(1) io.stderr:write('2\n') require('ffi').cdef('int raise(int);') require('ffi').C.raise(9)" 2>&1 | cat
$T -e "print(1) io.stderr:write('2\n') require('ffi').cdef('int raise(int);') require('ffi').C.raise(15) print(3) require('fiber').sleep(1) print(4)" 2>&1 | cat
$T -e "print(1) require('ffi').cdef('int raise(int);') require('ffi').C.raise(6)" 2>/dev/null | cat

# == forks
cat > run <<'END'
local ffi = require('ffi')
ffi.cdef('int fork(void); void _exit(int); void exit(int); int waitpid(int, int *, int);')
print('before')
local pid = ffi.C.fork()
if pid == 0 then print('child') ffi.C._exit(0) end
ffi.C.waitpid(pid, nil, 0)
print('after')
os.exit(0)
END
$T run | cat

# == reader that ends
$T -e "for i = 1, 100000 do print(i) end io.stderr:write('end\n')" | head -n 1
$T -e "for i = 1, 100000 do io.write(i, '\n') end io.stderr:write(tostring(io.write('x')), '\n')" | head -n 1

# == prompt and answer
printf 'Ann\n42\n' > in
$T -e "io.write('name? ') local n = io.read() io.write('age? ') local a = io.read('*n') print(n, a, io.read('*l'), io.read())" < in
$T -e "for line in io.lines() do print('<' .. line .. '>') end print(io.read())" < in
$T -e "print(io.stdin:read('*a'), io.read(0), io.read(1))" < in
